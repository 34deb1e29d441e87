package goredis

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/go-redis/v9/push"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

type fate int

const (
	translated fate = iota + 1
	dropped         // and the package comment says what takes its place
	meaningless
	refusedField
)

// fates says what becomes of every field of the four option types.
var fates = map[string]fate{
	"Addr": translated, "Addrs": translated, "SentinelAddrs": translated, "Network": translated,
	"Username": translated, "Password": translated, "DB": translated, "TLSConfig": translated,
	"CredentialsProvider": translated, "CredentialsProviderContext": translated,
	"Dialer": translated, "DialTimeout": translated, "Protocol": translated, "ClientName": translated,
	"DisableIdentity": translated, "DisableIndentity": translated, "IdentitySuffix": translated,
	"MasterName": translated, "SentinelUsername": translated, "SentinelPassword": translated,
	"ClusterStateReloadInterval": translated,

	"StreamingCredentialsProvider": refusedField, "OnConnect": refusedField, "Limiter": refusedField,
	"NewClient": refusedField, "ClusterSlots": refusedField, "ReplicaOnly": refusedField,

	"ReadTimeout": dropped, "WriteTimeout": dropped, "ContextTimeoutEnabled": dropped, "PoolTimeout": dropped,
	"MaxRetries": dropped, "MinRetryBackoff": dropped, "MaxRetryBackoff": dropped, "MaxRedirects": dropped,
	"DialerRetries": dropped, "DialerRetryTimeout": dropped, "DialerRetryBackoff": dropped,

	// Dials: the manager opens few connections.
	"MaxConcurrentDials": meaningless,
	// Pools and buffers.
	"PoolFIFO": meaningless, "PoolSize": meaningless,
	"MinIdleConns": meaningless, "MaxIdleConns": meaningless, "MaxActiveConns": meaningless,
	"ConnMaxIdleTime": meaningless, "ConnMaxLifetime": meaningless, "ConnMaxLifetimeJitter": meaningless,
	"ReadBufferSize": meaningless, "WriteBufferSize": meaningless,
	"PipelineReadBufferSize": meaningless, "PipelineWriteBufferSize": meaningless,
	"PipelinePoolSize": meaningless, "AutoPipelineOptions": meaningless,
	// Reads: locks are taken at masters.
	"ReadOnly": meaningless, "RouteByLatency": meaningless, "RouteByLatencyTolerance": meaningless,
	"RouteRandomly": meaningless, "UseDisconnectedReplicas": meaningless,
	"DisableRoutingPolicies": meaningless, "ShardPicker": meaningless,
	// Caches and notices of go-redis' own connections.
	"ClientSideCacheConfig": meaningless, "ClientSideCache": meaningless,
	"ClientSideCacheStrategy": meaningless, "ClientSideCacheRefreshOnInvalidate": meaningless,
	"ClientSideCacheCoalesceMisses": meaningless, "ClientSideCacheInvalidationBatchWindow": meaningless,
	"PushNotificationProcessor": meaningless, "MaintNotificationsConfig": meaningless,
	"NodeAddress": meaningless, "FailingTimeoutSeconds": meaningless, "UnstableResp3": meaningless,
	// Dial asks the server whether it is part of a cluster.
	"IsClusterMode": meaningless,
}

// base is an option struct that can be translated, and how it differs from fates.
type base struct {
	make   func() any
	differ map[string]fate
}

var bases = map[string]base{
	"single":  {make: func() any { return &redis.Options{Addr: "h:1"} }},
	"cluster": {make: func() any { return &redis.ClusterOptions{Addrs: []string{"h:1", "h:2"}} }},
	"failover": {
		make:   func() any { return &redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{"h:1"}} },
		differ: map[string]fate{"CredentialsProvider": refusedField, "CredentialsProviderContext": refusedField},
	},
	"universal single": {
		make:   func() any { return &redis.UniversalOptions{Addrs: []string{"h:1"}} },
		differ: map[string]fate{"SentinelUsername": meaningless, "SentinelPassword": meaningless},
	},
	"universal cluster": {
		make:   func() any { return &redis.UniversalOptions{Addrs: []string{"h:1", "h:2"}} },
		differ: map[string]fate{"SentinelUsername": meaningless, "SentinelPassword": meaningless, "DB": refusedField},
	},
	"universal failover": {
		make: func() any { return &redis.UniversalOptions{Addrs: []string{"h:1"}, MasterName: "main"} },
		differ: map[string]fate{
			"CredentialsProvider": refusedField, "CredentialsProviderContext": refusedField, "ReadOnly": refusedField,
		},
	},
}

// Each field that is set changes the translation, or leaves it as it is, or is refused by its name,
// as the table says. A field that the table does not know fails, so a new version of go-redis can't
// add one unnoticed.
func TestClientOption_EveryFieldHasAFate(t *testing.T) {
	for name, b := range bases {
		t.Run(name, func(t *testing.T) {
			kind := reflect.TypeOf(b.make()).Elem()
			for i := range kind.NumField() {
				field := kind.Field(i)
				if !field.IsExported() {
					continue
				}
				want, ok := b.differ[field.Name]
				if !ok {
					want, ok = fates[field.Name]
				}
				require.True(t, ok, "%v has a field %s that the table does not know", kind, field.Name)
				make := func() any {
					opt := b.make()
					if of, ok := strings.CutSuffix(field.Name, "Username"); ok { // it has no effect without a password
						reflect.ValueOf(opt).Elem().FieldByName(of + "Password").SetString("p")
					}
					return opt
				}
				plain, problems := translateAny(make())
				require.Empty(t, problems)
				opt := make()
				set(t, reflect.ValueOf(opt).Elem().Field(i), field.Name)
				got, problems := translateAny(opt)
				switch want {
				case translated:
					require.Empty(t, problems, field.Name)
					require.False(t, reflect.DeepEqual(plain, got), "%s has no effect", field.Name)
				case dropped, meaningless:
					require.Empty(t, problems, field.Name)
					require.True(t, reflect.DeepEqual(plain, got), "%s has an effect: %+v", field.Name, got)
				case refusedField:
					require.Len(t, problems, 1, field.Name)
					require.ErrorContains(t, problems[0], field.Name)
				}
			}
		})
	}
}

