package core

// tokens are what is left of the range of fencing tokens that came with a record.
// Once the record is not ours others may have taken larger ones, so they are
// dropped with it.
type tokens struct{ next, last int64 }

// got notes that an acquire or a transfer has taken n tokens, up to last.
func (t *tokens) got(last, n int64) { t.next, t.last = last-n+1, last }

// left reports whether there is one.
func (t *tokens) left() bool { return t.next > 0 && t.next <= t.last }

// take returns the next one.
func (t *tokens) take() int64 {
	t.next++
	return t.next - 1
}

func (t *tokens) drop() { *t = tokens{} }

// tokensFor is how many tokens to take along for a request: one for it and
// one for each of those that may be granted after it in the same run.
func (m *Machine) tokensFor(n *name, r *Request) int64 {
	if !r.Fenced {
		return 0
	}
	return int64(max(1, n.queue.upTo(m.cfg.PassCount)))
}

// dropTokens is called when the record of a lock is not ours any more.
func (m *Machine) dropTokens(n *name) {
	if n.contended() {
		n.c.tokens.drop()
	}
}
