package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// fakeServer returns a client of a server that answers by reply, once the first commands of a
// connection are over.
func fakeServer(t *testing.T, reply func(args []string) string) rueidis.Client {
	var served sync.WaitGroup
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"a:1"}, ForceSingleClient: true, DisableCache: true,
		DisableRetry: true, AlwaysPipelining: true, PipelineMultiplex: -1, // as lockmgr.TuneClient sets them
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			near, far := net.Pipe()
			served.Go(func() {
				resp.Serve(far, func(args []string) string {
					if greeting, ok := resp.Greet(args); ok {
						return greeting
					}
					return reply(args)
				})
			})
			return near, nil
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close(); served.Wait() })
	return c
}

// fill makes each answer the same.
func fill(answers []Answer, a Answer) {
	for i := range answers {
		answers[i] = a
	}
}

func getOf(names ...string) []Command { return []Command{{Args: []string{"GET"}, Keys: names}} }

// A failureError is a failure as an error.
type failureError struct{ *Failure }

func (e failureError) Error() string { return e.Err.Error() }
func (e failureError) Unwrap() error { return e.Err }

// fail is a Config.Error that loses nothing.
func fail(f *Failure) error {
	if f == nil {
		return nil
	}
	return failureError{f}
}

// testConfig is a configuration whose replies come out of a channel.
func testConfig(s Server) (Config, chan core.Reply) {
	replies, begin := make(chan core.Reply, 1000), time.Now()
	return Config{
		Manager: "m", Server: s, Timeout: time.Second, Now: func() time.Duration { return time.Since(begin) }, Error: fail,
		Post: func(r *core.Replies) {
			for _, one := range r.Replies {
				replies <- one
			}
		},
	}, replies
}

// An each is a Server that answers each command by itself.
type each func(c *Command) Answer

func (f each) Exec(_ *Deadline, commands []Command, answers []Answer) {
	for i := range commands {
		answers[i] = f(&commands[i])
	}
}

// serves is a Server that answers nil.
var serves = each(func(*Command) Answer { return Answer{} })

// hangs is serves, except for some names until a channel is closed.
func hangs(some func(name string) bool, until chan struct{}) each {
	return func(c *Command) Answer {
		if some(c.Keys[0]) {
			<-until
		}
		return Answer{}
	}
}

// moved is serves, except for some names that another server has.
func moved(some func(name string) bool) each {
	return func(c *Command) Answer {
		if some(c.Keys[0]) {
			return serverFailure(errMoved, errMoved.Error()).Answer()
		}
		return Answer{}
	}
}

var errMoved = errors.New("MOVED 1 b:1")

// redirects is serves, except for the names of some slots, for which it names other masters.
func redirects(to map[int]*Failure) each {
	return func(c *Command) Answer {
		if f := to[SlotOf(c.Keys[0])]; f != nil {
			return f.Answer()
		}
		return Answer{}
	}
}

// An execFunc is a Server that answers whole batches.
type execFunc func([]Command, []Answer)

func (f execFunc) Exec(_ *Deadline, commands []Command, answers []Answer) { f(commands, answers) }
