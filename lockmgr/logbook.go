package lockmgr

import (
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/clean"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

const (
	// A trouble is over when no command has failed for the same reason for troubleQuiet, and a
	// command has succeeded. With the default time-outs, troubleQuiet is longer than the time
	// between two failures of a repeated command: a command time-out, a dial time-out and a pause.
	// namesQuiet is for reasons other than a silent server. Such reasons concern some names only,
	// perhaps with rare requests.
	troubleQuiet = 15 * time.Second
	namesQuiet   = 5 * time.Minute
	// burstTime and burstLines limit the lines about locks. The first ten losses within a second
	// have a line each. Further losses share a line. Releases have the same limit.
	burstTime  = time.Second
	burstLines = 10
	// maxLogName is the most bytes of a name that a log line leaves unchanged.
	maxLogName = 128
)

// A logbook writes few log lines about many failures. Commands that fail for the same reason are a
// trouble. A trouble has a line at the beginning and a line at the end. The manager's goroutine
// owns the logbook.
type logbook struct {
	log        *slog.Logger
	troubles   map[string]*trouble // by Reason
	losses     burst
	unreleased burst

	toldOutside bool // outside has written its line

	due    func()      // posts bookDue; nil if nobody reads the lines
	timer  *time.Timer // runs while something has to end
	closed bool
}

// A trouble is a time in which commands fail again and again for the same reason.
type trouble struct {
	begin, last time.Time
	answered    bool // a command has succeeded since last
	commands    int  // commands that failed, without renewals
	renewals    int  // leases whose renewal failed
}

// A burst counts the lines of a kind since begin.
type burst struct {
	begin time.Time
	lines int
}

// newLogbook returns a logbook that writes to log. The logbook calls due when advance is to be
// called.
func newLogbook(log *slog.Logger, due func()) logbook {
	return logbook{log: log, troubles: make(map[string]*trouble), due: due}
}

// failed notes that commands failed, or that renewals of leases failed. The parameters commands and
// renewals are the numbers of failures. The attributes in whose name the lock.
func (b *logbook) failed(now time.Time, commands, renewals int, err error, whose ...any) {
	reason := Reason(err)
	t := b.troubles[reason]
	if t == nil {
		t = &trouble{begin: now}
		b.troubles[reason] = t
		b.log.Warn("commands fail", append(whose, "reason", reason, "error", err)...)
	}
	t.last, t.answered, t.commands, t.renewals = now, false, t.commands+commands, t.renewals+renewals
	b.startTimer()
}

// answers notes the replies of commands.
func (b *logbook) answers(all *core.Replies) {
	if len(b.troubles) == 0 {
		return
	}
	for i := range all.Replies {
		if all.Replies[i].Ran != core.Yes {
			continue
		}
		for _, t := range b.troubles {
			t.answered = true
		}
		return
	}
}

// lost notes the loss of a lock.
func (b *logbook) lost(now time.Time, name, owner string, err error) {
	if b.count(&b.losses, now) <= burstLines {
		b.log.Warn("lock lost", "name", name, "owner", owner, "error", err)
	}
}

// givenUp notes a release given up.
func (b *logbook) givenUp(now time.Time, name string, err error) {
	if b.count(&b.unreleased, now) <= burstLines {
		b.log.Error("release not confirmed, the lock will expire", "name", name, "error", err)
	}
}

// outside notes that the manager can't stand in the line of a name. Only the first is logged.
func (b *logbook) outside(name string) {
	if !b.toldOutside {
		b.toldOutside = true
		b.log.Warn("waiters can't stand in the line on the server", "name", name)
	}
}

// count adds a line to a burst, and returns how many lines the burst has.
func (b *logbook) count(s *burst, now time.Time) int {
	b.endBursts(now)
	if s.lines == 0 {
		s.begin = now
		b.stopTimer() // which may run for a trouble, for minutes
	}
	s.lines++
	b.startTimer()
	return s.lines
}

// end ends the burst if it has lasted for burstTime. end returns how many lines were left out.
func (s *burst) end(now time.Time) (more int) {
	if s.lines == 0 || now.Sub(s.begin) < burstTime {
		return 0
	}
	more = max(0, s.lines-burstLines)
	s.lines = 0
	return more
}

func (b *logbook) endBursts(now time.Time) {
	if n := b.losses.end(now); n > 0 {
		b.log.Warn("more locks lost", "count", n)
	}
	if n := b.unreleased.end(now); n > 0 {
		b.log.Error("more releases not confirmed, the locks will expire", "count", n)
	}
}

// advance ends bursts and troubles whose time has come. advance returns the time until the next
// call is due, or a negative time if nothing is open.
func (b *logbook) advance(now time.Time) time.Duration {
	b.endBursts(now)
	next := time.Duration(-1)
	soon := func(d time.Duration) {
		if next < 0 || d < next {
			next = d
		}
	}
	for reason, t := range b.troubles {
		quiet := namesQuiet
		if reason == Reason(ErrUnavailable) {
			quiet = troubleQuiet
		}
		if left := quiet - now.Sub(t.last); left > 0 || !t.answered {
			soon(max(left, burstTime))
			continue
		}
		delete(b.troubles, reason)
		b.log.Info("commands no longer fail", "reason", reason, "for", t.last.Sub(t.begin).Round(time.Millisecond),
			"failures", t.commands, "renewals", t.renewals)
	}
	for _, s := range []*burst{&b.losses, &b.unreleased} {
		if s.lines > 0 {
			soon(burstTime - now.Sub(s.begin))
		}
	}
	return next
}

// close ends the logbook with the manager. close logs how many lines were left out. An open trouble
// gets no second line.
func (b *logbook) close(now time.Time) {
	b.endBursts(now.Add(burstTime))
	b.closed = true
	b.stopTimer()
}

// bookDue asks the loop to advance the logbook.
type bookDue struct{}

// startTimer starts the timer if the timer is not running and somebody reads the lines.
func (b *logbook) startTimer() {
	if b.timer == nil && b.due != nil {
		b.timer = time.AfterFunc(burstTime, b.due)
	}
}

func (b *logbook) stopTimer() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

// handleDue advances the logbook, and starts the timer again if something is open.
func (b *logbook) handleDue() {
	b.stopTimer()
	if next := b.advance(time.Now()); next >= 0 && !b.closed {
		b.timer = time.AfterFunc(next, b.due)
	}
}

// logName returns a name for a log line. logName leaves a name unchanged, because the handler
// quotes where necessary. A long name, or a name with a character that could forge a line, is
// quoted and cut. The key of a set has quotes already.
func logName(name string, isSet bool) string {
	if !isSet && len(name) <= maxLogName && clean.Is(name) {
		return name
	}
	return shownName(name, isSet)
}
