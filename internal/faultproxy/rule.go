package faultproxy

import (
	"crypto/sha1"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Cmd is a command that a client has sent.
type Cmd struct {
	Conn *Conn
	Name string   // in upper case
	Args []string // the words as they were sent, the name first
}

func newCmd(c *Conn, args []string) Cmd {
	return Cmd{Conn: c, Name: strings.ToUpper(args[0]), Args: args}
}

// A Match chooses commands. It is a value: each method returns a narrower one and leaves its
// receiver alone. A command must meet all conditions; those that do are counted, and Nth, From and
// Chance choose among them.
type Match struct {
	where  []func(Cmd) bool
	nth    int
	from   int
	chance float64
	seed   uint64
}

// Any matches every command, those of the client's handshake too.
func Any() Match { return Match{} }

// Command matches commands of these names, in any case.
func Command(names ...string) Match {
	upper := make([]string, len(names))
	for i, n := range names {
		upper[i] = strings.ToUpper(n)
	}
	return Any().Where(func(c Cmd) bool { return slices.Contains(upper, c.Name) })
}

// Script matches the calls of a Lua script: an EVALSHA of its hash, or an EVAL of its text.
func Script(text string) Match {
	sum := sha1.Sum([]byte(text))
	sha := hex.EncodeToString(sum[:])
	return Any().Where(func(c Cmd) bool {
		return len(c.Args) > 1 && (c.Name == "EVALSHA" && c.Args[1] == sha || c.Name == "EVAL" && c.Args[1] == text)
	})
}

// Where adds a condition. It runs on a goroutine of the proxy, must not block, and must not use the
// proxy.
func (m Match) Where(f func(Cmd) bool) Match {
	m.where = append(slices.Clip(m.where), f)
	return m
}

// OnConn matches on one connection only.
func (m Match) OnConn(c *Conn) Match { return m.Where(func(cmd Cmd) bool { return cmd.Conn == c }) }

// Nth chooses the n-th match only, counted from 1 when the rule is made.
func (m Match) Nth(n int) Match { m.nth = n; return m }

// From chooses the n-th match and all after it.
func (m Match) From(n int) Match { m.from = n; return m }

// Chance chooses each match with probability p. The same seed makes the same choices.
func (m Match) Chance(p float64, seed uint64) Match { m.chance, m.seed = p, seed; return m }

// On begins a rule for what m matches: the method of the result says what happens then.
func (p *Proxy) On(m Match) Fault { return Fault{p, m} }

// A Fault is a rule that lacks what to do.
type Fault struct {
	proxy *Proxy
	match Match
}

// A Rule is a fault that waits for its command. It stands until it is removed, or the proxy healed.
type Rule struct {
	proxy *Proxy
	match Match
	what  action
	delay time.Duration
	edit  func(Cmd, []byte) []byte

	// Guarded by the proxy's mutex.
	seen, count int
	rng         *rand.Rand

	fired    chan struct{}
	once     sync.Once
	released chan struct{}
	release  sync.Once

	givenUp, delivered chan struct{} // of a HoldBack
	giveUp, settled    sync.Once
}

type action uint8

const (
	observe action = iota
	cutBefore
	cutAfterCommand
	loseReplyAndCut
	waitCommand
	waitReply
	blackHole
	blackHoleReply
	repeatCommand
	editReply
	refuse
	holdBack
)

func (f Fault) rule(r *Rule) *Rule {
	r.proxy, r.match = f.proxy, f.match
	r.rng = rand.New(rand.NewPCG(f.match.seed, 0))
	r.fired, r.released = make(chan struct{}), make(chan struct{})
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	f.proxy.rules = append(f.proxy.rules, r)
	return r
}

// The faults. The package documentation has a line on each.

// CutBefore breaks the connection in place of the command.
func (f Fault) CutBefore() *Rule { return f.rule(&Rule{what: cutBefore}) }

// CutAfterCommand breaks the connection behind the command, which will run.
func (f Fault) CutAfterCommand() *Rule { return f.rule(&Rule{what: cutAfterCommand}) }

// LoseReplyAndCut breaks the connection in place of the reply.
func (f Fault) LoseReplyAndCut() *Rule { return f.rule(&Rule{what: loseReplyAndCut}) }

// HoldReply keeps the reply, and what follows it, until Release.
func (f Fault) HoldReply() *Rule { return f.DelayReply(-1) }

// DelayCommand keeps the command, and what follows it, for d or until Release; a negative d is no
// limit.
func (f Fault) DelayCommand(d time.Duration) *Rule { return f.rule(&Rule{what: waitCommand, delay: d}) }

// DelayReply keeps the reply, and what follows it, for d or until Release; a negative d is no
// limit.
func (f Fault) DelayReply(d time.Duration) *Rule { return f.rule(&Rule{what: waitReply, delay: d}) }

// BlackHole makes the connection one, the command included.
func (f Fault) BlackHole() *Rule { return f.rule(&Rule{what: blackHole}) }

// BlackHoleReply makes the connection one when the reply comes.
func (f Fault) BlackHoleReply() *Rule { return f.rule(&Rule{what: blackHoleReply}) }

// RepeatCommand sends the command twice, and drops the second reply.
func (f Fault) RepeatCommand() *Rule { return f.rule(&Rule{what: repeatCommand}) }

// EditReply sends what edit returns in place of the reply, which may be nothing. It runs on a
// goroutine of the proxy, and must not block.
func (f Fault) EditReply(edit func(cmd Cmd, reply []byte) []byte) *Rule {
	return f.rule(&Rule{what: editReply, edit: edit})
}

// Refuse answers with an error, "LOADING ...", in place of the server, which gets a PING.
func (f Fault) Refuse(text string) *Rule {
	return f.rule(&Rule{what: refuse, edit: func(Cmd, []byte) []byte { return []byte("-" + text + "\r\n") }})
}

// Observe does nothing, and takes a command from no other rule.
func (f Fault) Observe() *Rule { return f.rule(&Rule{what: observe}) }

// Fired returns a channel that is closed when the rule has done its work for the first time; with a
// delay or a hold, when that begins.
func (r *Rule) Fired() <-chan struct{} { return r.fired }

// Count returns how often the rule has fired.
func (r *Rule) Count() int {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	return r.count
}

// Seen returns how many commands have matched, chosen or not.
func (r *Rule) Seen() int {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	return r.seen
}

// Release lets go what a hold or a delay keeps. It keeps nothing from then on.
func (r *Rule) Release() { r.release.Do(func() { close(r.released) }) }

// Remove ends the rule, and releases what it keeps.
func (r *Rule) Remove() {
	r.proxy.mu.Lock()
	r.proxy.rules = slices.DeleteFunc(r.proxy.rules, func(x *Rule) bool { return x == r })
	r.proxy.mu.Unlock()
	r.Release()
}

func (r *Rule) fire() {
	r.proxy.mu.Lock()
	r.count++
	r.proxy.mu.Unlock()
	r.once.Do(func() { close(r.fired) })
}

// chooses counts a command and tells whether the rule applies to it. The proxy's mutex is held.
func (r *Rule) chooses(c Cmd) bool {
	for _, f := range r.match.where {
		if !f(c) {
			return false
		}
	}
	r.seen++
	m := &r.match
	return (m.nth == 0 || r.seen == m.nth) && r.seen >= m.from && (m.chance == 0 || r.rng.Float64() < m.chance)
}
