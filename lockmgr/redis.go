package lockmgr

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/clean"
	"github.com/holdfast-go/holdfast/lockmgr/internal/cluster"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
	"github.com/holdfast-go/holdfast/notify"
)

// No other file of the package uses the client library. Package wire sends the commands of locks.

// Dial connects to a server and returns a manager that owns its connections: Close ends the
// connections. The manager has a connection for commands, another for messages while somebody
// waits, and up to four more for commands while it sends many. The client is built from opt as
// [TuneClient] completes it, but without AlwaysPipelining and BlockingPoolSize, and with a
// ConnWriteTimeout of at least Options.CommandTimeout. With Options.Replicas there is a further
// connection.
//
// Dial blocks until the server has answered, or until a dial or a command has run into its
// time-out. In a cluster Dial dials twice and asks several questions, each with a time-out.
//
// Dial returns ErrUnavailable if the server did not answer, ErrPermission if the server refused the
// user or the password, and ErrInvalidOption if an option is bad or there is no address. An address
// is host:port; for a URL see rueidis.ParseURL.
//
// Several addresses are the seeds of a cluster, unless opt.ForceSingleClient makes the first
// address a single server. Dial asks the nodes at all addresses at once, and uses the addresses of
// the cluster to which most belong. A single answer is enough. If the server at a single address is
// a node of a cluster, be it a replica or the only master, Dial connects to the whole cluster. The
// manager then has two connections to each master in use, for commands and for messages. It has a
// third to each with Options.Replicas, and another to a master that joined the cluster meanwhile.
// docs/clusters.md has the differences in a cluster.
//
// If a single server has become a replica, and its address (of a service, a proxy, a virtual IP)
// leads to another master by now, the manager closes its connections and dials again.
//
// With opt.Sentinel.MasterSet the addresses lead to Sentinels, and Dial connects to the master that
// the Sentinels name. When the Sentinels name another master, the manager follows.
//
// With Options.ConnectLater Dial returns at once, and fails for bad options only. Until the first
// connection requests fail like those to a server that is away: within Options.RetryTime, with
// ErrUnavailable. They succeed if the server comes before. opt alone says what the servers are: one
// address is a single server, several addresses are a cluster, also the same address twice, and
// MasterSet means Sentinels. The servers are authoritative for all else, and nothing of that is
// known until the first connection: whether they are what opt says, who the user is, which master
// serves a name. So requests return the ErrTopology or ErrPermission that Dial would return. For a
// cluster older than 7.0, set Options.Channels to ClassicChannels. A manager of a single server
// connects for its first request. A manager of a cluster, or of Sentinels, connects in the
// background.
//
// Dial returns ErrTopology for a server that shares a cluster with other masters if
// opt.ForceSingleClient is set, for the address of a Sentinel without MasterSet, for a MasterSet
// unknown to the Sentinels, for a database that the server does not have, for several addresses of
// servers that are no cluster, and if as many seeds belong to a second cluster as to the first.
func Dial(opt rueidis.ClientOption, options Options) (*Manager, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	switch n := len(opt.InitAddress); {
	case n == 0:
		return nil, fmt.Errorf("%w: ClientOption.InitAddress is empty", ErrInvalidOption)
	case slices.ContainsFunc(opt.InitAddress, func(addr string) bool { return strings.Contains(addr, "://") }):
		return nil, fmt.Errorf("%w: an address in ClientOption.InitAddress is a URL: rueidis.ParseURL makes a ClientOption of it", ErrInvalidOption)
	case opt.Sentinel.MasterSet != "", n > 1 && !opt.ForceSingleClient:
		return dialMany(opt, options)
	}
	return dialOne(opt, options)
}

