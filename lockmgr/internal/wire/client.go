package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// internal/archtest lists the files of this package that may use the client library.

// Redis is a Server that is reached through a client. Many goroutines may use a Redis at once, and
// the client pipelines the commands.
type Redis struct {
	Client   rueidis.CoreClient // a rueidis.Client, or a dedicated connection
	Channels Channels
	Node     string // the ID of the node that is meant; empty: a single server

	dedicated bool // Client waits on its connection itself: see StartTimed
}

// Dedicate opens a connection for one sender. Dedicate blocks for as long as a dial, or for ever if
// the client's pool is used up. Dial gives its client a large enough pool. A user who may not PING
// gets no connection.
func (s Redis) Dedicate() (Connection, error) {
	// The client's Dedicate reports no error. If the dial failed, c answers each command with the
	// reason, which may be an error reply of the handshake. Only PONG proves the connection.
	c, _ := s.Client.(rueidis.Client).Dedicate()
	ctx, cancel := context.WithTimeout(context.Background(), DedicateTimeout)
	defer cancel()
	if err := c.Do(ctx, c.B().Ping().Build()).Error(); err != nil {
		c.Close()
		return nil, err
	}
	s.Client, s.dedicated = c, true
	return dedicated{s, c}, nil
}

// DedicateTimeout bounds the PING that proves a new connection. No command waits for the PING.
const DedicateTimeout = 2 * time.Second

// dedicated is a connection that one goroutine uses at a time. The goroutine writes commands and
// reads answers itself, because the contexts report their deadline and the client was built without
// AlwaysPipelining.
type dedicated struct {
	Redis
	client rueidis.DedicatedClient
}

func (s dedicated) Close() { s.client.Close() }

// start begins a round trip.
func (s Redis) start(d *Deadline) context.Context {
	if s.dedicated {
		return d.StartTimed()
	}
	return d.Start()
}

// Exec makes Redis a Server.
func (s Redis) Exec(d *Deadline, commands []Command, answers []Answer) {
	if len(commands) > 0 && commands[0].asking { // so are all
		for i := range commands {
			answers[i] = s.One(s.start(d), &commands[i], true)
		}
		return
	}
	missing := 0
	read := func(i int, r rueidis.RedisResult) {
		if answers[i] = s.read(&commands[i], r); answers[i].missing() {
			missing++
		}
	}
	if len(commands) == 1 && !s.needsID(&commands[0]) { // Do needs no memory for results
		read(0, s.Client.Do(s.start(d), s.build(&commands[0])))
	} else {
		cmds := make(rueidis.Commands, 0, 1+len(commands))
		for i := range commands {
			if s.needsID(&commands[i]) {
				cmds = append(cmds, s.Client.B().ClusterMyid().Build())
				break
			}
		}
		for i := range commands {
			cmds = append(cmds, s.build(&commands[i]))
		}
		results := s.Client.DoMulti(s.start(d), cmds...)
		first := len(results) - len(commands)
		for i, r := range results[first:] {
			read(i, r)
			if s.needsID(&commands[i]) {
				answers[i] = s.checkID(answers[i], results[0])
			}
		}
	}
	if missing > 0 {
		s.load(d, commands, answers)
	}
}

// One runs one command, and repeats the command with the text of its script if the server does not
// know the script. asking is set if an ASK has led to this server.
func (s Redis) One(ctx context.Context, c *Command, asking bool) Answer {
	send := func(command rueidis.Completed) Answer {
		var cmds rueidis.Commands
		if s.needsID(c) {
			cmds = append(cmds, s.Client.B().ClusterMyid().Build())
		}
		if asking {
			cmds = append(cmds, s.Client.B().Asking().Build())
		}
		if len(cmds) == 0 {
			return s.read(c, s.Client.Do(ctx, command))
		}
		results := s.Client.DoMulti(ctx, append(cmds, command)...)
		a := s.read(c, results[len(cmds)])
		if asking && a.Failure != nil && a.Failure.Elsewhere {
			if err := results[len(cmds)-1].Error(); err != nil {
				return DialFailure(err).Answer() // ASKING failed, so the server redirected the command
			}
		}
		if s.needsID(c) {
			a = s.checkID(a, results[0])
		}
		return a
	}
	a := send(s.build(c))
	if c.Script != nil && a.missing() {
		a = send(s.withText(c))
	}
	return a
}

// needsID reports whether the node is asked for its ID with a command. A script checks the ID
// itself.
func (s Redis) needsID(c *Command) bool { return s.Node != "" && c.Script == nil && !c.blocks }

