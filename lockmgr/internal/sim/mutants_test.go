package sim

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/shard"
)

// A mutant is the core with one of its rules taken away.
type mutant struct {
	rule string
	name string
	file string
	old  string // what the file must contain exactly once
	new  string
	// stories says that the core's stories catch it, not the simulation:
	// where another rule makes up for the broken one, only later.
	stories bool
}

// mutants are in the order of the rules they break. Each must be caught: one
// that is not shows a rule that nothing tests, or one that nothing needs.
var mutants = []mutant{
	{"deadline", "counted from the reply", "acquire.go", "l.sent, l.until = op.Sent, op.Sent+m.cfg.usable(op.Lease)", "l.sent, l.until = m.now, m.now+m.cfg.usable(op.Lease)", false},
	{"deadline", "a long lease is inherited", "handoff.go", "case l.c.long, turn == standBack:", "case turn == standBack:", true},
	{"deadline", "renewal counted from the reply", "renew.go", "m.trust(l, batch.ID, batch.Sent, batch.Lease)", "m.trust(l, batch.ID, m.now, batch.Lease)", false},
	{"deadline", "transfer counted from the reply", "handoff.go", "m.trust(l, op.ID, op.Sent, op.Lease)", "m.trust(l, op.ID, m.now, op.Lease)", false},
	{"deadline", "without the 1 %", "config.go", "return lease - lease/100 - c.Margin", "return lease - c.Margin", false},
	{"deadline", "without the margin", "config.go", "return lease - lease/100 - c.Margin", "return lease - lease/100", false},
	{"deadline", "renewal moves it back", "handoff.go", "l.until = max(l.until, sent+m.cfg.usable(lease))", "l.until = sent + m.cfg.usable(lease)", false},
	{"deadline", "expired record passed on", "handoff.go", "case m.now >= l.until:", "case false:", false},
	{"deadline", "alarm does not end a hold", "machine.go", "if m.now >= l.holdUntil() {\n\t\t\tm.expire(l)", "if m.now >= l.until {\n\t\t\tm.expire(l)", false},
	{"deadline", "no alarm for a hold", "lock.go", "at := l.holdUntil()\n", "at := l.holdUntil() + time.Second\n", false},
	{"deadline", "failed renewal taken for a good one", "renew.go", "case e.Ran != Yes:\n", "case e.Ran == No:\n", false},
	{"deadline", "refused renewal ignored", "renew.go", "case e.Lost:\n\t\t\tm.gone(l)", "case e.Lost:\n\t\t\tm.renewalFailed(l, nil)", false},
	{"deadline", "fixed lease never ends", "hold.go", "return m.now + m.cfg.usable(r.Lease)", "return Forever", false},
	{"deadline", "MaxHold not kept", "hold.go", "return later(m.now, r.MaxHold)", "return Forever", true},
	{"deadline", "an acquire asks for a long lease", "acquire.go", "return min(r.Lease, m.cfg.Lease)", "return r.Lease", false},
	{"deadline", "one failure fails the rest of the batch", "renew.go", "case e.Ran != Yes:\n", "case e.Ran != Yes || failed > 0:\n", false},
	{"deadline", "a fresh record is renewed", "renew.go", "case m.renewDue(l) > m.now:", "case false:", true},
	{"deadline", "a prolongation answered before it is confirmed", "verify.go", "c.prolongations = append(c.prolongations, p)", "c.prolongations = nil\n\tm.emit(Prolonged{p, nil})", true},
	{"deadline", "a prolongation answered by any renewal", "verify.go", "if p.until <= l.until && p.after < id {", "if true {", true},
	{"deadline", "a look outlives a fixed lease", "verify.go", "if l.holder.watched {\n\t\treturn m.cfg.Lease", "if true {\n\t\treturn m.cfg.Lease", true},

	{"deadline", "late grant asked for again at once", "acquire.go", "l.more().retryAt = m.now + m.pause(1)", "l.more().retryAt = m.now", true},

	{"re-entry", "does not count", "hold.go", "a.count++\n", "", false},
	{"re-entry", "shorter lease shortens", "hold.go", "limit := m.now + m.cfg.usable(lease); limit > a.limit {", "limit := m.now + m.cfg.usable(lease); true {", false},
	{"re-entry", "shortens a watched hold", "hold.go", "case a.watched:\n", "case a.watched && r.Lease > 0:\n\t\ta.limit = m.now + m.cfg.usable(r.Lease)\n\tcase a.watched:\n", false},
	{"re-entry", "after the deadline", "acquire.go", "if l.phase == held && m.now >= l.holdUntil() {\n\t\tm.expire(l)", "if false {\n\t\tm.expire(l)", false},
	{"re-entry", "by anybody", "acquire.go", "r.Explicit && l.holder.Owner == r.Owner", "r.Explicit", false},
	{"re-entry", "owner queues behind itself", "hold.go", "for q := m.waits.first(r.Owner, l); q != nil; q =", "for q := m.waits.first(r.Owner, l); false; q =", false},
	{"re-entry", "longer lease not asked for", "hold.go", "c.extend, c.retryAt = r.Lease, m.now", "c.retryAt = m.now", false},

	{"idempotence", "scripts name the present owner only", "lock.go", "if s.owner != beside && s.owner != l.owner && !(s.stray && kind == KindTransfer) {", "if false {", false},
	{"idempotence", "the old owner not named", "lock.go", "if l.owner != 0 && l.owner != beside {", "if false {", false},
	{"idempotence", "a transfer takes a stray for its record", "lock.go", " && !(s.stray && kind == KindTransfer) {", " {", true},
	{"idempotence", "answer to an earlier command believed", "machine.go", "if r.ID != op.ID || l == nil || l.flight != op.ID {", "if l == nil {", false},

	{"unknown", "acquire forgotten", "machine.go", "l.suspectOp(op, later(m.now, m.cfg.SuspectTime))", "", false},
	{"unknown", "taken for a refusal", "lock.go", "l.suspect(op.Owner, until, op.Kind == KindAcquire)", "l.suspect(op.Owner, until, false)", false},
	{"unknown", "release taken for done", "release.go", "if r.Ran != Yes {\n\t\tm.releaseFailed(l, r)\n\t\treturn\n\t}", "if r.Ran == No {\n\t\tm.releaseFailed(l, r)\n\t\treturn\n\t}", false},
	{"unknown", "passed on after an unknown release", "release.go", "\t\tif l.owner != 0 {\n\t\t\tl.suspectOwner(later(m.now, m.cfg.SuspectTime))\n\t\t}\n\t\tm.dropTokens(l)", "", false},
	{"unknown", "unconfirmed release leaves no suspect", "release.go", "l.suspectOwner(later(m.now, m.cfg.SuspectTime))", "l.owner = 0", false},
	{"unknown", "no clean-up when nobody is left", "acquire.go", "if l.mayHaveStray() {\n\t\tm.release(l)\n\t\treturn\n\t}", "", true},
	{"unknown", "no clean-up of what comes to life later", "machine.go", "if l.mayHaveStray() && !m.closing {", "if false {", true},
	{"unknown", "suspects dropped at once", "lock.go", "return !s.stray || s.until <= at })", "return true })", true},
	{"unknown", "rest does not wait for suspects", "machine.go", "at = max(at, s.until)", "_ = s", false},
	{"unknown", "a number for each request", "acquire.go", "m.send(l, KindAcquire, m.number(), ", "m.send(l, KindAcquire, 1<<40+r.ID, ", false},
	{"unknown", "a number for each owner", "acquire.go", "m.send(l, KindAcquire, m.number(), ", "m.send(l, KindAcquire, 1<<40+r.Owner, ", false},
	{"unknown", "a number that a release has named", "release.go", "r.Field = 0 // this release names it", "_ = r", false},
	{"unknown", "a removal explains any suspect", "release.go", "if r.OK && !confirmed {", "if _ = confirmed; r.OK {", true},
	{"unknown", "one removal explains all suspects", "release.go", "if n == 1 {", "if n >= 1 {", true},
	{"unknown", "record thought gone while a lost renewal keeps it", "release.go", "max(m.now, l.until, c.mayLive)", "max(m.now, l.until)", true},
	{"unknown", "a release that is given up leaves suspects", "release.go", "\t\tc.suspects = nil // expired\n", "", true},
	{"unknown", "expired record not named", "hold.go", "l.suspectOwner(later(m.now, m.cfg.SuspectTime))", "l.owner = 0", false},
	{"unknown", "failed release not repeated", "lock.go", "case releasing:\n\t\tif l.flight == 0 {\n\t\t\treturn c.retryAt\n\t\t}", "", false},
	{"unknown", "tries fail for ever", "acquire.go", "(r.Final || q.Once || m.overdue(l, q))", "(r.Final || q.Once)", true},
	{"unknown", "late answers are no failures in a row", "acquire.go", "r.Once || r.late >= lateGrants", "r.Once", false},
	{"unknown", "a short lease fails all", "acquire.go", "if m.leaseOf(r) <= lease {", "if true {", false},
	{"unknown", "a token counter fails all", "acquire.go", "concerned := q.Fenced || !tokens || !r.Final", "concerned := q.Fenced || !tokens || true", false},
	{"unknown", "a single try waits for a failing release", "release.go", "\tif r.Ran != No || !r.Final {\n\t\tm.failOnce(l, r.Err)\n\t}\n", "", false},
	{"unknown", "failed transfer does not tell those that need tokens", "handoff.go", "if q.Fenced && !l.hasToken() {", "if false {", true},
	{"unknown", "cancelled grant kept", "handoff.go", "\t\t\treturn\n\t\t}\n\t\tm.release(l)\n\t\treturn\n\t}\n\tpassed", "\t\t\treturn\n\t\t}\n\t\tm.rest(l)\n\t\treturn\n\t}\n\tpassed", false},

	{"health", "a failed command not reported", "machine.go", "\tm.health.report(op.Sent, r.Ran, r.Final, r.Err, m.cfg.RetryTime)\n", "", false},
	{"health", "a failed renewal not reported", "renew.go", "\t\tm.health.report(batch.Sent, e.Ran, e.Final, e.Err, m.cfg.RetryTime)\n", "", false},
	{"health", "nobody is told", "machine.go", "\tm.tellOfServer()\n", "", false},
	{"health", "no alarm", "machine.go", "at = min(at, m.health.tellAt)", "_ = at", false},
	{"health", "told at once", "health.go", "due := m.tellDue(r.asked); due <= m.now {", "due := m.tellDue(r.asked); true {", true},
	{"health", "a wait that begins late is told at once", "health.go", "later(max(asked, m.health.since), m.cfg.RetryTime)", "later(m.health.since, m.cfg.RetryTime)", true},
	{"health", "an answer does not end it", "health.go", "case ran == Yes || ran == No && final:", "case false:", false},
	{"health", "one command's own trouble counts", "health.go", "\tcase final: // this command's own trouble\n", "", false},
	{"health", "a new wait is not told", "acquire.go", "m.health.tellAt = min(m.health.tellAt, m.tellDue(m.now))", "", false},
	{"health", "Close waits for a failing server", "health.go", "if m.closing && m.now >= m.tellDue(m.closedAt) {\n\t\tm.abort()\n\t\treturn\n\t}\n", "", false},

	{"a message is a hint", "wake-up during a try not remembered", "wait.go", "l.woken = l.woken || ev.Message || ev.Confirmed", "", false},
	{"a message is a hint", "remembered, but ignored", "acquire.go", "case l.woken && t.ready(m.now, &m.cfg), t.press(&m.cfg):", "case t.press(&m.cfg):", false},
	{"a message is a hint", "no try on confirmation", "wait.go", "case ev.Message || ev.Confirmed:", "case ev.Message:", false},
	{"a message is a hint", "message ignored", "wait.go", "case ev.Message || ev.Confirmed:", "case ev.Confirmed:", false},
	{"a message is a hint", "no poll", "lock.go", "case waiting:\n\t\tif l.flight == 0 {\n\t\t\treturn c.retryAt\n\t\t}", "case waiting:", false},
	{"a message is a hint", "first refusal does not subscribe", "acquire.go", "\t\tm.subscribe(l)\n\t\tc.retryAt = poll", "\t\tc.retryAt = poll", false},
	{"a message is a hint", "a message starts a second try", "wait.go", "case l.flight != 0: // a look", "case false:", false},
	{"a message is a hint", "a gap brings no closer poll", "wait.go", "case gap:", "case gap && false:", true},
	{"a message is a hint", "a record of another kind polled at its TTL", "acquire.go", "if r.Elsewhere && ", "if false && ", true},
	{"a message is a hint", "raises no doubt", "wait.go", "\t\t\tm.doubt(l)\n", "", false},
	{"a message is a hint", "a doubt does not look", "verify.go", "\tc.nextTransfer = min(c.nextTransfer, m.now) // which looks as well\n\tm.tend(l)\n", "", false},
	{"a message is a hint", "passed on in doubt", "handoff.go", " || l.doubtful() {", " {", false},
	{"a message is a hint", "an earlier script ends the doubt", "verify.go", "c != nil && id > c.doubt {", "c != nil {", true},
	{"a message is a hint", "a flood of doubts keeps the lock", "verify.go", "if c.doubts <= mostDoubts {", "if true {", true},
	{"one script in flight", "tend does not look", "hold.go", "if c == nil || l.flight != 0 || l.phase != held {", "if c == nil || l.phase != held {", false},
	{"one script in flight", "renewal does not look", "renew.go", "case l.flight != 0:\n\t\t\tm.renewals.Schedule(l, m.now, m.now)\n", "", false},
	{"one script in flight", "release does not look", "release.go", "if l.flight == 0 {\n\t\tm.sendRelease(l)", "if true {\n\t\tm.sendRelease(l)", false},

	{"every end is an end", "subscription not dropped", "wait.go", "\tm.emit(Unsubscribe{l.name})\n", "", false},
	{"every end is an end", "name not forgotten", "machine.go", "delete(m.locks, l.name)\n", "", false},
	{"every end is an end", "alarm of a forgotten name", "machine.go", "m.alarms.remove(l)\n", "", false},
	{"every end is an end", "waiter kept at its time-out", "acquire.go", "\tl.queue.remove(r)\n", "", false},
	{"every end is an end", "time-out kept after a grant", "acquire.go", "\tm.giveUps.remove(r)\n", "", false},
	{"every end is an end", "time-outs not kept", "acquire.go", "m.giveUps.set(r, r.GiveUp)", "", false},
	{"every end is an end", "poll's time left to the next phase", "acquire.go", "c.nextTransfer, c.retryAt = m.now, m.now", "c.nextTransfer = m.now", false},
	{"every end is an end", "owner's wait not forgotten", "acquire.go", "\t\tm.waits.remove(r)\n", "", false},
	{"every end is an end", "Unlock not answered when the record is gone", "hold.go", "\tm.unlocked(l, errGone)\n\tm.next(l, nil)", "\tm.next(l, nil)", false},
	{"every end is an end", "Close leaves holds", "machine.go", "m.loseHold(l, ErrClosed)\n\t\t\tm.release(l)", "m.loseHold(l, ErrClosed)", false},
	{"every end is an end", "Close leaves waiters", "machine.go", "m.giveUp(l.queue.head, ErrClosed)", "m.dequeue(l, l.queue.head)", false},

	{"fair", "a run has no end", "handoff.go", "if t.count < m.runLimit(t) && m.now-t.start < m.cfg.PassTime || t.inCredit(m.now, l.since, &m.cfg) {", "if true {", false},
	{"fair", "a run does not count", "turns.go", "\tt.count++\n", "", false},
	{"fair", "never stands back", "turns.go", "t.back, t.heard, t.yielded = true, 0, false", "t.heard, t.yielded = 0, false", false},
	{"fair", "its own message ends its standing back", "wait.go", "foreign := ev.Message && !l.isEcho(ev)", "foreign := ev.Message", false},
	{"fair", "alone until told otherwise", "handoff.go", "if t.alone && m.cfg.TrustSubscribers {", "if t.others == 0 && m.cfg.TrustSubscribers {", false},
	{"fair", "alone for good", "turns.go", "t.busy, t.alone, t.fresh = false, false, false", "t.busy, t.fresh = false, false", false},
	{"fair", "news from before", "turns.go", "t.busy, t.alone, t.fresh = false, false, false", "t.busy, t.alone = false, false", true},
	{"fair", "others not heard of", "handoff.go", "return max(0, min(subscribers, mostOthers))", "return 0", false},
	{"fair", "trusts a count that is none", "handoff.go", "if subscribers < 0 || !m.cfg.TrustSubscribers {", "if false {", false},
	{"fair", "a try though others are first", "acquire.go", "if !c.turns.ready(m.now, &m.cfg) {", "if false {", true},
	{"fair", "a run forgotten at rest", "machine.go", "if t := &c.turns; t.others > 0 || t.back {", "if t := &c.turns; t == nil {", true},
	{"fair", "kept though nobody comes back", "handoff.go", "return m.now < c.keepUntil", "return true", false},
	{"fair", "last come, first served", "request.go", "q.tail = r\n\tq.n++", "q.tail = r\n\tq.n++\n\tif q.head != r && q.head.Owner%5 == 0 {\n\t\tq.remove(r)\n\t\tr.next = q.head\n\t\tq.head.prev = r\n\t\tq.head = r\n\t\tq.n++\n\t}", false},

	{"tokens", "given twice", "hold.go", "l.c.nextToken++\n", "", false},
	{"tokens", "used past the range", "handoff.go", "l.c.nextToken <= l.c.lastToken", "true", false},
	{"tokens", "used after the record was lost", "hold.go", "l.c.nextToken, l.c.lastToken = 0, -1", "", false},
	{"tokens", "re-entry gets a new one", "hold.go", "r.Anchor, r.Until, r.Token, r.Field = a, a.Until, a.Token, a.Field", "r.Anchor, r.Until, r.Token, r.Field = a, a.Until, a.Token+1, a.Field", false},

	{"deadlock", "the oldest fails", "deadlock.go", "if r.ID > youngest.ID {", "if r.ID < youngest.ID {", false},
	{"deadlock", "not looked for when an owner begins to wait", "acquire.go", "\t\tm.breakDeadlock(r, l)\n", "", false},
	{"deadlock", "not looked for when an owner begins to hold", "hold.go", "\t\tm.breakDeadlocks(r.Owner, l)\n", "", false},
	{"deadlock", "adopted owners not seen", "deadlock.go", "if h == nil {", "if h == nil || !h.Explicit {", false},
	{"deadlock", "adopted owners not seen by a new wait", "deadlock.go", "l.holder != nil {", "l.holder != nil && l.holder.Explicit {", false},
	{"deadlock", "one circle broken of several", "deadlock.go", "m.failYoungest(append([]*Request{r}, path...))", "m.failYoungest(append([]*Request{r}, path...))\n\t\treturn", false},

	{"bounded work", "extension of a lock that is to be transferred", "lock.go", "switch { // as in tend\n\t\t\tcase l.transferDue():\n\t\t\t\tat = min(at, c.nextTransfer)\n\t\t\tcase c.extend > 0:\n\t\t\t\tat = min(at, c.retryAt)\n\t\t\t}", "if l.transferDue() {\n\t\t\t\tat = min(at, c.nextTransfer)\n\t\t\t}\n\t\t\tif c.extend > 0 {\n\t\t\t\tat = min(at, c.retryAt)\n\t\t\t}", false},
	{"bounded work", "what is refused for good is repeated at once", "handoff.go", "c.turns.others = max(c.turns.others, 1)\n", "c.turns.others = max(c.turns.others, 1)\n\t\t\tc.retryAt = m.now\n", true},
	{"bounded work", "no pause after a failure", "machine.go", "c.retryAt = m.now + m.pause(c.failures)", "c.retryAt = m.now", false},
}

