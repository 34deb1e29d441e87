package sim

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/sim/agenda"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

var _ = register(core.ReadWrite, readWrite{})

// readWrite is the lock that many readers have at a time, or one writer.
type readWrite struct{ anything }

func (readWrite) draw(s *settings, r *agenda.Rand) { exclusive{}.draw(s, r) }

func (readWrite) run(c *command) (answer, error) { return exclusive{}.run(c) }

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

// sideOn returns the side of a single name that a hold is of. The hold may be that of a set.
func (h *hold) sideOn(l *lockName) core.Side {
	if i := h.name.place(l); h.name.isSet() && i >= 0 {
		return h.name.parts[i].side
	}
	return h.sideOf()
}

func (k readWrite) foreign(w *world, l *lockName, lease time.Duration, owner uint64) (core.Side, bool) {
	s := core.Side(w.load.Below(2))
	return s, w.foreignTakes(core.Op{Kind: core.ReadWrite, Side: s, Name: l.key, Lease: lease, Number: owner})
}

func (readWrite) leave(w *world, l *lockName, owner uint64) {
	w.foreignLeaves(core.Op{Kind: core.ReadWrite, Name: l.key, OtherNumbers: []uint64{owner}})
}

// waitsFor says that one that shares waits with the one for the side alone before it.
func (readWrite) waitsFor(c *call, h *hold) bool {
	return c.req.Side == core.Alone || h.core.Request.Side == core.Alone || c.n.behindAlone(c)
}

func (readWrite) holders(w *world, l *lockName) (out []holder) {
	fields, until := w.server.Fields(l.key)
	for _, f := range fields {
		switch writer, is := strings.CutSuffix(f.Name, wire.WriterEnd); {
		case f.Name == wire.ModeField:
		case is:
			out = append(out, holder{writer, until, core.Alone})
		default:
			if end, ok := w.server.End("{" + l.key + "}:" + f.Name + ":rwlock_timeout:1"); ok {
				out = append(out, holder{f.Name, min(until, end), core.Shared})
			}
		}
	}
	return out
}