// dialOne connects to a server by its only address. If the server is a node of a cluster, dialOne
// connects to the cluster.
func dialOne(opt rueidis.ClientOption, options Options) (*Manager, error) {
	asked := opt
	opt = TuneClient(opt)
	opt.AlwaysPipelining = false // a sender reads its own connection itself
	opt.BlockingPoolSize = 0     // the connection for messages and those of the senders must fit in
	// ConnWriteTimeout bounds the waits of a sender on its own connection.
	opt.ConnWriteTimeout = max(opt.ConnWriteTimeout, options.CommandTimeout)
	connector := wire.NewConnector()
	ended := func(_ string, shared bool) {
		if shared {
			connector.Ended()
		}
	}
	first := opt
	if options.ConnectLater {
		first.DialCtxFn = failFirst(dialOf(opt))
	}
	client, err := newClient(context.Background(), first, ended)
	if err != nil {
		return nil, serverError(wire.DialFailure(err))
	}
	if options.ConnectLater {
		connector.UseLater(client, func(hello *wire.Answer) *wire.Failure { return notSingle(hello, asked.ForceSingleClient) })
	} else {
		connector.Use(client)
	}
	lane := wire.Config{Server: connector, Dedicate: connector.Dedicate, KeepAlive: opt.Dialer.KeepAlive}
	demotion := newDemotion(client.(ownedClient).conns, func(ctx context.Context) bool { return reachesMaster(ctx, opt) })
	lane.Demoted = demotion.suspected
	end := func() {
		demotion.close()
		client.Close() // a PING under way may wait for a dial
		connector.Close()
	}
	m := start(options, client, lane, nil, dialTime(opt), end)
	if options.ConnectLater {
		return m, nil
	}
	hello, err := m.hello(context.Background())
	if err != nil {
		return m, nil // commands tell why
	}
	if inCluster(&hello) && !asked.ForceSingleClient {
		_ = m.Close(context.Background()) // it holds nothing
		return dialMany(asked, options)
	}
	if _, err := m.topologyBy(context.Background(), &hello); errors.Is(err, ErrTopology) {
		_ = m.Close(context.Background())
		return nil, err
	}
	return m, nil
}

// DialURL is [Dial] for a URL, with the default client options. Forms:
//
//	redis://user:password@host:6379/0            rediss:// for TLS
//	redis://host1:6379?addr=host2:6379           a cluster
//	redis://sentinel:26379?master_set=main       Sentinels; more of them by addr=
//
// See rueidis.ParseURL for more parameters. A URL that cannot be meant as written fails with
// ErrInvalidOption. Such a URL has no host, a #, an unknown parameter or one twice: a password with
// unescaped special characters makes such a URL. The error does not repeat the URL.
func DialURL(url string, options Options) (*Manager, error) {
	if err := checkURL(url); err != nil {
		return nil, err
	}
	opt, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("%w: the URL has a parameter with a bad value", ErrInvalidOption) // the text of err has the value
	}
	return Dial(opt, options)
}

// dialMany connects to a cluster, or by Sentinels to their master.
func dialMany(opt rueidis.ClientOption, options Options) (*Manager, error) {
	opt = TuneClient(opt)
	opt.ForceSingleClient = false
	opt.BlockingPoolSize = 0 // the connection for messages and those that wait for replicas must fit in
	var nodes *cluster.Nodes
	ended := func(addr string, _ bool) { nodes.Ended(addr) }
	nodes = cluster.NewNodes(opener(context.Background(), opt, ended))
	if options.ConnectLater {
		return dialLater(opt, options, nodes, ended), nil
	}
	client, f := connectMany(context.Background(), opt, ended)
	if f != nil {
		return nil, serverError(f)
	}
	m, err := startMany(client, nodes, options, dialTime(opt), client.Close)
	if err != nil {
		client.Close()
	}
	return m, err
}

// connectMany returns the client of a cluster, or of Sentinels. connectMany blocks for dials and
// questions, and ends soon after ctx.
func connectMany(ctx context.Context, opt rueidis.ClientOption, ended func(addr string, shared bool)) (rueidis.Client, *wire.Failure) {
	if opt.Sentinel.MasterSet == "" && len(opt.InitAddress) > 1 {
		seeds, err := cluster.Seeds(ctx, opt.InitAddress, opener(ctx, opt, ended))
		if err != nil {
			return nil, &wire.Failure{Kind: wire.Topology, Ran: core.No, Final: true, Err: clean.Error(err)}
		}
		opt.InitAddress = seeds
	}
	client, err := newClient(ctx, opt, ended)
	if err != nil {
		return nil, wire.DialFailure(err)
	}
	return client, nil
}