// checkID returns the answer to a command, or a failure if another node has answered. asked is the
// reply to the question for the node's ID, which was sent over the same connection.
func (s Redis) checkID(a Answer, asked rueidis.RedisResult) Answer {
	switch id, err := asked.ToString(); {
	case a.Kind == Failed, err == nil && id == s.Node:
		return a
	case err != nil:
		return failureOf(err).Answer()
	}
	f := *StrangeNode
	f.Ran = core.Maybe // at the other node
	return (&f).Answer()
}

// read reads the answer to a command.
func (s Redis) read(c *Command, r rueidis.RedisResult) Answer {
	if c.Script == nil {
		return readWords(r)
	}
	return readResult(r)
}

// script returns the script of a command in the form for the server.
func (s Redis) script(c *Command) *Script {
	if s.Node == "" {
		return c.Script
	}
	return c.Script.clustered[s.Channels]
}

func (s Redis) build(c *Command) rueidis.Completed {
	if c.Script == nil {
		words := s.Client.B().Arbitrary(c.Args...).Keys(c.Keys...).Args(c.Rest...)
		if c.blocks {
			return words.Blocking()
		}
		return words.Build()
	}
	call := s.Client.B().Evalsha().Sha1(s.script(c).sha).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...)
	if s.Node != "" {
		call = call.Arg(s.Node)
	}
	return call.Build()
}

// withText returns the call of a script with the text of the script.
func (s Redis) withText(c *Command) rueidis.Completed {
	call := s.Client.B().Eval().Script(s.script(c).Text).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...)
	if s.Node != "" {
		call = call.Arg(s.Node)
	}
	return call.Build()
}

// load repeats the commands whose script the server did not know, which did not run. SCRIPT LOAD
// makes a server keep a script; newer servers may forget a script sent by EVAL alone. SCRIPT LOAD
// needs a permission that not every user has, so the calls carry the text as well.
func (s Redis) load(d *Deadline, commands []Command, answers []Answer) {
	var cmds rueidis.Commands
	var again []int
	loaded := map[*Script]bool{}
	for i := range commands {
		c := &commands[i]
		if c.Script == nil || !answers[i].missing() {
			continue
		}
		script := s.script(c)
		if !loaded[script] {
			loaded[script] = true
			cmds = append(cmds, s.Client.B().ScriptLoad().Script(script.Text).Build())
			again = append(again, -1)
		}
		cmds = append(cmds, s.withText(c))
		again = append(again, i)
	}
	for j, r := range s.Client.DoMulti(s.start(d), cmds...) {
		if i := again[j]; i >= 0 {
			answers[i] = readResult(r)
		}
	}
}

// missing reports whether the server did not know the script.
func (a *Answer) missing() bool {
	if a.Failure == nil { // the usual case allocates no e
		return false
	}
	var e *rueidis.RedisError
	return errors.As(a.Failure.Err, &e) && e.IsNoScript()
}

func readResult(r rueidis.RedisResult) Answer {
	m, err := r.ToMessage()
	switch {
	case err == nil:
		return readMessage(m)
	case rueidis.IsRedisNil(err):
		return Answer{}
	}
	return failureOf(err).Answer()
}

// readWords reads the answer to a command without a script. The answer may be a verbatim string,
// which readMessage does not read.
func readWords(r rueidis.RedisResult) Answer {
	if text, err := r.ToString(); err == nil {
		return Answer{Kind: Text, Text: text}
	}
	return readResult(r)
}

func readMessage(m rueidis.RedisMessage) Answer {
	switch {
	case m.IsInt64():
		n, _ := m.ToInt64()
		return Answer{Kind: Int, Int: n}
	case m.IsString():
		s, _ := m.ToString()
		return Answer{Kind: Text, Text: s}
	case m.IsArray():
		items, _ := m.ToArray()
		a := Answer{Kind: Array, Array: make([]Answer, len(items))}
		for i, item := range items {
			a.Array[i] = readMessage(item)
		}
		return a
	case m.IsMap(): // read as an array of keys and values
		fields, _ := m.ToMap()
		a := Answer{Kind: Array}
		for key, value := range fields {
			a.Array = append(a.Array, Answer{Kind: Text, Text: key}, readMessage(value))
		}
		return a
	case m.IsNil():
		return Answer{}
	}
	if err := m.Error(); err != nil { // of one lock among many
		return failureOf(err).Answer()
	}
	return (&Failure{Kind: Unknown, Ran: core.Maybe, Final: true, Err: fmt.Errorf("unexpected reply %s", m.String())}).Answer()
}

