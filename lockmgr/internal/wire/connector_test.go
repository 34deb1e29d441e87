package wire

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A pingClient is a client of a server that answers a PING after pingTakes.
type pingClient struct {
	rueidis.Client
	pingTakes time.Duration
	pings     int    // that were sent by Do; the client sends others
	during    func() // called during each; may be nil
	refusal   string // an error reply to it; empty: PONG
}

// A connectorScene is a Connector for such a client.
type connectorScene struct {
	*Connector
	*pingClient
}

func newConnectorScene(t *testing.T) *connectorScene {
	client := fakeServer(t, func(args []string) string {
		if args[0] == "REFUSED" {
			return "-" + strings.Join(args[1:], " ") + "\r\n"
		}
		return "+OK\r\n"
	})
	s := &connectorScene{NewConnector(), &pingClient{Client: client}}
	t.Cleanup(s.Connector.Close)
	s.Use(s.pingClient)
	return s
}

func (s *pingClient) Do(ctx context.Context, c rueidis.Completed) rueidis.RedisResult {
	if c.Commands()[0] != "PING" {
		return s.Client.Do(ctx, c)
	}
	s.pings++
	select {
	case <-time.After(s.pingTakes):
	case <-ctx.Done():
	}
	if s.during != nil {
		s.during()
	}
	if s.refusal != "" {
		c = s.B().Arbitrary("REFUSED").Args(s.refusal).Build()
	}
	return s.Client.Do(ctx, c)
}

// within runs a command with a time-out, and returns its failure and the time that it took.
func (s *connectorScene) within(limit time.Duration) (*Failure, time.Duration) {
	begin := time.Now()
	answers := make([]Answer, 1)
	d := &Deadline{parent: context.Background(), timeout: limit}
	defer d.Close()
	s.Exec(d, getOf("x"), answers)
	return answers[0].Failure, time.Since(begin)
}

// run runs a command that has time, and returns its failure.
func (s *connectorScene) run() *Failure {
	f, _ := s.within(time.Minute)
	return f
}

// After the end of a connection one PING comes before the next commands. All wait for the same one,
// each with its own time-out. A command that waits no longer was not sent, and does not end the
// PING.
func TestConnector_PingBeforeCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newConnectorScene(t)
		s.pingTakes = time.Second
		require.Nil(t, s.run())
		require.Zero(t, s.pings, "the client is connected")
		s.Ended()
		var all sync.WaitGroup
		all.Go(func() {
			f, took := s.within(300 * time.Millisecond)
			require.Equal(t, Unavailable, f.Kind)
			require.Equal(t, core.No, f.Ran)
			require.Equal(t, 300*time.Millisecond, took)
		})
		for range 3 {
			all.Go(func() {
				time.Sleep(400 * time.Millisecond)
				f, took := s.within(700 * time.Millisecond)
				require.Nil(t, f)
				require.Equal(t, 600*time.Millisecond, took)
			})
		}
		all.Wait()
		require.Equal(t, 1, s.pings)
		require.Nil(t, s.run())
		require.Equal(t, 1, s.pings)
	})
}

// A helloClient sends GREETING for HELLO, which fakeServer answers itself.
type helloClient struct{ *pingClient }

func (c helloClient) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if command.Commands()[0] == "HELLO" {
		command = c.B().Arbitrary("GREETING").Build()
	}
	return c.pingClient.Do(ctx, command)
}