// dialLater is dialMany with Options.ConnectLater.
//
// The servers are authoritative for the layout, and for the master that Sentinels name. Nobody
// knows either before the first connection. Until then the manager's only lane is for the first
// address, which may be the address of a Sentinel, of a replica or of a node of another cluster. So
// the lane sends nothing, and answers with the failure of the last try to connect. After that the
// manager is like one of dialMany.
func dialLater(opt rueidis.ClientOption, o Options, nodes *cluster.Nodes, ended func(addr string, shared bool)) *Manager {
	late := newMeeting()
	servers := &wire.Cluster{First: []wire.Shard{{Addr: opt.InitAddress[0], Slots: [][2]int{{0, wire.Slots - 1}}}}}
	layout, find, lane := nodes.Layout, findIn(nodes), wire.Config{Server: nodes}
	if opt.Sentinel.MasterSet == "" {
		servers.Node = nodes.Node
		nodes.Later(late.failure)
	} else {
		servers.OneSlot, servers.Every = true, masterEvery
		layout = func(ctx context.Context) ([]wire.Shard, error) { return cluster.OneMaster(late.found)(ctx) }
		find, lane.Server = late.node, lateServer{late}
	}
	servers.Layout = func(ctx context.Context) ([]wire.Shard, error) {
		if f := late.failure(ctx); f != nil {
			return nil, f.Err
		}
		return layout(ctx)
	}
	m := start(o, nodeClient{find: find}, lane, servers, dialTime(opt), func() {
		late.close()
		nodes.Close()
	})
	if servers.Node != nil {
		m.nodes = nodes
	}
	go late.run(func(ctx context.Context) (rueidis.Client, *wire.Failure) {
		c, f := connectMany(ctx, opt, ended)
		if f == nil && servers.Node != nil {
			if _, f = meetCluster(ctx, nodes, c, &o, false); f != nil {
				c.Close()
			}
		}
		return c, f
	}, m.lanes.LookSoon)
	return m
}

// A meeting makes the client of a manager that connects later.
//
//	no client ──a try──▶ failure ──meetEvery──▶ another try
//	              └────▶ client, until close
type meeting struct {
	ctx   context.Context // of tries; ends with close
	stop  context.CancelFunc
	tried chan struct{} // closed after the first try
	ended chan struct{} // closed after the last try

	mu    sync.Mutex
	last  *wire.Failure  // of the last try
	found rueidis.Client // not read before failure has returned nil, except by close
}

// meetEvery is the pause between two tries. A request waits for that long at most after its server
// has come.
const meetEvery = 250 * time.Millisecond

func newMeeting() *meeting {
	m := &meeting{tried: make(chan struct{}), ended: make(chan struct{})}
	m.ctx, m.stop = context.WithCancel(context.Background())
	return m
}

// run tries until it has a client, and then calls met, or until close. try must end soon after its
// context.
func (m *meeting) run(try func(ctx context.Context) (rueidis.Client, *wire.Failure), met func()) {
	defer close(m.ended)
	for first := true; ; first = false {
		c, f := try(m.ctx)
		m.mu.Lock()
		if m.last = f; f == nil {
			m.found = c
		}
		m.mu.Unlock()
		if first {
			close(m.tried)
		}
		if f == nil {
			met()
			return
		}
		select {
		case <-m.ctx.Done():
			return
		case <-time.After(meetEvery):
		}
	}
}

// failure returns why there is no client, or nil. failure blocks until the first try or ctx has
// ended.
func (m *meeting) failure(ctx context.Context) *wire.Failure {
	select {
	case <-m.tried:
	case <-ctx.Done():
		return wire.Unsent(ctx.Err())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// close ends the tries, and closes the client.
func (m *meeting) close() {
	m.stop()
	<-m.ended
	if m.found != nil {
		m.found.Close()
	}
}

// node returns the client of the server at an address, if the Sentinels name that server.
func (m *meeting) node(addr string) (rueidis.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), notify.DefaultCommandTimeout)
	defer cancel()
	if f := m.failure(ctx); f != nil {
		return nil, f.Err
	}
	if c := m.found.Nodes()[addr]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("the Sentinels name another master than %s", clean.Text(addr, clean.Most))
}

// A lateServer is the master that Sentinels name, once there is a client.
type lateServer struct{ late *meeting }

// Exec makes lateServer a Server.
func (s lateServer) Exec(d *wire.Deadline, commands []wire.Command, answers []wire.Answer) {
	if f := s.late.failure(d.Start()); f != nil {
		wire.Refuse(answers, f)
		return
	}
	wire.Redis{Client: s.late.found}.Exec(d, commands, answers)
}

