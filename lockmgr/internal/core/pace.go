package core

import "time"

// A pace spreads renewals that are due at once over several Ticks, so that other scripts go in
// between.
type pace struct {
	last       time.Duration // the last Tick that sent renewals
	pause      time.Duration // from that until the next ones
	smallUntil time.Duration // other scripts are being sent until then
}

// Each Tick sends at least so many renewals, if so many are due, and the next Tick comes after the
// pause.
const (
	usualBurst = 128
	usualPause = time.Millisecond

	// smallBurst and smallPause apply while other scripts are sent. Such a script waits until the
	// server is done with a burst. The server needs less time for smallBurst renewals than the
	// round trip of a script takes. Small bursts need more commands.
	smallBurst = 16
	smallPause = time.Millisecond / 2

	// besideTime is how long after another script bursts stay small.
	besideTime = 100 * time.Millisecond
)

// next returns the earliest instant of the next renewals.
func (p *pace) next() time.Duration { return p.last + p.pause }

// burst returns how many renewals to send now: enough that all leases, if due at once, take no
// longer than most.
func (p *pace) burst(now time.Duration, leases int, most time.Duration) int {
	least, pause := usualBurst, usualPause
	if now < p.smallUntil {
		least, pause = smallBurst, smallPause
	}
	passed := pause
	if p.pause > 0 { // renewals were left, and this Tick may come late
		passed = max(now-p.last, pause)
	}
	p.last, p.pause = now, pause
	return max(least, int(int64(leases)*int64(passed)/int64(most)))
}

// over notes that nothing due is left.
func (p *pace) over() { p.pause = 0 }

// sentOther notes the sending of a script other than a renewal.
func (p *pace) sentOther(now time.Duration) { p.smallUntil = now + besideTime }
