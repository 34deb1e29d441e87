package interop

import (
	"os"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// A server is a redis-server or valkey-server of a world. No test ends it, so it is not one of
// redistest.
type server struct{ *redisserver.Server }

// startServer runs the binary that HOLDFAST_SERVER names, or the one on PATH.
func startServer() (*server, error) {
	binary, err := redisserver.Find(os.Getenv("HOLDFAST_SERVER"))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-interop-")
	if err != nil {
		return nil, err
	}
	s := &server{&redisserver.Server{Binary: binary, Dir: dir}}
	if err := s.Start(resp.Login{}); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

func (s *server) dial() (rueidis.Client, error) { return dialServer(s.Addr()) }

// dialServer returns a client for the tests themselves. It has one connection, so its commands run
// in order.
func dialServer(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true,
		AlwaysPipelining: true, PipelineMultiplex: -1,
	})
}

func (s *server) stop() {
	s.Kill()
	_ = os.RemoveAll(s.Dir)
}
