package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
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
	{"deadline", "a long lease is inherited", "handoff.go", "if l.until-m.now > m.cfg.usable(max(m.leaseOf(r), m.cfg.Lease)) {", "if false {", true},
	{"deadline", "renewal counted from the reply", "renew.go", "m.trust(l, batch.Sent, batch.Lease)", "m.trust(l, m.now, batch.Lease)", false},
	{"deadline", "transfer counted from the reply", "handoff.go", "m.trust(l, op.Sent, op.Lease)", "m.trust(l, m.now, op.Lease)", false},
	{"deadline", "without the 1 %", "config.go", "return lease - lease/100 - c.Margin", "return lease - c.Margin", false},
	{"deadline", "without the margin", "config.go", "return lease - lease/100 - c.Margin", "return lease - lease/100", false},
	{"deadline", "renewal moves it back", "handoff.go", "l.until = max(l.until, sent+m.cfg.usable(lease))", "l.until = sent + m.cfg.usable(lease)", false},
	{"deadline", "expired record passed on", "handoff.go", "case m.now >= l.until:", "case false:", false},
	{"deadline", "alarm does not end a hold", "machine.go", "if m.now >= l.holdUntil() {\n\t\t\tm.expire(l)", "if m.now >= l.until {\n\t\t\tm.expire(l)", false},
	{"deadline", "no alarm for a hold", "lock.go", "at := l.holdUntil()\n", "at := l.holdUntil() + time.Second\n", false},
	{"deadline", "failed renewal taken for a good one", "renew.go", "case ev.Ran != Yes:\n\t\t\tif ev.Ran", "case ev.Ran == No:\n\t\t\tif ev.Ran", false},
	{"deadline", "refused renewal ignored", "renew.go", "case isLost:\n\t\t\tm.gone(l)", "case isLost:\n\t\t\tm.renewalFailed(l)", false},
	{"deadline", "fixed lease never ends", "hold.go", "r.limit = m.now + m.cfg.usable(r.Lease)", "r.limit = Forever", false},

	{"deadline", "late grant asked for again at once", "acquire.go", "if m.now >= l.until {\n\t\t\t// Nobody", "if false {\n\t\t\t// Nobody", true},

	{"re-entry", "does not count", "hold.go", "a.count++\n", "", false},
	{"re-entry", "shorter lease shortens", "hold.go", "case m.now+m.cfg.usable(r.Lease) > a.limit:", "default:", false},
	{"re-entry", "shortens a watched hold", "hold.go", "case a.limit == Forever:", "case a.limit == Forever && r.Lease > 0:\n\t\ta.limit = m.now + m.cfg.usable(r.Lease)\n\tcase a.limit == Forever:", false},
	{"re-entry", "after the deadline", "acquire.go", "if l.phase == held && m.now >= l.holdUntil() {\n\t\tm.expire(l)", "if false {\n\t\tm.expire(l)", false},
	{"re-entry", "by anybody", "acquire.go", "r.Explicit && l.holder.Owner == r.Owner", "r.Explicit", false},
	{"re-entry", "owner queues behind itself", "hold.go", "range m.waitsFor(r.Owner, l) {", "range m.waitsFor(r.Owner, l)[:0] {", false},
	{"re-entry", "longer lease not asked for", "hold.go", "c.extend, c.retryAt = r.Lease, m.now", "c.retryAt = m.now", false},

	{"idempotence", "scripts name the present owner only", "lock.go", "if s.owner != beside && s.owner != l.owner {", "if false {", false},
	{"idempotence", "the old owner not named", "lock.go", "if l.owner != 0 && l.owner != beside {", "if false {", false},
	{"idempotence", "answer to an earlier command believed", "machine.go", "if r.ID != op.ID || l == nil || l.flight != op.ID {", "if l == nil {", false},

	{"unknown", "acquire forgotten", "machine.go", "l.suspectOp(op, m.now+m.cfg.SuspectTime)", "", false},
	{"unknown", "taken for a refusal", "lock.go", "if op.Kind == KindAcquire {\n\t\tcreates = 1\n\t}", "", false},
	{"unknown", "release taken for done", "release.go", "if r.Ran != Yes {\n\t\tm.releaseFailed(l, r)\n\t\treturn\n\t}", "if r.Ran == No {\n\t\tm.releaseFailed(l, r)\n\t\treturn\n\t}", false},
	{"unknown", "passed on after an unknown release", "release.go", "\t\tif l.owner != 0 {\n\t\t\tl.suspect(l.owner, m.now+m.cfg.SuspectTime, 1)\n\t\t\tl.owner = 0\n\t\t}\n\t\tm.dropTokens(l)", "", false},
	{"unknown", "unconfirmed release leaves no suspect", "release.go", "\t\t\tl.suspect(l.owner, m.now+m.cfg.SuspectTime, 1)\n", "", true},
	{"unknown", "no clean-up when nobody is left", "acquire.go", "if l.haunted() {\n\t\tm.release(l)\n\t\treturn\n\t}", "", true},
	{"unknown", "no clean-up of what comes to life later", "machine.go", "if l.haunted() && !m.closing {", "if false {", false},
	{"unknown", "suspects dropped at once", "lock.go", "return s.until <= at })", "return true })", false},
	{"unknown", "rest does not wait for suspects", "machine.go", "at = max(at, s.until)", "_ = s", false},
	{"unknown", "doomed number used again", "acquire.go", "if r.state == reqQueued && l.isDoomed(r.Field) {", "if false {", false},
	{"unknown", "named owner recorded under its doomed number", "acquire.go", "r.Explicit && l.isDoomed(r.Owner)", "false", false},
	{"unknown", "a removal explains any suspect", "release.go", "if r.OK && !confirmed {", "if _ = confirmed; r.OK {", false},
	{"unknown", "one removal explains all suspects", "release.go", "if n == 1 {", "if n >= 1 {", false},
	{"unknown", "record thought gone while a lost renewal keeps it", "release.go", "max(m.now, l.until, c.mayLive)", "max(m.now, l.until)", true},
	{"unknown", "suspects dropped with a release that is given up", "release.go", "for i := range c.suspects {\n\t\t\tc.suspects[i].creates = 0 // expired", "for i := range c.suspects {\n\t\t\tc.suspects[i].doomed = false // expired", true},
	{"unknown", "expired record not named", "hold.go", "l.suspect(l.owner, m.now+m.cfg.SuspectTime, 1)\n\t\tl.owner = 0", "l.owner = 0", false},
	{"unknown", "failed release not repeated", "lock.go", "case releasing:\n\t\tif l.flight == 0 {\n\t\t\treturn c.retryAt\n\t\t}", "", false},
	{"unknown", "tries fail for ever", "acquire.go", "if m.now-l.c.failingSince >= m.cfg.RetryTime {", "if false {", true},
	{"unknown", "late answers are no failures in a row", "acquire.go", "m.tryFailed(l, ErrTooLate, false)", "l.c.succeeded()\n\t\t\tm.tryFailed(l, ErrTooLate, false)", true},
	{"unknown", "cancelled grant kept", "handoff.go", "case r == nil:\n\t\tm.release(l)\n\t\treturn", "case r == nil:\n\t\tm.rest(l)\n\t\treturn", false},

	{"a message is a hint", "wake-up during a try not remembered", "wait.go", "if l.phase == asking {\n\t\t\tl.woken = true\n\t\t} else if", "if", false},
	{"a message is a hint", "remembered, but ignored", "acquire.go", "case l.woken:", "case false:", false},
	{"a message is a hint", "no try on confirmation", "wait.go", "case ev.Confirmed:", "case false:", false},
	{"a message is a hint", "message ignored", "wait.go", "\t} else if l.phase == waiting {\n\t\t\tm.ask(l)\n\t\t}", "\t}", false},
	{"a message is a hint", "no poll", "lock.go", "case waiting:\n\t\treturn c.retryAt", "case waiting:", false},
	{"a message is a hint", "first refusal does not subscribe", "acquire.go", "\t\tm.subscribe(l)\n\t\tc.retryAt = m.now + m.poll(l, ttl)", "\t\tc.retryAt = m.now + m.poll(l, ttl)", false},
	{"a message is a hint", "a message starts a second try", "wait.go", "} else if l.phase == waiting {", "} else {", false},
	{"one script in flight", "tend does not look", "hold.go", "if c == nil || l.flight != 0 || l.phase != held {", "if c == nil || l.phase != held {", false},
	{"one script in flight", "renewal does not look", "renew.go", "case l.flight != 0:\n\t\t\tm.renewals.Schedule(l, m.now, m.now)\n", "", false},
	{"one script in flight", "release does not look", "release.go", "if l.flight == 0 {\n\t\tm.sendRelease(l)", "if true {\n\t\tm.sendRelease(l)", false},

	{"every end is an end", "subscription not dropped", "machine.go", "m.emit(Unsubscribe{l.name})\n\t}\n\tl.c = nil", "}\n\tl.c = nil", false},
	{"every end is an end", "name not forgotten", "machine.go", "delete(m.locks, l.name)\n", "", false},
	{"every end is an end", "alarm of a forgotten name", "machine.go", "m.alarms.remove(l)\n", "", false},
	{"every end is an end", "waiter kept at its time-out", "acquire.go", "\tl.queue.remove(r)\n", "", false},
	{"every end is an end", "time-out kept after a grant", "acquire.go", "\tm.giveUps.remove(r)\n", "", false},
	{"every end is an end", "time-outs not kept", "acquire.go", "m.giveUps.set(r, r.GiveUp)", "", false},
	{"every end is an end", "poll's time left to the next phase", "acquire.go", "c.nextTransfer, c.retryAt = m.now, m.now", "c.nextTransfer = m.now", false},
	{"every end is an end", "owner's wait not forgotten", "acquire.go", "\t\tm.ownerWaitsNoMore(r)\n", "", false},
	{"every end is an end", "Unlock not answered when the record is gone", "hold.go", "\tm.unlocked(l, errGone)\n\tm.next(l, nil)", "\tm.next(l, nil)", false},
	{"every end is an end", "Close leaves holds", "machine.go", "m.loseHold(l, ErrClosed)\n\t\t\tm.release(l)", "m.loseHold(l, ErrClosed)", false},
	{"every end is an end", "Close leaves waiters", "machine.go", "m.giveUp(l.queue.head, ErrClosed)", "m.dequeue(l, l.queue.head)", false},

	{"fair", "a run has no end", "handoff.go", "if c.runCount < m.runLimit(c) && m.now-c.runStart < m.cfg.PassTime {", "if true {", false},
	{"fair", "a run does not count", "hold.go", "c.runCount++\n\t\t", "", false},
	{"fair", "never stands back", "release.go", "case over && c.runCount > 0:", "case over && false:", false},
	{"fair", "its own message ends its standing back", "wait.go", "c.echo = true\n\t\tev.Message = false", "c.echo = true", false},
	{"fair", "alone until told otherwise", "handoff.go", "if c.alone && m.cfg.TrustSubscribers {", "if c.others == 0 && m.cfg.TrustSubscribers {", false},
	{"fair", "alone for good", "acquire.go", "c.alone, c.fresh = false, false", "c.fresh = false", false},
	{"fair", "news from before", "acquire.go", "c.alone, c.fresh = false, false", "c.alone = false", false},
	{"fair", "others not heard of", "handoff.go", "return max(0, min(subscribers, mostOthers))", "return 0", false},
	{"fair", "trusts a count that is none", "handoff.go", "if subscribers < 0 || !m.cfg.TrustSubscribers {", "if false {", false},
	{"fair", "last come, first served", "request.go", "q.tail = r\n\tq.n++", "q.tail = r\n\tq.n++\n\tif q.head != r && q.head.Owner%5 == 0 {\n\t\tq.remove(r)\n\t\tr.next = q.head\n\t\tq.head.prev = r\n\t\tq.head = r\n\t\tq.n++\n\t}", false},

	{"tokens", "given twice", "hold.go", "l.c.nextToken++\n", "", false},
	{"tokens", "used past the range", "handoff.go", "l.c.nextToken <= l.c.lastToken", "true", false},
	{"tokens", "used after the record was lost", "hold.go", "l.c.nextToken, l.c.lastToken = 0, -1", "", false},
	{"tokens", "re-entry gets a new one", "hold.go", "r.Anchor, r.Until, r.Token, r.Field = a, a.Until, a.Token, a.Field", "r.Anchor, r.Until, r.Token, r.Field = a, a.Until, a.Token+1, a.Field", false},

	{"deadlock", "the oldest fails", "deadlock.go", "if r.ID > youngest.ID {", "if r.ID < youngest.ID {", false},
	{"deadlock", "not looked for when an owner begins to wait", "acquire.go", "\t\tm.breakDeadlock(r.Owner)\n", "", false},
	{"deadlock", "not looked for when an owner begins to hold", "hold.go", "\t\tm.breakDeadlock(r.Owner)\n", "", false},

	{"bounded work", "extension of a lock that is to be transferred", "lock.go", "switch { // as in tend\n\t\t\tcase l.owner != l.holder.Field:\n\t\t\t\tat = min(at, c.nextTransfer)\n\t\t\tcase c.extend > 0:\n\t\t\t\tat = min(at, c.retryAt)\n\t\t\t}", "if l.owner != l.holder.Field {\n\t\t\t\tat = min(at, c.nextTransfer)\n\t\t\t}\n\t\t\tif c.extend > 0 {\n\t\t\t\tat = min(at, c.retryAt)\n\t\t\t}", false},
	{"bounded work", "what is refused for good is repeated at once", "handoff.go", "c.others = max(c.others, 1)\n", "c.others = max(c.others, 1)\n\t\t\tc.retryAt = m.now\n", true},
	{"bounded work", "no pause after a failure", "machine.go", "c.retryAt = m.now + pause/2 + m.jitter.upTo(pause)", "c.retryAt = m.now", false},
}