// Dedicate is Redis.Dedicate. Dedicate must not be called before Exec has brought an answer.
func (s lateServer) Dedicate() (wire.Connection, error) {
	return wire.Redis{Client: s.late.found}.Dedicate()
}

// meetCluster returns the layout of a cluster. If allowOlder is set, a cluster without sharded
// channels makes o.Channels ClassicChannels.
func meetCluster(ctx context.Context, nodes *cluster.Nodes, client rueidis.Client, o *Options, allowOlder bool) ([]wire.Shard, *wire.Failure) {
	nodes.Use(client, o.Channels.published())
	if o.Channels != ClassicChannels && !nodes.KnowsSharded() {
		if !allowOlder {
			return nil, &wire.Failure{
				Kind: wire.Topology, Ran: core.No, Final: true, Err: errors.New("the cluster is older than version 7.0 and has no sharded channels"),
				Hint: "with Options.ConnectLater, set Options.Channels to ClassicChannels",
			}
		}
		o.Channels = ClassicChannels
		nodes.Use(client, wire.Classic)
	}
	shards, err := nodes.Layout(ctx)
	switch {
	case err != nil:
		return nil, wire.DialFailure(err)
	case len(shards) == 0:
		return nil, &wire.Failure{Kind: wire.Unavailable, Ran: core.No, Err: errors.New("no node of the cluster serves a slot")}
	}
	return shards, nil
}

// errLater is the error of a dial that is put off.
var errLater = errors.New("not dialled yet")

// failFirst returns a function that fails once with errLater, and then dials as dial does.
// rueidis.NewClient dials for a single server, and returns a client even if the dial fails. That
// client dials again for the next command.
func failFirst(dial dialFunc) dialFunc {
	var begun atomic.Bool
	return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		if begun.CompareAndSwap(false, true) {
			return nil, errLater
		}
		return dial(ctx, addr, d, config)
	}
}

// opener returns a function that connects to a node with the options of a cluster. The function
// ends soon after ctx. For ended see conns.
func opener(ctx context.Context, opt rueidis.ClientOption, ended func(addr string, shared bool)) func(addr string) (rueidis.Client, error) {
	return func(addr string) (rueidis.Client, error) {
		one := opt
		one.InitAddress, one.ForceSingleClient = []string{addr}, true
		return newClient(ctx, one, ended)
	}
}

// An ownedClient is a client whose Close leaves no connection open.
type ownedClient struct {
	rueidis.Client
	conns *conns
}

// Close closes the connections first. The client alone would wait for an answer on each connection,
// for a second if the server is silent.
func (c ownedClient) Close() {
	c.conns.close()
	c.Client.Close()
}

// reachesMaster connects once more to the address of a client, and reports whether a master serves
// there. reachesMaster ends soon after ctx.
func reachesMaster(ctx context.Context, opt rueidis.ClientOption) bool {
	c, err := newClient(ctx, opt, nil)
	if err != nil {
		return false
	}
	defer c.Close()
	defer context.AfterFunc(ctx, c.(ownedClient).conns.close)()
	ctx, cancel := context.WithTimeout(ctx, opt.ConnWriteTimeout)
	defer cancel()
	hello, err := c.Do(ctx, c.B().Arbitrary("HELLO").Build()).AsMap()
	if err != nil {
		return false
	}
	role := hello["role"]
	if word, _ := role.ToString(); word != "master" {
		return false
	}
	err = c.Do(ctx, c.B().Ping().Build()).Error() // refused by a server that is loading its data
	return err == nil || wire.DialFailure(err).Kind == wire.Permission
}

// newClient returns a client whose Close leaves no connection open. If newClient fails, no
// connection is open either. newClient fails soon after ctx ends. For ended see conns.
func newClient(ctx context.Context, opt rueidis.ClientOption, ended func(addr string, shared bool)) (rueidis.Client, error) {
	conns, dial := newConns(ended), dialOf(opt)
	defer context.AfterFunc(ctx, conns.close)()
	if opt.DisableTCPNoDelay {
		dial = delayed(dial) // the client does that only for connections whose type it knows
	}
	opt.DialCtxFn = conns.track(dial)
	if ask := opt.AuthCredentialsFn; ask != nil {
		opt.AuthCredentialsFn = func(c rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			credentials, err := ask(c)
			if err != nil {
				err = &wire.CredentialsError{Err: err} // else it looks like one of the connection
			}
			return credentials, err
		}
	}
	client, err := rueidis.NewClient(opt)
	if err != nil && (client == nil || !errors.Is(err, errLater)) {
		if client != nil {
			client.Close()
		}
		conns.close()
		return nil, err
	}
	return ownedClient{client, conns}, nil
}

