package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// HoldsPerHistory is how many holds make one history: each is two operations.
const HoldsPerHistory = 5000

// An action is the input of an operation on a lock.
type action struct {
	hold   uint64
	token  int64
	end    bool
	shared bool
}

// held is the state of a lock.
type held struct {
	hold   uint64 // of one that is not shared; 0: none
	shared int    // how many are
	token  int64  // the largest so far
}

// model is that of the package's documentation.
var model = porcupine.Model{
	Init: func() any { return held{} },
	Step: func(state, input, _ any) (bool, any) {
		s, a := state.(held), input.(action)
		switch {
		case a.end && a.shared:
			return s.shared > 0, held{s.hold, s.shared - 1, s.token}
		case a.end:
			return s.hold == a.hold, held{token: s.token}
		case s.hold != 0:
			return false, s
		case a.shared:
			return a.token == 0 || a.token >= s.token, held{0, s.shared + 1, max(s.token, a.token)}
		case s.shared != 0 || a.token != 0 && a.token <= s.token:
			return false, s
		}
		return true, held{a.hold, 0, max(s.token, a.token)}
	},
}

// operations turns holds into the operations of a history.
func operations(holds []Hold) []porcupine.Operation {
	ops := make([]porcupine.Operation, 0, 2*len(holds))
	for i := range holds {
		h := &holds[i]
		from, to := h.Believed()
		acquired := from
		if acquired == 0 { // lost before anybody could look
			acquired, to = max(h.Ended, h.Ending, h.Asked), h.Asked
		}
		ops = append(ops, porcupine.Operation{ClientId: i, Input: action{hold: h.ID, token: h.Token, shared: h.Shared}, Call: h.Asked, Return: acquired})
		end := porcupine.Operation{ClientId: i, Input: action{hold: h.ID, end: true, shared: h.Shared}, Call: to, Return: math.MaxInt64}
		if h.How == Released {
			end.Call, end.Return = h.Ending, h.Ended
		}
		ops = append(ops, end)
	}
	return ops
}

// A Verdict is the result of one history.
type Verdict struct {
	Name     uint32
	Holds    int
	From, To int64 // when the first was granted, and the last
	Result   porcupine.CheckResult
	Took     time.Duration
}

// Violation returns nil unless the history is illegal.
func (v Verdict) Violation() *Violation {
	if v.Result != porcupine.Illegal {
		return nil
	}
	return &Violation{"no order explains this history", v.Name, fmt.Sprintf("%d holds granted from %d to %d", v.Holds, v.From, v.To)}
}

// History checks the holds of one lock: is there an order in which one held at
// a time, or several that are Shared? It blocks until it knows or limit has passed, and may be
// called from any goroutine.
func History(holds []Hold, limit time.Duration) Verdict {
	v := Verdict{Holds: len(holds)}
	if len(holds) > 0 {
		v.Name, v.From, v.To = holds[0].Name, holds[0].Asked, holds[len(holds)-1].Asked
	}
	began := time.Now()
	v.Result = porcupine.CheckOperationsTimeout(model, operations(holds), limit)
	v.Took = time.Since(began)
	return v
}

// Chunks collects holds until there are enough for a history. The zero value is ready. It is not
// safe for concurrent use.
type Chunks struct{ names map[uint32][]Hold }

// slack is how many holds more are waited for, so that those which are reported a little late are
// in the same history as their neighbours.
const slack = HoldsPerHistory / 10

// Add takes a hold that has ended. It returns the holds of a history when there are enough for one,
// by the time of their grants.
func (c *Chunks) Add(h Hold) []Hold {
	if c.names == nil {
		c.names = map[uint32][]Hold{}
	}
	all := append(c.names[h.Name], h)
	if len(all) < HoldsPerHistory+slack {
		c.names[h.Name] = all
		return nil
	}
	byGrant(all)
	c.names[h.Name] = append(make([]Hold, 0, cap(all)), all[HoldsPerHistory:]...)
	return all[:HoldsPerHistory]
}

// Rest returns what is left: one shorter history for each lock, or two.
func (c *Chunks) Rest() [][]Hold {
	var out [][]Hold
	for _, all := range c.names {
		byGrant(all)
		for part := range slices.Chunk(all, HoldsPerHistory) {
			out = append(out, part)
		}
	}
	c.names = nil
	slices.SortFunc(out, func(a, b []Hold) int { return cmp.Compare(a[0].Name, b[0].Name) })
	return out
}

func byGrant(holds []Hold) {
	slices.SortFunc(holds, func(a, b Hold) int { return cmp.Compare(max(a.From, a.Asked), max(b.From, b.Asked)) })
}
