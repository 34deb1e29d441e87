package redistest

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
)

func TestServer_AnswersWhereItSays(t *testing.T) {
	s := Start(t)
	require.Equal(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port())), s.Addr())

	reply := Must(s.Do("SET", "greeting", "good\r\nday"))(t)
	require.Equal(t, "OK", reply)
	reply = Must(s.Do("GET", "greeting"))(t)
	require.Equal(t, "good\r\nday", reply)

	info := Must(s.Do("INFO", "server"))(t)
	require.Contains(t, info, "process_id:"+strconv.Itoa(s.PID())+"\r\n")

	_, err := s.Do("INCR", "greeting")
	require.ErrorContains(t, err, "ERR value is not an integer")
}

func TestServer_IsApartFromOthers(t *testing.T) {
	a, b := Start(t), Start(t)
	Must(a.Do("SET", "k", "v"))(t)
	reply := Must(b.Do("EXISTS", "k"))(t)
	require.Equal(t, "0", reply)
}

func TestServer_WritesNothing(t *testing.T) {
	s := Start(t)
	for _, name := range []string{"save", "appendonly"} {
		reply := Must(s.Do("CONFIG", "GET", name))(t)
		require.Contains(t, []string{"save\n", "appendonly\nno"}, reply)
	}
}

func TestArgs_ReachTheServer(t *testing.T) {
	s := Start(t, "--maxmemory", "12345678", "--requirepass", "secret")
	reply := Must(s.Do("CONFIG", "GET", "maxmemory"))(t, "Do knows the password")
	require.Equal(t, "maxmemory\n12345678", reply)
	_, err := s.do(resp.Login{}, "PING")
	require.ErrorContains(t, err, "NOAUTH")
}

func TestServer_ClusterNodeFindsAPort(t *testing.T) {
	s := Start(t, "--cluster-enabled", "yes")
	reply := Must(s.Do("CLUSTER", "INFO"))(t)
	require.Contains(t, reply, "cluster_known_nodes:1")
}

func TestServer_KillAndRestart(t *testing.T) {
	s := Start(t)
	addr, pid := s.Addr(), s.PID()
	Must(s.Do("SET", "k", "v"))(t)

	s.Kill()
	s.Kill()
	_, err := s.Do("PING")
	require.Error(t, err)

	s.Restart()
	require.Equal(t, addr, s.Addr())
	require.NotEqual(t, pid, s.PID())
	reply := Must(s.Do("EXISTS", "k"))(t)
	require.Equal(t, "0", reply, "a restarted server is empty")

	s.Restart() // one that runs
	Must(s.Do("PING"))(t)
}

func TestCommands(t *testing.T) {
	s := Start(t)
	for range 3 {
		Must(s.Do("GET", "k"))(t)
	}
	Must(s.Do("CONFIG", "GET", "port"))(t)
	calls := s.Commands(t)
	require.Equal(t, 3, calls["get"])
	require.Equal(t, 1, calls["config|get"])
	require.Zero(t, calls["set"])

	Must(s.Do("CONFIG", "RESETSTAT"))(t)
	require.Zero(t, s.Commands(t)["get"])
}

func TestParseCommandStats(t *testing.T) {
	require.Equal(t,
		map[string]int{"evalsha": 12, "client|kill": 1},
		parseCommandStats("# Commandstats\r\n"+
			"cmdstat_evalsha:calls=12,usec=3,usec_per_call=0.25,rejected_calls=0,failed_calls=0\r\n"+
			"cmdstat_client|kill:calls=1,usec=9\r\n"))
}