// delayed returns a function that dials as dial does, and lets TCP delay small packets.
func delayed(dial dialFunc) dialFunc {
	return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		c, err := dial(ctx, addr, d, config)
		if tcp, ok := belowTLS(c).(*net.TCPConn); ok {
			_ = tcp.SetNoDelay(false) // if the connection is closed, the client notices that
		}
		return c, err
	}
}

// dialOf returns a function that dials as a client with the options opt does.
func dialOf(opt rueidis.ClientOption) dialFunc {
	dial := opt.DialCtxFn
	switch {
	case dial != nil:
	case opt.DialFn != nil:
		dial = func(_ context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
			return opt.DialFn(addr, d, config)
		}
	default:
		dial = func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
			if config != nil {
				return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", addr)
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	return dial
}

// masterEvery is how often a manager looks for a new master of its Sentinel client. A look does no
// I/O. Without the looks, the connection for messages would stay at the old master, without an
// error, until Sentinel closes it.
const masterEvery = 250 * time.Millisecond

// startMany makes a manager for the client of a cluster or of Sentinel. nodes are those of a
// cluster. For dialTime see start.
func startMany(client rueidis.Client, nodes *cluster.Nodes, o Options, dialTime time.Duration, closeClient func()) (*Manager, error) {
	if client.Mode() != rueidis.ClientModeCluster {
		layout := cluster.OneMaster(client)
		first, err := layout(context.Background())
		if err != nil {
			return nil, serverError(wire.DialFailure(err))
		}
		master := &wire.Cluster{First: first, Layout: layout, Every: masterEvery, OneSlot: true}
		return start(o, client, wire.Config{Server: wire.Redis{Client: client}}, master, dialTime, closeClient), nil
	}
	end := func() {
		if closeClient != nil {
			closeClient() // a question under way may wait for a dial
		}
		nodes.Close()
	}
	shards, f := meetCluster(context.Background(), nodes, client, &o, true)
	if f != nil {
		end()
		return nil, serverError(f)
	}
	masters := &wire.Cluster{First: shards, Layout: nodes.Layout, Node: nodes.Node}
	m := start(o, nodeClient{client, findIn(nodes)}, wire.Config{Server: nodes}, masters, dialTime, end)
	m.nodes = nodes
	return m, nil
}

// A nodeClient is the client of several servers, for notify, which needs the method Node only.
type nodeClient struct {
	rueidis.Client // nil if the manager connects later
	find           func(addr string) (rueidis.Client, error)
}

// Node returns the client of a server.
func (c nodeClient) Node(addr string) (rueidis.Client, error) { return c.find(addr) }

// findIn returns a function for the client of a master, after the master has said that it is of the
// cluster. The function blocks until then.
func findIn(nodes *cluster.Nodes) func(addr string) (rueidis.Client, error) {
	return func(addr string) (rueidis.Client, error) {
		ctx, cancel := context.WithTimeout(context.Background(), notify.DefaultCommandTimeout)
		defer cancel()
		return nodes.Client(ctx, addr)
	}
}

// New returns a manager that borrows a client: Close leaves it open. The client should be built
// with the options that [TuneClient] sets. All commands go through the client's pipeline. For a
// single goroutine the pipeline takes longer than the connections of a manager from Dial. For a
// client of a single server New does no I/O. For the client of a cluster New asks which slots each
// master serves, and blocks for a second and a half at most if nodes do not answer. TuneClient may
// tune a client for one address. New takes such a client for that of a single server, even at the
// only master of a cluster. The manager follows no failover then, and [Manager.Check] warns.
//
// A borrowed client keeps its connections for as long as the server does. If its only address leads
// to another server after a planned failover (FAILOVER, REPLICAOF), but the old server lives on as
// a replica, the manager stays at the old server: requests fail with ErrReadOnly, and locks held
// are lost at their deadlines. CLIENT KILL TYPE normal and TYPE pubsub at the old server end the
// connections.
//
// A borrowed client dials with the time-out of the command that needs the connection. So
// Options.CommandTimeout must be longer than a dial takes. If the client was built with
// DisableAutoPipelining, its ConnWriteTimeout takes the place of CommandTimeout, and Close may wait
// for as long, and its pool (BlockingPoolSize) needs 17 free connections to each server. With
// Options.Replicas the pool needs one more.
//
// If the server is silent, Close takes up to a second more than that of a manager of [Dial]: the
// client waits before it ends its connection for messages. A dial under way also delays Close.
func New(client rueidis.Client, options Options) (*Manager, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: the client is nil", ErrInvalidOption)
	}
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	if mode := client.Mode(); mode == rueidis.ClientModeCluster || mode == rueidis.ClientModeSentinel {
		return startMany(client, cluster.NewNodes(nil), options, 0, nil)
	}
	return start(options, client, wire.Config{Server: wire.Redis{Client: client}}, nil, 0, nil), nil
}

// dialTime returns how long opening a connection may take: a dial, and a handshake.
func dialTime(opt rueidis.ClientOption) time.Duration {
	return 2*min(opt.Dialer.Timeout, MaxLease) + time.Second
}

// start makes a manager. lane says how the manager's commands reach the server. masters is nil for
// a single server. Opening the connection for messages (a dial, a handshake and a PING) may take
// dialTime, or notify's default if longer. A short Options.CommandTimeout does not shorten the
// time-outs of the connection for messages: no lease depends on them, and far servers need more.
func start(o Options, client rueidis.Client, lane wire.Config, masters *wire.Cluster, dialTime time.Duration, closeClient func()) *Manager {
	hub := func(log *slog.Logger, onState func(notify.State), master string, sharded bool) *notify.Hub {
		h, err := notify.New(client, notify.Options{
			Logger: log, OnState: onState, Node: master, Sharded: sharded,
			DialTimeout:    max(dialTime, notify.DefaultDialTimeout),
			CommandTimeout: max(o.CommandTimeout, notify.DefaultCommandTimeout),
		})
		if err != nil {
			panic(err) // Options.complete has refused such options
		}
		return h
	}
	return newManager(o, lane, masters, hub, closeClient)
}

// TuneClient completes client options for a lock manager. TuneClient sets time-outs that are zero.
// TuneClient overrides other options, because the client must not repeat a command that may have
// run, the time-out of a single caller must not close the shared connection, and commands must keep
// their order. A single address is taken for a single server, not for the seed of a cluster.
func TuneClient(opt rueidis.ClientOption) rueidis.ClientOption {
	opt.DisableCache = true           // nothing is cached, and some servers know no CLIENT TRACKING
	opt.DisableRetry = true           // the manager decides what may be repeated
	opt.AlwaysPipelining = true       // a time-out frees its caller and leaves the connection alone
	opt.DisableAutoPipelining = false // it would switch AlwaysPipelining off
	opt.PipelineMultiplex = -1        // one connection: commands keep their order
	opt.BlockingPipeline = -1         // large batches stay on it
	opt.ConnLifetime = 0              // when it ends, the client sends commands twice
	opt.SendToReplicas = nil          // a replica knows neither the newest locks nor all messages
	opt.ReplicaOnly = false
	if opt.Sentinel.MasterSet != "" {
		// A client that misses the message about a new master would keep the old master for ever.
		setDefault(&opt.Sentinel.TopologyRefreshInterval, 2*time.Second)
		setDefault(&opt.Sentinel.Dialer.Timeout, 2*time.Second)
	}
	setDefault(&opt.ClusterOption.ShardsRefreshInterval, 10*time.Second)
	setDefault(&opt.ClusterOption.MaxMovedRedirections, 5)
	setDefault(&opt.Dialer.Timeout, 2*time.Second)
	setDefault(&opt.Dialer.KeepAlive, 500*time.Millisecond) // the time between pings of an idle connection
	setDefault(&opt.ConnWriteTimeout, 2*time.Second)
	setDefault(&opt.ReadBufferEachConn, 64<<10) // a large batch; the client's default is half a MiB
	setDefault(&opt.WriteBufferEachConn, 64<<10)
	if len(opt.InitAddress) == 1 && opt.Sentinel.MasterSet == "" { // one address is one server
		opt.ForceSingleClient = true
	}
	return opt
}
