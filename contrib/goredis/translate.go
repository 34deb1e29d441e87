package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// failoverAddr is the address in the options of a client that redis.NewFailoverClient made.
const failoverAddr = "FailoverClient"

func single(o *redis.Options) (rueidis.ClientOption, []error) {
	problems := refusals(o)
	addr := o.Addr
	switch addr {
	case "":
		addr = "localhost:6379"
	case failoverAddr:
		problems = append(problems, errors.New("the Addr is that of a failover client: pass its FailoverOptions"))
	}
	network := o.Network
	if network == "" {
		network = "tcp"
		if strings.HasPrefix(addr, "/") {
			network = "unix"
		}
	}
	if !slices.Contains([]string{"tcp", "tcp4", "tcp6", "unix"}, network) {
		problems = append(problems, fmt.Errorf("the Network is %q: only tcp, tcp4, tcp6 and unix are known", network))
	}
	s := settings{
		addrs: []string{addr}, network: network, db: o.DB,
		user: o.Username, password: o.Password, clientName: o.ClientName,
		provider: o.CredentialsProvider, providerContext: o.CredentialsProviderContext,
		dialer: o.Dialer, dialTimeout: o.DialTimeout, tls: o.TLSConfig, protocol: o.Protocol,
		//lint:ignore SA1019 callers may still set the old name
		anonymous: o.DisableIdentity || o.DisableIndentity, suffix: o.IdentitySuffix,
	}
	return s.option(problems)
}

func cluster(o *redis.ClusterOptions) (rueidis.ClientOption, []error) {
	s := settings{
		addrs: o.Addrs, network: "tcp",
		user: o.Username, password: o.Password, clientName: o.ClientName,
		provider: o.CredentialsProvider, providerContext: o.CredentialsProviderContext,
		dialer: o.Dialer, dialTimeout: o.DialTimeout, tls: o.TLSConfig, protocol: o.Protocol,
		//lint:ignore SA1019 callers may still set the old name
		anonymous: o.DisableIdentity || o.DisableIndentity, suffix: o.IdentitySuffix,
		reload: o.ClusterStateReloadInterval,
	}
	return s.option(refusals(o))
}

func failover(o *redis.FailoverOptions) (rueidis.ClientOption, []error) {
	problems := refusals(o)
	if o.MasterName == "" {
		// Without it the client would take the Sentinels for a cluster.
		problems = append(problems, errors.New("no MasterName is set"))
	}
	if o.CredentialsProvider != nil || o.CredentialsProviderContext != nil {
		problems = append(problems, errors.New("options CredentialsProvider and CredentialsProviderContext can't be combined with Sentinels, which would get the credentials, too"))
	}
	s := settings{
		addrs: o.SentinelAddrs, network: "tcp", db: o.DB,
		user: o.Username, password: o.Password, clientName: o.ClientName,
		dialer: o.Dialer, dialTimeout: o.DialTimeout, tls: o.TLSConfig, protocol: o.Protocol,
		//lint:ignore SA1019 callers may still set the old name
		anonymous: o.DisableIdentity || o.DisableIndentity, suffix: o.IdentitySuffix,
	}
	opt, problems := s.option(problems)
	opt.Sentinel = rueidis.SentinelOption{
		MasterSet: o.MasterName, Username: userOf(o.SentinelUsername, o.SentinelPassword), Password: o.SentinelPassword,
		ClientName: o.ClientName, TLSConfig: o.TLSConfig, Dialer: net.Dialer{Timeout: o.DialTimeout},
	}
	return opt, problems
}

// universal chooses as redis.NewUniversalClient does.
func universal(o *redis.UniversalOptions) (rueidis.ClientOption, []error) {
	c := *o // Cluster and Failover change what they are called on
	switch {
	case c.MasterName != "":
		readOnly := c.ReadOnly
		c.ReadOnly = false
		opt, problems := failover(c.Failover())
		if readOnly {
			problems = append(problems, errors.New("option ReadOnly is set with MasterName: a replica grants no locks"))
		}
		return opt, problems
	case len(c.Addrs) > 1 || c.IsClusterMode:
		opt, problems := cluster(c.Cluster())
		if c.DB != 0 {
			problems = append(problems, fmt.Errorf("the DB is %d: a cluster has no databases", c.DB))
		}
		return opt, problems
	}
	return single(c.Simple())
}