var (
	hunting = flag.Bool("mutants", false, "build and run every mutant of the core")
	part    shard.Shard
)

func init() {
	flag.Var(&part, "shard", "run only the part `k/n` of the mutants: every n-th, from the k-th on")
}

func (m *mutant) String() string { return m.rule + ": " + m.name }

// mutated returns the path of a mutant's file and what it shall contain.
func (m *mutant) mutated() (path, text string, err error) {
	if path, err = filepath.Abs(filepath.Join("..", "core", m.file)); err != nil {
		return "", "", err
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	if n := strings.Count(string(src), m.old); n != 1 {
		return "", "", fmt.Errorf("%s contains %q %d times, not once: the list is out of date", m.file, m.old, n)
	}
	return path, strings.Replace(string(src), m.old, m.new, 1), nil
}

// A mutant of text that has gone tests nothing.
func TestTheListOfMutantsIsUpToDate(t *testing.T) {
	names := map[string]bool{}
	for i := range mutants {
		m := &mutants[i]
		if names[m.String()] {
			t.Errorf("%v is there twice", m)
		}
		names[m.String()] = true
		if _, _, err := m.mutated(); err != nil {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// TestMutants proves that the simulation would notice: it breaks the core in
// one place at a time and expects a violation within some thousand seeds. Each
// mutant is a subtest.
func TestMutants(t *testing.T) {
	if !*hunting {
		t.Skip("SKIPPED: builds the simulation once for each of more than a hundred mutants, in some minutes: -mutants")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	caught := make([]string, len(mutants))
	t.Cleanup(func() { // when the last subtest has ended
		var b strings.Builder
		rule, n := "", 0
		for i, m := range mutants {
			if caught[i] == "" {
				continue // of another shard, or not asked for
			}
			if m.rule != rule {
				rule = m.rule
				fmt.Fprintf(&b, "\n%s", rule)
			}
			fmt.Fprintf(&b, "\n    %-52s %s", m.name, caught[i])
			n++
		}
		t.Logf("%d of %d mutants%s", n, len(mutants), b.String())
	})
	for i := range mutants {
		if !part.Has(i) {
			continue
		}
		m := &mutants[i]
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			caught[i] = m.hunt(t, goTool)
		})
	}
}

var (
	seedVerdict  = regexp.MustCompile(`(?m)^\s+sim_test\.go:\d+: seed (\d+): ([^:]+):`)
	storyVerdict = regexp.MustCompile(`(?m)^\s+--- FAIL: TestStories/(\S+)`)
)

// hunt builds the simulation with a mutant in the place of the core, and runs
// it. It returns what caught the mutant.
func (m *mutant) hunt(t *testing.T, goTool string) string {
	fail := func(format string, args ...any) string {
		s := fmt.Sprintf(format, args...)
		t.Error(s)
		return s
	}
	path, text, err := m.mutated()
	if err != nil {
		return fail("%v", err)
	}
	dir := t.TempDir()
	patched, overlay, bin := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutant.test")
	if err := os.WriteFile(patched, []byte(text), 0o600); err != nil {
		return fail("%v", err)
	}
	replace, _ := json.Marshal(map[string]map[string]string{"Replace": {path: patched}})
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return fail("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	pkg, args, verdict := ".", []string{"-test.run=^TestSeeds$", "-seeds", "12000", "-shrink=false", "-tail=0", "-hang=10s"}, seedVerdict
	if m.stories {
		pkg, args, verdict = filepath.Dir(path), []string{"-test.run=^TestStories$"}, storyVerdict
	}
	build := exec.CommandContext(ctx, goTool, "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", bin, ".")
	build.Dir = pkg
	if out, err := build.CombinedOutput(); err != nil {
		return fail("does not build: %v\n%s", err, out)
	}
	run := exec.CommandContext(ctx, bin, append(args, "-test.timeout=60s")...)
	run.Dir = pkg
	run.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err := run.CombinedOutput()
	if err == nil {
		return fail("SURVIVED")
	}
	if found := verdict.FindSubmatch(out); found != nil {
		if m.stories {
			return fmt.Sprintf("story %s", found[1])
		}
		return fmt.Sprintf("%s, seed %s", found[2], found[1])
	}
	if s := string(out); strings.Contains(s, "does not end") {
		return "does not end"
	}
	return fail("failed in another way: %v\n%s", err, out)
}
