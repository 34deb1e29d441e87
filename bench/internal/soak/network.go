package soak

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
)

// A stage is where the proxies live: they are made for tests, and end with what they take for one.
type stage struct {
	testing.TB // nil: nothing else of it is used
	ends       []func()
}

func (s *stage) Helper()          {}
func (s *stage) Cleanup(f func()) { s.ends = append(s.ends, f) }

func (s *stage) Fatalf(format string, args ...any) { panic(fmt.Errorf(format, args...)) }

func (s *stage) end() {
	for _, f := range s.ends {
		f()
	}
}

// proxies puts a proxy before each server, for one worker process.
func proxies(s *stage, servers []*redisServer) (list []*faultproxy.Proxy, err error) {
	defer func() {
		if e, ok := recover().(error); ok {
			err = e
		}
	}()
	for _, server := range servers {
		list = append(list, faultproxy.Start(s, server.Addr()))
	}
	return list, nil
}

// scripts matches the commands by which locks are taken and given back.
var scripts = faultproxy.Command("EVALSHA", "EVAL")

// until has a rule for a time, and returns how often it fired.
func until(r *faultproxy.Rule, d time.Duration, stop <-chan struct{}) int {
	pause(d, stop)
	r.Remove()
	return r.Count()
}

// pause blocks for d or until stop is closed.
func pause(d time.Duration, stop <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-stop:
	}
}
