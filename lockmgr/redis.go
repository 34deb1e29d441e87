package lockmgr

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/notify"
)

// Of this package only this file uses the client library.

// Dial connects to a server and returns a manager that owns the connection:
// Close ends both. The client is built from opt as [TuneClient] completes it. Dial
// blocks until the server has answered or the dial time-out has passed.
//
// Dial returns ErrUnavailable if the server did not answer, ErrPermission if it
// refused the user or the password, and ErrInvalidOption if an option is bad.
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
	case opt.Sentinel.MasterSet != "":
		return nil, unsupported(rueidis.ClientModeSentinel)
	case n > 1 && !opt.ForceSingleClient:
		return nil, fmt.Errorf("%w: %d addresses are the seeds of a cluster: give that of one server", ErrTopology, n)
	}
	opt = TuneClient(opt)
	client, err := rueidis.NewClient(opt)
	if err != nil {
		return nil, dialError(err)
	}
	m := start(newIdentity(), options, client, 2*opt.Dialer.Timeout+time.Second, client.Close)
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
// client should be built with the options that [TuneClient] sets. New does no
// I/O. It returns ErrTopology for a cluster or Sentinel client. Check reports
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
	return start(newIdentity(), options, client, 0, nil), nil
}

// start makes a manager. To open the connection for messages (a dial, a handshake
// and a PING) may take dialTime, or notify's default if that is longer. A short
// Options.CommandTimeout does not shorten the time-outs of that connection: no
// lease depends on them, and far servers need more.
func start(id *identity, o Options, client rueidis.Client, dialTime time.Duration, closeClient func()) *Manager {
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
	return newManager(id, o, &redisServer{client}, hub, closeClient)
}

// TuneClient completes client options with those that a lock manager needs. It
// sets time-outs that are not set. It overrides others, because the client must
// not repeat a command that may have run, one caller's time-out must not close
// the connection that all share, and commands must keep their order. One
// address is taken for one server, not for the seed of a cluster.
func TuneClient(opt rueidis.ClientOption) rueidis.ClientOption {
	opt.DisableCache = true     // nothing is cached, and some servers know no CLIENT TRACKING
	opt.DisableRetry = true     // the manager knows what may be repeated
	opt.AlwaysPipelining = true // a time-out frees its caller and leaves the connection alone
	opt.PipelineMultiplex = -1  // one connection: commands keep their order
	opt.BlockingPipeline = -1   // large batches stay on it
	opt.ConnLifetime = 0        // its end would send commands twice
	setDefault(&opt.Dialer.Timeout, 2*time.Second)
	setDefault(&opt.Dialer.KeepAlive, 500*time.Millisecond) // the time between pings of an idle connection
	setDefault(&opt.ConnWriteTimeout, 2*time.Second)
	if len(opt.InitAddress) == 1 && opt.Sentinel.MasterSet == "" { // one address is one server
		opt.ForceSingleClient = true
	}
	return opt
}

// redisServer runs scripts through a client.
type redisServer struct{ client rueidis.Client }

func (s *redisServer) exec(limit *deadline, commands []command, answers []answer) {
	missing := 0
	read := func(i int, r rueidis.RedisResult) {
		if commands[i].script == nil {
			answers[i] = readWords(r)
		} else if answers[i] = readResult(r); answers[i].missing() {
			missing++
		}
	}
	if len(commands) == 1 { // Do needs no memory for results
		read(0, s.client.Do(limit.start(), s.build(&commands[0])))
	} else {
		cmds := make(rueidis.Commands, len(commands))
		for i := range commands {
			cmds[i] = s.build(&commands[i])
		}
		for i, r := range s.client.DoMulti(limit.start(), cmds...) {
			read(i, r)
		}
	}
	if missing > 0 {
		s.load(limit, commands, answers)
	}
}

func (s *redisServer) build(c *command) rueidis.Completed {
	if c.script == nil {
		return s.client.B().Arbitrary(c.args...).Build()
	}
	return s.client.B().Evalsha().Sha1(c.script.sha).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
}

