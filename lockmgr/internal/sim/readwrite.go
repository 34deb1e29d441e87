package sim

import (
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/model"
)

var _ = register(core.ReadWrite, readWrite{})

// readWrite is the lock that many readers have at a time, or one writer.
type readWrite struct{ anything }

func (readWrite) channel(key string) string { return "redisson_rwlock:{" + key + "}" }

func (readWrite) ask(w *world, r *core.Request) {
	if r.Side = core.Alone; w.load.Percent(w.set.readers) {
		r.Side = core.Shared
	}
}

func (readWrite) entries() int               { return 1 }
func (readWrite) free(holders []holder) bool { return len(holders) == 0 }

func (readWrite) beside(a, b core.Side) bool { return a == core.Shared && b == core.Shared }

// conflict allows holds that all read, and those that one owner has of the name.
func (k readWrite) conflict(l *lockName, h *hold, others []*hold) *hold {
	for _, o := range others {
		own := !h.foreign && !o.foreign && h.n == o.n && h.name == o.name && h.core.Request.Owner() == o.core.Request.Owner()
		if !own && !k.beside(h.sideOn(l), o.sideOn(l)) {
			return o
		}
	}
	return nil
}

// sideOf returns the side of a lock that a hold is of.
func (h *hold) sideOf() core.Side {
	if h.foreign {
		return h.side
	}
	return h.core.Request.Side
}

// sideOn returns the side of a single name that a hold is of. The hold may be that of a
// set.
func (h *hold) sideOn(l *lockName) core.Side {
	if i := h.name.place(l); h.name.isSet() && i >= 0 {
		return h.name.parts[i].side
	}
	return h.sideOf()
}

func (k readWrite) foreign(w *world, l *lockName, leaseMs int64, owner string) (core.Side, bool) {
	s := core.Side(w.load.Below(2))
	a, err := w.server.AcquireSide(keysOf(l), side(s), leaseMs, 0, owner)
	return s, err == nil && a.OK
}

func (readWrite) leave(s *model.Server, l *lockName, owner string) {
	_, _ = s.ReleaseSide(keysOf(l), owner)
}

// waitsFor says that one that shares waits with the one for the side alone before it.
func (readWrite) waitsFor(c *call, h *hold) bool {
	return c.req.Side == core.Alone || h.core.Request.Side == core.Alone || c.n.behindAlone(c)
}

func keysOf(l *lockName) model.ReadWrite {
	return model.ReadWrite{Lock: l.key, Channel: l.channel, Counter: l.counter, Prefix: "{" + l.key + "}"}
}

func (readWrite) holders(s *model.Server, l *lockName) (out []holder) {
	fields, until := s.Fields(l.key)
	for _, f := range fields {
		switch writer, is := strings.CutSuffix(f.Name, ":write"); {
		case f.Name == "mode":
		case is:
			out = append(out, holder{writer, until, core.Alone})
		default:
			end, ok := s.End(keysOf(l).ReaderKey(f.Name, 1))
			if ok {
				out = append(out, holder{f.Name, min(until, end), core.Shared})
			}
		}
	}
	return out
}

func side(s core.Side) string {
	if s == core.Shared {
		return model.Read
	}
	return model.Write
}

func (readWrite) run(s *model.Server, c *command) (a answer, err error) {
	l := keysOf(c.name)
	switch c.verb {
	case core.VerbAcquire:
		r, e := s.AcquireSide(l, side(c.side), c.leaseMs, c.tokens, c.owners...)
		a.ok, a.ttl, a.token, a.otherKind, err = r.OK, r.TTL, number(r.Token), r.OtherKind, e
	case core.VerbTransfer:
		r, e := s.TransferSide(l, side(c.side), c.leaseMs, c.tokens, c.owners...)
		a.ok, a.kept, a.subscribers, a.token, err = r.OK, r.Kept, r.Subscribers, number(r.Token), e
	case core.VerbRelease:
		r, e := s.ReleaseSide(l, c.owners...)
		a.released(r)
		err = e
	case core.VerbRenew:
		a.ok, err = s.RenewSide(l, side(c.side), c.leaseMs, c.owners[0])
	case core.VerbLook:
		a.ok = s.Exists(l.Lock)
	}
	return a, err
}
