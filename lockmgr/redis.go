package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
	"github.com/holdfast-go/holdfast/notify"
)

// Only this file of the package uses the client library. Package wire sends the
// commands of locks.

// Dial connects to a server and returns a manager that owns its connections: Close
// ends them. It has one for commands, one for messages while somebody waits, and up to
// two more for commands while it sends many. The client is built from opt as
// [TuneClient] completes it, but without AlwaysPipelining and BlockingPoolSize, and
// with a ConnWriteTimeout of at least Options.CommandTimeout. Dial blocks until the
// server has answered or the dial time-out has passed.
//
// Dial returns ErrUnavailable if the server did not answer, ErrPermission if it
// refused the user or the password, and ErrInvalidOption if an option is bad or there is
// no address. An address is host:port; for a URL see rueidis.ParseURL.
//
// It returns ErrTopology for Sentinel, for several addresses (the seeds of a
// cluster, unless opt.ForceSingleClient makes the first one a server), and for
// a server that shares a cluster with others.
func Dial(opt rueidis.ClientOption, options Options) (*Manager, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	switch n := len(opt.InitAddress); {
	case n == 0:
		return nil, fmt.Errorf("%w: ClientOption.InitAddress is empty", ErrInvalidOption)
	case strings.Contains(opt.InitAddress[0], "://"):
		return nil, fmt.Errorf("%w: an address in ClientOption.InitAddress is a URL: rueidis.ParseURL makes a ClientOption of it", ErrInvalidOption)
	case opt.Sentinel.MasterSet != "":
		return nil, unsupported(rueidis.ClientModeSentinel)
	case n > 1 && !opt.ForceSingleClient:
		return nil, fmt.Errorf("%w: %d addresses are the seeds of a cluster: give that of one server", ErrTopology, n)
	}
	opt = TuneClient(opt)
	opt.AlwaysPipelining = false // a sender reads its own connection itself
	opt.BlockingPoolSize = 0     // the connection for messages and those of the senders must fit in
	// On its own connection a sender waits no longer than this.
	opt.ConnWriteTimeout = max(opt.ConnWriteTimeout, options.CommandTimeout)
	client, err := rueidis.NewClient(opt)
	if err != nil {
		return nil, serverError(wire.DialFailure(err))
	}
	redis := wire.Redis{Client: client}
	lane := wire.Config{Server: redis, Dedicate: redis.Dedicate, KeepAlive: opt.Dialer.KeepAlive}
	m := start(newIdentity(), options, client, lane, 2*opt.Dialer.Timeout+time.Second, client.Close)
	if _, err := m.topology(context.Background()); errors.Is(err, ErrTopology) {
		_ = m.Close(context.Background()) // it holds nothing
		return nil, err
	}
	return m, nil
}

// unsupported returns the error for a client of a mode.
func unsupported(mode rueidis.ClientMode) error {
	return fmt.Errorf("%w: a %s client: give the address of one server", ErrTopology, mode)
}

// New returns a manager that borrows a client: Close leaves it open. The
// client should be built with the options that [TuneClient] sets. All commands go
// through the client's pipeline, which takes longer for a single goroutine than the
// connections that the manager of Dial has. New does no I/O. It returns ErrTopology
// for a cluster or Sentinel client. Check reports
// whether the server is part of a cluster.
func New(client rueidis.Client, options Options) (*Manager, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: the client is nil", ErrInvalidOption)
	}
	if mode := client.Mode(); mode == rueidis.ClientModeCluster || mode == rueidis.ClientModeSentinel {
		return nil, unsupported(mode)
	}
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	return start(newIdentity(), options, client, wire.Config{Server: wire.Redis{Client: client}}, 0, nil), nil
}

// start makes a manager. lane says how its commands reach the server. Opening the
// connection for messages (a dial, a handshake
// and a PING) may take dialTime, or notify's default if that is longer. A short
// Options.CommandTimeout does not shorten the time-outs of that connection: no
// lease depends on them, and far servers need more.
func start(id *identity, o Options, client rueidis.Client, lane wire.Config, dialTime time.Duration, closeClient func()) *Manager {
	hub := func(log *slog.Logger, onState func(notify.State)) *notify.Hub {
		h, err := notify.New(client, notify.Options{
			Logger: log, OnState: onState,
			DialTimeout:    max(dialTime, notify.DefaultDialTimeout),
			CommandTimeout: max(o.CommandTimeout, notify.DefaultCommandTimeout),
		})
		if err != nil {
			panic(err) // Options.complete has refused such options
		}
		return h
	}
	return newManager(id, o, lane, hub, closeClient)
}

// TuneClient completes client options with those that a lock manager needs. It
// sets time-outs that are not set. It overrides others, because the client must
// not repeat a command that may have run, one caller's time-out must not close
// the connection that all share, and commands must keep their order. One
// address is taken for one server, not for the seed of a cluster.
func TuneClient(opt rueidis.ClientOption) rueidis.ClientOption {
	opt.DisableCache = true           // nothing is cached, and some servers know no CLIENT TRACKING
	opt.DisableRetry = true           // the manager decides what may be repeated
	opt.AlwaysPipelining = true       // a time-out frees its caller and leaves the connection alone
	opt.DisableAutoPipelining = false // it would switch AlwaysPipelining off
	opt.PipelineMultiplex = -1        // one connection: commands keep their order
	opt.BlockingPipeline = -1         // large batches stay on it
	opt.ConnLifetime = 0              // when it ends, the client sends commands twice
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
