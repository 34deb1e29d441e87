package core

// tokens are the unused fencing tokens of an entry, from next to last. The tokens are dropped when
// the entry is not ours any more, because others may have taken larger tokens by then.
type tokens struct {
	next, last int64
	each       []int64 // of the items of a set
}

// got notes that an acquire or a transfer has taken n tokens. The largest is last.
func (t *tokens) got(last, n int64) { t.next, t.last = last-n+1, last }

// left reports whether there is a token for a side.
func (t *tokens) left(s Side) bool {
	if s == Shared {
		return t.last > 0
	}
	return t.next > 0 && t.next <= t.last
}

// missing reports whether a request wants a token of which there is none.
func (t *tokens) missing(r *Request) bool { return r.Fenced && !t.left(r.Side) }

// take returns the next token for a side. All holds that share an entry get the largest token of
// the entry, which an ended hold with side Alone may have had. A later hold with side Alone must
// get a larger token, so the entry has no token left for such a hold.
func (t *tokens) take(s Side) int64 {
	if s == Shared {
		t.next = t.last + 1
		return t.last
	}
	t.next++
	return t.next - 1
}

func (t *tokens) drop() { *t = tokens{} }

// tokensFor returns how many tokens to take for a request, or for each item of a set.
func tokensFor(r *Request) int64 {
	if r.Fenced {
		return 1
	}
	return 0
}

// mayTakeToken reports whether a request may take a token of an entry of ours. A script that was
// sent after the request, and after the last hold had ended, must have found the record. Otherwise
// somebody may have removed the record, and others may have got larger tokens.
func (m *Machine) mayTakeToken(e *entry, r *Request) bool {
	u := e.upkeep()
	return u.tokens.left(r.Side) && e.sent >= max(r.Asked, u.freeSince)
}