// failureOf classifies an error of the client.
func failureOf(err error) *Failure {
	if e, ok := rueidis.IsRedisErr(err); ok {
		return serverFailure(err, e.Error())
	}
	var op *net.OpError
	var login *CredentialsError
	if errors.As(err, &op) && op.Op == "dial" || errors.As(err, &login) {
		return DialFailure(err)
	}
	if h := new(HangUp); errors.As(err, &h) {
		return h.failure(err)
	}
	f := &Failure{Kind: Unavailable, Ran: core.Maybe, Hint: "the connection broke before the answer came", Err: err}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		f.Hint, f.Err = hintSilent, errNoAnswer
	case errors.Is(err, rueidis.ErrClosing):
		f.Hint, f.Final = "the client was closed", true
	}
	return f
}

// errNoAnswer replaces the error of a round trip's context. The lane made the context, so the error
// must not look like the end of a caller's context.
var errNoAnswer = errors.New("no answer within the command time-out")

// errNoGreeting replaces the error of a context that the client made: see errNoAnswer.
var errNoGreeting = errors.New("no answer to the first commands of a connection")

// ErrNoNode is the error of a client that has found a cluster, and no master with slots.
var ErrNoNode = errors.New("the client knows no node of the cluster")

// A CredentialsError is the error of the function that gives the credentials of a new connection.
type CredentialsError struct{ Err error }

func (e *CredentialsError) Error() string { return "no credentials: " + e.Err.Error() }

func (e *CredentialsError) Unwrap() error { return e.Err }

// dialHints are hints for error replies to the first commands of a connection, by a part of their
// text.
var dialHints = map[string]string{
	"No such master with that name": "the Sentinels watch no master of that name: see SENTINEL MASTERS",
	"'SENTINEL'":                    "this is no Sentinel: with master_set the addresses are those of Sentinels",
	"DB index is out of range":      "the server has fewer databases, and a cluster has one",
	"cluster support disabled":      "several addresses are those of a cluster's nodes: give one address to use a single server",
}

// DialFailure classifies an error that the client returned before sending anything.
func DialFailure(err error) *Failure {
	if e, ok := rueidis.IsRedisErr(err); ok {
		for text, hint := range dialHints {
			if strings.Contains(e.Error(), text) {
				return &Failure{Kind: Topology, Ran: core.No, Final: true, Hint: hint, Err: err}
			}
		}
		f := serverFailure(err, e.Error())
		f.Ran = core.No
		return f
	}
	if h := new(HangUp); errors.As(err, &h) {
		f := h.failure(err)
		f.Ran = core.No
		return f
	}
	hint := "is a server listening there, and does it expect TLS or none as the client does?"
	var untrusted *tls.CertificateVerificationError
	var login *CredentialsError
	var op *net.OpError
	switch {
	case errors.As(err, &login): // before the others, which the function's own error may match
		hint = "the function that gives the user and the password failed"
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &op): // after the dial
		hint, err = "is the server stopped, and does it expect TLS or none as the client does?", errNoGreeting
	case refusesTLS(err):
		hint = hintRefusesTLS
	case errors.Is(err, ErrNoNode):
		hint = "do the masters of the cluster have slots?"
	case errors.Is(err, syscall.ECONNREFUSED):
		hint = "is a server listening there?"
	case errors.As(err, &untrusted):
		hint = "the server's certificate is expired, made out for another name, or signed by nobody who is trusted here"
	}
	return &Failure{Kind: Unavailable, Ran: core.No, Hint: hint, Err: err}
}

// AfterClose is the failure of a command after Close.
var AfterClose = &Failure{Kind: Closed, Ran: core.No, Final: true, Err: rueidis.ErrClosing}

// Unsent returns the failure of a command that was not sent because of an error.
func Unsent(err error) *Failure {
	f := *failureOf(err)
	f.Ran = core.No
	return &f
}

// Redirection returns the address that a MOVED or an ASK names, or "" if the failure is neither.
// asked is the address of the node that gave the failure. If no host is named, the host is the host
// of asked. The host may be "?" if the node does not know the host.
func Redirection(f *Failure, asked string) (addr string, ask bool) {
	e, refused := rueidis.IsRedisErr(f.Err)
	if !refused {
		return "", false
	}
	words := strings.Fields(e.Error()) // MOVED 3999 127.0.0.1:6381
	if len(words) < 3 {
		return "", false
	}
	addr = words[2]
	i := strings.LastIndexByte(addr, ':') // an IPv6 address has no brackets here
	if i < 0 {
		return "", false
	}
	host := strings.Trim(addr[:i], "[]")
	if host == "" {
		var err error
		if host, _, err = net.SplitHostPort(asked); err != nil {
			return "", false
		}
	}
	return net.JoinHostPort(host, addr[i+1:]), words[0] == "ASK"
}
