package measure

import (
	"fmt"
	"strings"
	"time"
)

// A mix is processes that take turns at one lock.
type mix []turnProc

// A turnProc is one process of a mix.
type turnProc struct {
	candidate string
	callers   int
	delay     time.Duration // how much farther it is from the server, one way
	deaf      bool          // it may not subscribe
}

// mixes returns all mixes, in the order of the tables.
func mixes() []mix {
	h := func(callers int) turnProc { return turnProc{candidate: "holdfast", callers: callers} }
	d := func(callers int) turnProc { return turnProc{candidate: "direct", callers: callers} }
	far, deaf := h(25), h(25)
	far.delay, deaf.deaf = 30*time.Millisecond, true
	return []mix{
		{h(1), h(1)}, {h(1), h(250)}, {h(50), h(50)}, {h(250), h(3)}, {h(25), h(25), h(25), h(25)},
		{h(3), d(50)}, {h(1), d(1)}, {h(1), d(50)}, {d(50), d(50)},
		{h(25), far}, {h(25), deaf},
	}
}

// String returns "1 + direct 50", say.
func (m mix) String() string {
	var parts []string
	for _, p := range m {
		s := fmt.Sprint(p.callers)
		if p.candidate != "holdfast" {
			s = p.candidate + " " + s
		}
		if p.delay > 0 {
			s += " far off"
		}
		if p.deaf {
			s += " deaf"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " + ")
}

// MixNames returns the names of all mixes.
func MixNames() []string {
	var names []string
	for _, m := range mixes() {
		names = append(names, m.String())
	}
	return names
}