// The first greeting of a client that is not connected yet is HELLO. What meet returns refuses
// commands, until meet has returned nil. If the user may not send HELLO, commands are sent.
func TestConnector_UseLater(t *testing.T) {
	hello, asked := "%1\r\n+mode\r\n+standalone\r\n", 0
	client := fakeServer(t, func(args []string) string {
		if args[0] == "GREETING" {
			asked++
			return hello
		}
		return "+OK\r\n"
	})
	later := func(meet func(hello *Answer) *Failure) *connectorScene {
		s := &connectorScene{NewConnector(), &pingClient{Client: client}}
		t.Cleanup(s.Connector.Close)
		s.UseLater(helloClient{s.pingClient}, meet)
		return s
	}
	wrong := &Failure{Kind: Topology, Ran: core.No, Final: true}
	s := later(func(hello *Answer) *Failure {
		if asked == 2 && hello.Field("mode") == "standalone" {
			return nil
		}
		return wrong
	})
	require.Same(t, wrong, s.run())
	for range 2 {
		require.Nil(t, s.run())
	}
	require.Equal(t, 2, asked)
	s.Ended()
	require.Nil(t, s.run())
	require.Equal(t, 2, asked)
	require.Equal(t, 1, s.pings, "later greetings are by PING")

	hello = "-NOPERM User x has no permissions to run the 'hello' command\r\n"
	require.Nil(t, later(func(*Answer) *Failure { t.Error("there was no answer"); return nil }).run())
}

// An error reply to PING is an answer: the user may not be allowed to send it.
func TestConnector_RefusedPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newConnectorScene(t)
		s.refusal = "NOPERM no PING"
		s.Ended()
		for range 2 {
			require.Nil(t, s.run())
		}
		require.Equal(t, 1, s.pings)
	})
}

// The server refuses the connection, for instance because the user was deleted. The command fails
// with the server's reason, and there is one PING for it. When the user is back, the next command
// succeeds.
func TestConnector_RefusedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newConnectorScene(t)
		s.refusal = "WRONGPASS invalid username-password pair"
		s.during = s.Ended
		s.Ended()
		f := s.run()
		require.True(t, f.BadLogin())
		require.Equal(t, core.No, f.Ran)
		require.Equal(t, 1, s.pings)
		s.refusal, s.during = "", nil
		require.Nil(t, s.run())
	})
}

// The next command begins another PING after one without an answer.
func TestConnector_NoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newConnectorScene(t)
		s.Ended()
		s.pingTakes = 2 * QuestionTime
		f, took := s.within(time.Minute)
		require.Equal(t, Unavailable, f.Kind)
		require.Equal(t, QuestionTime, took)
		s.pingTakes = 0
		f, took = s.within(time.Minute)
		require.Nil(t, f)
		require.Zero(t, took)
		require.Equal(t, 2, s.pings)
	})
}

// A connection that ends during the PING may be the one that the next command would have taken. So
// there is another PING, but not for ever.
func TestConnector_EndedDuringAPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newConnectorScene(t)
		s.Ended()
		s.during = func() {
			if s.pings == 1 {
				s.Ended()
			}
		}
		require.Nil(t, s.run())
		require.Equal(t, 2, s.pings)
		s.during = s.Ended
		s.Ended()
		f := s.run()
		require.Equal(t, Unavailable, f.Kind)
		require.Equal(t, core.No, f.Ran)
		require.Equal(t, 2+mostGreetings, s.pings)
	})
}

// Close ends the PING under way. Commands fail after it.
func TestConnector_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newConnectorScene(t)
		s.pingTakes = QuestionTime / 2
		s.Ended()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			f, took := s.within(time.Minute)
			require.NotNil(t, f)
			require.Equal(t, time.Second, took)
		})
		time.Sleep(time.Second)
		begin := time.Now()
		s.Connector.Close()
		require.Zero(t, time.Since(begin))
		waiting.Wait()
		require.Equal(t, Closed, s.run().Kind)
		require.Equal(t, 1, s.pings)
	})
}

// Only contexts of commands and questions are those of a dial for the connection that all share.
func TestOfCommand(t *testing.T) {
	d := &Deadline{parent: t.Context(), timeout: time.Minute}
	defer d.Close()
	require.True(t, OfCommand(d.Start()))
	require.False(t, OfCommand(d.StartTimed()))
	require.False(t, OfCommand(context.Background()))
}