// load repeats the commands whose script the server did not know: they did not
// run. SCRIPT LOAD makes a server keep a script; newer servers may forget one
// sent by EVAL alone. It needs a permission that not every user has, so the
// calls carry the text as well.
func (s *redisServer) load(limit *deadline, commands []command, answers []answer) {
	var cmds rueidis.Commands
	var again []int
	loaded := map[*script]bool{}
	for i := range commands {
		c := &commands[i]
		if c.script == nil || !answers[i].missing() {
			continue
		}
		if !loaded[c.script] {
			loaded[c.script] = true
			cmds = append(cmds, s.client.B().ScriptLoad().Script(c.script.text).Build())
			again = append(again, -1)
		}
		cmds = append(cmds, s.client.B().Eval().Script(c.script.text).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build())
		again = append(again, i)
	}
	for j, r := range s.client.DoMulti(limit.start(), cmds...) {
		if i := again[j]; i >= 0 {
			answers[i] = readResult(r)
		}
	}
}

// missing reports whether the server did not know the script.
func (a *answer) missing() bool {
	if a.kind != answerError {
		return false
	}
	var e *rueidis.RedisError
	return errors.As(a.err, &e) && e.IsNoScript()
}

func readResult(r rueidis.RedisResult) answer {
	m, err := r.ToMessage()
	switch {
	case err == nil:
		return readMessage(m)
	case rueidis.IsRedisNil(err):
		return answer{}
	}
	ran, final, typed := classify(err)
	return answer{kind: answerError, ran: ran, final: final, err: typed}
}

// readWords reads the answer to a command that is no script. Some are texts of
// a type of their own.
func readWords(r rueidis.RedisResult) answer {
	if text, err := r.ToString(); err == nil {
		return answer{kind: answerText, text: text}
	}
	return readResult(r)
}

func readMessage(m rueidis.RedisMessage) answer {
	switch {
	case m.IsInt64():
		n, _ := m.ToInt64()
		return answer{kind: answerInt, n: n}
	case m.IsString():
		s, _ := m.ToString()
		return answer{kind: answerText, text: s}
	case m.IsArray():
		items, _ := m.ToArray()
		a := answer{kind: answerArray, array: make([]answer, len(items))}
		for i, item := range items {
			a.array[i] = readMessage(item)
		}
		return a
	case m.IsMap(): // read as an array of keys and values
		fields, _ := m.ToMap()
		a := answer{kind: answerArray}
		for key, value := range fields {
			a.array = append(a.array, answer{kind: answerText, text: key}, readMessage(value))
		}
		return a
	case m.IsNil():
		return answer{}
	}
	if err := m.Error(); err != nil { // of one lock among many
		ran, final, typed := classify(err)
		return answer{kind: answerError, ran: ran, final: final, err: typed}
	}
	return answer{kind: answerError, ran: core.Maybe, final: true, err: &ServerError{Kind: ErrServer, Err: fmt.Errorf("unexpected reply %s", m.String())}}
}

// classify returns whether the command of an error ran, whether a retry soon is
// useless, and the error for the user.
func classify(err error) (ran core.Ran, final bool, typed error) {
	if e, ok := rueidis.IsRedisErr(err); ok {
		return readServerError(err, e.Error())
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return core.No, false, dialError(err)
	}
	hint := "the connection broke before the answer came"
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		hint = "no answer within the command time-out"
	case errors.Is(err, rueidis.ErrClosing):
		return core.Maybe, true, &ServerError{Kind: ErrUnavailable, Hint: "the client was closed", Err: err}
	}
	return core.Maybe, false, &ServerError{Kind: ErrUnavailable, Hint: hint, Err: err}
}

// dialError returns the error of a failure before anything was sent.
func dialError(err error) error {
	if e, ok := rueidis.IsRedisErr(err); ok {
		_, _, typed := readServerError(err, e.Error())
		return typed
	}
	hint := "is a server listening there?"
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		hint = "the server's certificate is expired, made out for another name, or signed by nobody who is trusted here"
	}
	return &ServerError{Kind: ErrUnavailable, Hint: hint, Err: err}
}
