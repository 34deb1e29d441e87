package wire

import (
	"strconv"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

var (
	severalAcquire = newScript("several_acquire")
	severalRenew   = newScript("several_renew")
	severalRelease = newScript("several_release")
)

// Each operation is one command, which has all items in order. There is no transfer.
var _ = register(core.Several, kind{name: "set", formats: [verbs]format{
	core.VerbAcquire: {
		write: func(e *encoder, op *core.Op, c *Command) {
			c.reset(severalAcquire)
			c.items = len(op.Items)
			for i := range op.Items {
				c.Keys = append(c.Keys, op.Items[i].Name)
				if op.Tokens > 0 {
					c.Keys = append(c.Keys, TokenKey(op.Items[i].Name))
				}
			}
			c.Args = append(c.Args, e.millis(op.Lease), millis(op.Gather), strconv.FormatInt(op.Tokens, 10))
			c.Args = append(c.Args, strconv.Itoa(len(op.Items)))
			c.words(op.Items)
			c.prefixes(op.Items)
			c.Args = append(c.Args, e.want(op), e.holder(op.Number))
			e.others(op, c)
		},
		read: readSeveral,
	},
	core.VerbRenew: {
		write: func(e *encoder, op *core.Op, c *Command) {
			c.reset(severalRenew)
			c.items = len(op.Items)
			holder := e.holder(op.Number)
			for i := range op.Items {
				it := &op.Items[i]
				c.Keys = append(c.Keys, it.Name, ownKey(it.Kind, it.Side, it.Name, holder))
			}
			c.Args = append(c.Args, e.millis(op.Lease), holder)
			c.words(op.Items)
		},
		read: readRenewed,
	},
	core.VerbRelease: {
		write: func(e *encoder, op *core.Op, c *Command) {
			c.reset(severalRelease)
			c.items = len(op.Items)
			for i := range op.Items {
				c.Keys = append(c.Keys, op.Items[i].Name)
			}
			c.Args = append(c.Args, strconv.Itoa(len(op.Items)))
			c.words(op.Items)
			for i := range op.Items {
				c.addChannel(ChannelOf(op.Items[i].Kind, op.Items[i].Name), "1", countOfSeveral)
			}
			c.prefixes(op.Items)
			c.Args = append(c.Args, e.lineOfRelease(op))
			e.others(op, c)
		},
		read: readReleasedSeveral,
		warning: func(a *Answer) *Failure {
			if a.Kind == Array && len(a.Array) > 3 && a.Array[3].Text != "" {
				return unpublished(&a.Array[3])
			}
			return nil
		},
	},
}})

// prefixes writes the first part of the keys of the readers of each item. A plain lock has no
// readers.
func (c *Command) prefixes(items []core.Item) {
	for i := range items {
		prefix := ""
		if items[i].Kind == core.ReadWrite {
			prefix = tagged(items[i].Name)
		}
		c.Args = append(c.Args, prefix)
	}
}

// countOfSeveral is the count of a release of several locks.
func countOfSeveral(a *Answer) (*int64, bool) {
	if a.Kind != Array || len(a.Array) < 3 || a.Array[2].Kind != Int {
		return nil, false
	}
	return &a.Array[2].Int, true
}

// words writes how each item is wanted.
func (c *Command) words(items []core.Item) {
	for i := range items {
		word := "plain"
		if items[i].Kind == core.ReadWrite {
			word = sideWord(items[i].Side)
		}
		c.Args = append(c.Args, word)
	}
}

// readSeveral accepts a token for each item if and only if tokens were asked for.
func readSeveral(op *core.Op, a *Answer, r *core.Reply) bool {
	switch {
	case a.Kind == Nil:
		r.OK = op.Tokens == 0
		return r.OK
	case a.Kind != Array || len(a.Array) == 0:
		return false
	case a.Array[0].Kind == Text:
		if op.Tokens == 0 || len(a.Array) != len(op.Items) {
			return false
		}
		for i := range a.Array {
			token, ok := ReadToken(a.Array[i].Text)
			if a.Array[i].Kind != Text || !ok {
				return false
			}
			r.Tokens = append(r.Tokens, token)
		}
		r.OK, r.Token = true, r.Tokens[0]
		return true
	}
	if !a.is(Int, Int) && !a.is(Int, Int, Int) || a.Array[0].Int < 1 || a.Array[0].Int > int64(len(op.Items)) {
		return false
	}
	r.Item, r.TTL = int(a.Array[0].Int), ReadMillis(a.Array[1].Int)
	if len(a.Array) == 3 {
		r.OtherKind = a.Array[2].Int == 1
		r.Outside = !r.OtherKind
	}
	if op.Gather > 0 && !r.OtherKind {
		r.Got = r.Item - 1
		r.Gathered = r.Got > 0
	}
	return true
}

func readReleasedSeveral(op *core.Op, a *Answer, r *core.Reply) bool {
	if a.Kind == Nil {
		return true
	}
	if !a.is(Int, Int, Int) && !a.is(Int, Int, Int, Text) && !a.is(Int, Int, Int, Text, Int) {
		return false
	}
	r.HandedOn = len(a.Array) == 5
	done := a.Array[0].Int
	if done < 0 || done > int64(len(op.Items)) {
		return false
	}
	r.OK, r.Partly = done > 0, done > 0 && done < int64(len(op.Items))
	r.Subscribers = a.Array[2].Int
	return true
}
