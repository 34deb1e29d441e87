package wire

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/singleflight"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A Greeter asks a server a question before the next command if a connection to the server has
// ended, so that the client dials for the question. If the client dialled for a command, the dial
// would end with the time-out of the command. A longer dial would never succeed, and every command
// that waits for the dial would fail with the dial, before the command's own time-out.
//
//	greeted ──Ended, Again───▶ not greeted ──a command──▶ question under way ──answer──▶ greeted
//	                               ▲                             │
//	                               └────────── no answer ────────┘  the commands that wait fail
//
// Commands wait for the answer with their own time-outs. If a time-out ends, the question goes on,
// for QuestionTime at most.
type Greeter struct {
	ended     atomic.Uint64 // connections that have ended
	greetedAt atomic.Uint64 // one more than ended was at the last greeting; zero: a greeting is needed

	// greet asks the question. refused reports whether the failure is an error reply that is as
	// good as an answer, unless the connection has ended.
	greet    func(context.Context) (f *Failure, refused bool)
	ctx      context.Context // of questions; ends with Close
	stop     context.CancelFunc
	underWay singleflight.Group // the question
}

// QuestionTime bounds a question to a server. The caller may stop waiting earlier. The question
// goes on, because the client may be dialling for the question. The client makes one dial for all
// commands that wait for a connection, and ends the dial with the context of the first command.
const QuestionTime = 10 * time.Second

// mostGreetings is how many questions are asked in a row if a connection ends during each.
const mostGreetings = 5

// Init sets what is asked.
func (g *Greeter) Init(greet func(context.Context) (f *Failure, refused bool)) {
	g.greet = greet
	g.ctx, g.stop = context.WithCancel(context.Background())
}

// Ended notes the end of a connection. Ended never blocks.
func (g *Greeter) Ended() { g.ended.Add(1) }

// Again makes the next command wait for another greeting.
func (g *Greeter) Again() { g.greetedAt.Store(0) }

// Ready waits for a greeting if one is needed, or until the context that start returns ends. Ready
// returns the failure of commands that can't be sent, or nil.
func (g *Greeter) Ready(start func() context.Context) *Failure {
	if g.ended.Load()+1 == g.greetedAt.Load() {
		return nil
	}
	answer := g.underWay.DoChan("", g.try)
	ctx := start()
	select {
	case a := <-answer:
		return a.Val.(*Failure)
	case <-ctx.Done():
		return Unsent(ctx.Err())
	}
}

// Close ends the question under way, and waits for the end.
func (g *Greeter) Close() {
	g.stop()
	_, _, _ = g.underWay.Do("", g.try) // it may be the one under way, and else asks nothing
}

// try asks until a question is answered during which no connection has ended. Otherwise try returns
// the failure of the commands that wait.
func (g *Greeter) try() (any, error) {
	if g.ctx.Err() != nil {
		return AfterClose, nil
	}
	ctx, end := StartOnce(g.ctx, QuestionTime)
	defer end()
	for range mostGreetings {
		ended := g.ended.Load()
		f, refused := g.greet(ctx)
		if (f == nil || refused) && g.ended.Load() == ended {
			g.greetedAt.Store(ended + 1)
			return (*Failure)(nil), nil
		}
		if f != nil {
			return f, nil
		}
	}
	return &Failure{Kind: Unavailable, Ran: core.No, Err: errors.New("the connections to the server do not last")}, nil
}

// A Connector is a Server that is reached through the client of one server. A Connector greets the
// server by PING.
type Connector struct {
	Greeter
	redis Redis
	meet  func(hello *Answer) *Failure // see UseLater; nil after the first greeting
}

// NewConnector returns a Connector without a client.
func NewConnector() *Connector {
	c := new(Connector)
	c.Init(c.ping)
	return c
}

// Use sets the client, which is connected. Use must be called before the first command.
func (c *Connector) Use(client rueidis.Client) {
	c.redis.Client = client
	c.greetedAt.Store(1)
}

// UseLater is Use for a client that is not connected yet. The first greeting asks by HELLO what the
// server is. meet returns the failure of all commands for such a server, or nil. If the server
// refuses HELLO, meet is not called.
func (c *Connector) UseLater(client rueidis.Client, meet func(hello *Answer) *Failure) {
	c.redis.Client, c.meet = client, meet
}

// Exec makes Connector a Server.
func (c *Connector) Exec(d *Deadline, commands []Command, answers []Answer) {
	if f := c.Ready(d.Start); f != nil {
		Refuse(answers, f)
		return
	}
	c.redis.Exec(d, commands, answers)
}

// Dedicate is Redis.Dedicate. Dedicate must not be called before Exec has brought an answer.
func (c *Connector) Dedicate() (Connection, error) { return c.redis.Dedicate() }

// ping is the greeting of a single server. A user who may not PING or HELLO is connected.
func (c *Connector) ping(ctx context.Context) (f *Failure, refused bool) {
	question := "PING"
	if c.meet != nil {
		question = "HELLO"
	}
	r := c.redis.Client.Do(ctx, c.redis.Client.B().Arbitrary(question).Build())
	err := r.Error()
	if err == nil && c.meet != nil {
		hello := readResult(r)
		if f := c.meet(&hello); f != nil {
			return f, false
		}
		c.meet = nil
	}
	if err == nil {
		return nil, false
	}
	if f := DialFailure(err); c.meet != nil && f.Kind == Topology {
		return f, false
	}
	e, refused := rueidis.IsRedisErr(err)
	if refused && strings.HasPrefix(e.Error(), "NOPERM") {
		return nil, false
	}
	return Unsent(err), refused
}

// OfCommand reports whether a context belongs to a command or a question of this package. A dial
// with a context of this package is for the connection that all commands share.
func OfCommand(ctx context.Context) bool {
	_, ok := ctx.(*trip)
	return ok
}
