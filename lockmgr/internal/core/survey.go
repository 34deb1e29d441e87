package core

import "time"

// A Use is what a survey tells of a hold, or of a waiting request.
type Use struct {
	// Request is the hold's request, or the waiting request. After the survey the shell may read
	// the fields of Request that the shell has filled.
	Request *Request
	// Held is set for a hold. Number, Until and Token are the hold's, and Handles is how many
	// grants of the hold are not unlocked yet. Recorded is the number that the record is to have:
	// see entry.target.
	Held             bool
	Number, Recorded uint64
	Until            time.Duration
	Token            int64
	Handles          int
}

// Survey calls yield for each hold and each waiting request of the machine, in no order, until
// yield returns false. yield must not step the machine.
func (m *Machine) Survey(yield func(Use) bool) {
	for _, names := range [...]map[string]*name{m.names, m.setNames} {
		for _, n := range names {
			if !n.survey(yield) {
				return
			}
		}
	}
}

// SurveyName is Survey for the single name of a key, and for the sets that have the key.
func (m *Machine) SurveyName(key string, yield func(Use) bool) {
	for _, n := range m.namesOf(key) {
		if !n.survey(yield) {
			return
		}
	}
}

func (n *name) survey(yield func(Use) bool) bool {
	for e := range n.entries {
		for h := range e.holds {
			if !yield(Use{Request: h.Request, Held: true, Number: h.Number, Recorded: e.target(), Until: h.Until, Token: h.Token, Handles: int(h.count)}) {
				return false
			}
		}
	}
	for r := n.queue.head; r != nil; r = r.next {
		if !yield(Use{Request: r}) {
			return false
		}
	}
	return true
}
