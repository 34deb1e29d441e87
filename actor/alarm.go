package actor

import "time"

// never is a deadline that no clock reaches.
const never = time.Duration(1<<63 - 1)

// alarm wakes a parked consumer at its deadline, with one timer for the actor's whole life.
//
// Handlers mostly ask for much the same instant again and again, or for an instant a little later.
// So alarm leaves the timer alone as long as the timer fires early enough. A timer may wake the
// consumer too soon: the consumer finds nothing due and sets the timer again. The timer calls a
// function and does not fill a channel: so parking is a plain receive, and the timer stays in the
// runtime's heap meanwhile.
type alarm struct {
	origin time.Time     // instants below are counted from here, on the monotonic clock
	at     time.Duration // when the handler wants to be called
	armed  time.Duration // when the timer fires; in the past: it has fired, or was never set
	wake   func()        // called by the timer
	timer  *time.Timer
}

// set makes the deadline next from now, never if next is negative.
func (a *alarm) set(next time.Duration) {
	a.at = never
	now := time.Since(a.origin)
	if at := now + next; at >= now { // else next is negative, or centuries
		a.at = at
		a.arm(now)
	}
}

// due reports whether the deadline has come. If not, due makes sure that the timer is set.
func (a *alarm) due() bool {
	if a.at == never {
		return false
	}
	now := time.Since(a.origin)
	if now >= a.at {
		return true
	}
	a.arm(now)
	return false
}

func (a *alarm) arm(now time.Duration) {
	if now < a.armed && a.armed <= a.at {
		return // the timer fires early enough
	}
	a.armed = a.at
	if a.timer == nil {
		a.timer = time.AfterFunc(a.at-now, a.wake)
	} else {
		a.timer.Reset(a.at - now)
	}
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