// set gives a field a value that is not its zero value.
func set(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	if sample, ok := samples(t)[name]; ok {
		v.Set(reflect.ValueOf(sample))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(2)
		if v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(int64(7 * time.Second))
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { panic("called") }))
	default:
		t.Fatalf("%s needs a sample of type %v", name, v.Type())
	}
	require.False(t, v.IsZero(), name)
}

// samples are values for fields for which set can't make one that means something.
func samples(t *testing.T) map[string]any {
	// Its type is internal. A cluster client writes one into its options.
	with := &redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}
	require.NoError(t, redis.NewClusterClient(with).Close())
	return map[string]any{
		"Network":       "unix",
		"Addrs":         []string{"other:1", "other:2"},
		"SentinelAddrs": []string{"other:1"},
		"StreamingCredentialsProvider": struct {
			auth.StreamingCredentialsProvider
		}{},
		"Limiter":                   struct{ redis.Limiter }{},
		"PushNotificationProcessor": struct{ push.NotificationProcessor }{},
		"ClientSideCache":           struct{ redis.Cache }{},
		"ShardPicker":               with.ShardPicker,
	}
}

// The table knows no field that go-redis does not have, and the package comment names each field
// that is translated, refused, or dropped for one of lockmgr.Options.
func TestClientOption_TableAndCommentFit(t *testing.T) {
	there := map[string]bool{}
	for _, b := range bases {
		kind := reflect.TypeOf(b.make()).Elem()
		for i := range kind.NumField() {
			there[kind.Field(i).Name] = true
		}
	}
	doc := redistest.Must(os.ReadFile("doc.go"))(t)
	for name, f := range fates {
		require.True(t, there[name], "go-redis has no field %s", name)
		require.Equal(t, f == refusedField, refused[name] != "", name)
		if f != meaningless {
			require.Regexp(t, `\b`+name+`\b`, string(doc))
		}
	}
}

// What is translated arrives in the right place.
func TestClientOption_Values(t *testing.T) {
	got := redistest.Must(ClientOption(&redis.FailoverOptions{
		MasterName: "main", SentinelAddrs: []string{"s1:1", "s2:2"}, SentinelUsername: "su", SentinelPassword: "sp",
		Username: "u", Password: "p", DB: 3, ClientName: "n", DialTimeout: 4 * time.Second, IdentitySuffix: "orders",
	}))(t)
	require.Equal(t, []string{"s1:1", "s2:2"}, got.InitAddress)
	require.Equal(t, "u p 3 n", fmt.Sprint(got.Username, " ", got.Password, " ", got.SelectDB, " ", got.ClientName))
	require.Equal(t, 4*time.Second, got.Dialer.Timeout)
	require.Equal(t, []string{"rueidis(orders)", rueidis.LibVer}, got.ClientSetInfo)
	s := got.Sentinel
	require.Equal(t, []string{"main", "su", "sp", "n"}, []string{s.MasterSet, s.Username, s.Password, s.ClientName})
	require.Equal(t, 4*time.Second, s.Dialer.Timeout)

	plain := redistest.Must(ClientOption(&redis.Options{}))(t)
	require.Equal(t, []string{"localhost:6379"}, plain.InitAddress)
	require.Nil(t, plain.DialCtxFn)
	require.False(t, plain.AlwaysRESP2)
}

// Values that nothing can be made of are refused, all at once.
func TestClientOption_Refuses(t *testing.T) {
	failover := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main"})
	require.NoError(t, failover.Close())
	for want, opt := range map[string]any{
		"Network is":     &redis.Options{Network: "udp"},
		"FailoverOption": failover.Options(),
		"DialTimeout is": &redis.Options{DialTimeout: -1},
		"Protocol is 4":  &redis.Options{Protocol: 4},
		"DB is -1":       &redis.Options{DB: -1},
		"no address":     &redis.ClusterOptions{},
		"MasterName":     &redis.FailoverOptions{SentinelAddrs: []string{"h:1"}},
		"ReloadInterval": &redis.ClusterOptions{Addrs: []string{"h:1"}, ClusterStateReloadInterval: -1},
	} {
		_, problems := translateAny(opt)
		require.NotEmpty(t, problems, want)
		require.Contains(t, fmt.Sprint(problems), want)
	}
	_, err := ClientOption[*redis.Options](nil)
	require.ErrorIs(t, err, lockmgr.ErrInvalidOption)
	_, err = Dial(&redis.Options{Network: "udp", DB: -1}, lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrInvalidOption)
	require.ErrorContains(t, err, "Network")
	require.ErrorContains(t, err, "DB")
}

// A client of go-redis completes the options that it is given, or its own copy. Both can be used.
func TestClientOption_TakesOptionsOfAClient(t *testing.T) {
	used := &redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}
	require.NoError(t, redis.NewClusterClient(used).Close())
	require.NotNil(t, used.NewClient)
	_, err := ClientOption(used)
	require.NoError(t, err)

	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	require.NoError(t, client.Close())
	_, err = ClientOption(client.Options())
	require.NoError(t, err)

	universal := &redis.UniversalOptions{MasterName: "main"}
	_, err = ClientOption(universal)
	require.NoError(t, err)
	require.Empty(t, universal.Addrs, "opt was changed")
}
