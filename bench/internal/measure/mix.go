package measure

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Mix is a set of processes that take turns at one lock.
type Mix struct {
	Name  string
	Procs []TurnProc
}

// A TurnProc is one process of a mix.
type TurnProc struct {
	Candidate string
	Callers   int
	// Delay is how much farther it is from the server, one way.
	Delay time.Duration
	// Deaf forbids it to subscribe.
	Deaf bool
}

// Mixes returns all mixes, in the order of the tables.
func Mixes() []Mix {
	h := func(callers int) TurnProc { return TurnProc{Candidate: "holdfast", Callers: callers} }
	d := func(callers int) TurnProc { return TurnProc{Candidate: "direct", Callers: callers} }
	far, deaf := h(25), h(25)
	far.Delay, deaf.Deaf = 30*time.Millisecond, true
	var all []Mix
	for _, procs := range [][]TurnProc{
		{h(1), h(1)}, {h(1), h(250)}, {h(50), h(50)}, {h(250), h(3)}, {h(25), h(25), h(25), h(25)},
		{h(3), d(50)}, {h(1), d(1)}, {h(1), d(50)}, {d(50), d(50)},
		{h(25), far}, {h(25), deaf},
	} {
		all = append(all, Mix{mixName(procs), procs})
	}
	return all
}

// mixName is "1 + direct 50", say.
func mixName(procs []TurnProc) string {
	var parts []string
	for _, p := range procs {
		s := fmt.Sprint(p.Callers)
		if p.Candidate != "holdfast" {
			s = p.Candidate + " " + s
		}
		if p.Delay > 0 {
			s += " far off"
		}
		if p.Deaf {
			s += " deaf"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " + ")
}

// MixByName returns a mix.
func MixByName(name string) (Mix, bool) {
	all := Mixes()
	i := slices.IndexFunc(all, func(m Mix) bool { return m.Name == name })
	if i < 0 {
		return Mix{}, false
	}
	return all[i], true
}

// MixNames returns the names of all mixes.
func MixNames() []string {
	var names []string
	for _, m := range Mixes() {
		names = append(names, m.Name)
	}
	return names
}