// settings are what the option types have in common.
type settings struct {
	addrs                      []string
	network                    string
	db, protocol               int
	user, password, clientName string
	provider                   func() (username, password string)
	providerContext            func(ctx context.Context) (username, password string, err error)
	dialer                     func(ctx context.Context, network, addr string) (net.Conn, error)
	dialTimeout, reload        time.Duration
	tls                        *tls.Config
	anonymous                  bool
	suffix                     string
}

func (s settings) option(problems []error) (rueidis.ClientOption, []error) {
	if len(s.addrs) == 0 {
		problems = append(problems, errors.New("there is no address"))
	}
	if s.dialTimeout < 0 {
		problems = append(problems, fmt.Errorf("the DialTimeout is %v", s.dialTimeout))
	}
	if s.reload < 0 {
		problems = append(problems, fmt.Errorf("the ClusterStateReloadInterval is %v", s.reload))
	}
	if s.protocol > 3 {
		problems = append(problems, fmt.Errorf("the Protocol is %d: only 2 and 3 are known", s.protocol))
	}
	if s.db < 0 {
		problems = append(problems, fmt.Errorf("the DB is %d", s.db))
	}
	opt := rueidis.ClientOption{
		InitAddress: slices.Clone(s.addrs), SelectDB: s.db, AlwaysRESP2: s.protocol == 2,
		Username: userOf(s.user, s.password), Password: s.password, ClientName: s.clientName,
		TLSConfig: s.tls, Dialer: net.Dialer{Timeout: s.dialTimeout},
		AuthCredentialsFn: s.credentials(), DialCtxFn: s.dial(),
	}
	opt.ClusterOption.ShardsRefreshInterval = s.reload
	switch {
	case s.anonymous:
		opt.ClientSetInfo = rueidis.DisableClientSetInfo
	case s.suffix != "":
		opt.ClientSetInfo = []string{rueidis.LibName + "(" + s.suffix + ")", rueidis.LibVer}
	}
	return opt, problems
}

// userOf returns the user of a connection. Without a password go-redis does not log in.
func userOf(user, password string) string {
	if password == "" {
		return ""
	}
	return user
}

// credentials returns what asks for the user of a new connection, or nil if that is always the
// same.
func (s settings) credentials() func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	switch {
	case s.providerContext != nil:
		// The client has no context to give.
		timeout := s.dialTimeout
		if timeout <= 0 {
			timeout = defaultDialTimeout
		}
		return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			user, password, err := s.providerContext(ctx)
			if err != nil {
				err = fmt.Errorf("CredentialsProviderContext: %w", err)
			}
			return rueidis.AuthCredentials{Username: userOf(user, password), Password: password}, err
		}
	case s.provider != nil:
		return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			user, password := s.provider()
			return rueidis.AuthCredentials{Username: userOf(user, password), Password: password}, nil
		}
	}
	return nil
}

// defaultDialTimeout is that of lockmgr.TuneClient.
const defaultDialTimeout = 2 * time.Second

// dial returns what opens a connection, or nil if the client can do that itself.
func (s settings) dial() func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	switch {
	case s.dialer != nil:
		return func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if d.Timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, d.Timeout)
				defer cancel()
			}
			return s.dialer(ctx, s.network, addr)
		}
	case s.network != "tcp":
		return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
			if config != nil {
				return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, s.network, addr)
			}
			return d.DialContext(ctx, s.network, addr)
		}
	}
	return nil
}

// refused are the fields that must not be set, each with the reason.
var refused = map[string]string{
	"StreamingCredentialsProvider": "the client can't authenticate an open connection again",
	"OnConnect":                    "it takes a connection of go-redis",
	"Limiter":                      "it would not see the commands of the manager",
	"NewClient":                    "the manager has a client of its own",
	"ClusterSlots":                 "the manager asks the servers for the slots",
	"ReplicaOnly":                  "a replica grants no locks",
}

// refusals returns an error for each refused field of a struct that is set.
func refusals(opt any) (problems []error) {
	v := reflect.ValueOf(opt).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		why, ok := refused[name]
		if !ok || v.Field(i).IsZero() || name == "NewClient" && isDefault(v.Field(i)) {
			continue
		}
		problems = append(problems, fmt.Errorf("%s is set: %s", name, why))
	}
	return problems
}

// isDefault reports whether a NewClient is the one that redis.NewClusterClient writes into the
// options that it is given.
func isDefault(newClient reflect.Value) bool {
	return newClient.Pointer() == reflect.ValueOf(redis.NewClient).Pointer()
}