// TestMutants proves that the simulation would notice: it breaks the core in
// one place at a time and expects a violation within some thousand seeds.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the test once for each of dozens of mutants")
	}
	if *seed >= 0 || *seeds > 0 {
		t.Skip("a run with seeds of one's own")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool to build them with")
	}
	caught := make([]string, len(mutants))
	var wg sync.WaitGroup
	next := make(chan int)
	for range 2 {
		wg.Go(func() {
			for i := range next {
				caught[i] = mutants[i].hunt(t, goTool)
			}
		})
	}
	for i := range mutants {
		next <- i
	}
	close(next)
	wg.Wait()
	var b strings.Builder
	rule := ""
	for i, m := range mutants {
		if m.rule != rule {
			rule = m.rule
			fmt.Fprintf(&b, "\n%s", rule)
		}
		fmt.Fprintf(&b, "\n    %-52s %s", m.name, caught[i])
	}
	t.Logf("%d mutants%s", len(mutants), b.String())
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
		t.Errorf("%s: %s: %s", m.rule, m.name, s)
		return s
	}
	path, err := filepath.Abs(filepath.Join("..", "core", m.file))
	if err != nil {
		return fail("%v", err)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return fail("%v", err)
	}
	if n := strings.Count(string(src), m.old); n != 1 {
		return fail("%s contains %q %d times, not once: the list is out of date", m.file, m.old, n)
	}
	dir := t.TempDir()
	patched, overlay, bin := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutant.test")
	if err := os.WriteFile(patched, []byte(strings.Replace(string(src), m.old, m.new, 1)), 0o600); err != nil {
		return fail("%v", err)
	}
	replace, _ := json.Marshal(map[string]map[string]string{"Replace": {path: patched}})
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return fail("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	pkg, args, verdict := ".", []string{"-test.run=^TestSeeds$", "-seeds", "12000", "-shrink=false", "-tail=0", "-hang=2s"}, seedVerdict
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
