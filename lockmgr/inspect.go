package lockmgr

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// Info is what Redis knows of a lock.
type Info struct {
	Name   string
	Locked bool
	// Holders are the entries of the record; more than one only for kinds of
	// lock that can be shared.
	Holders []Holder
	// TTL is the remaining life of the record; negative if it has no end.
	TTL time.Duration
	// Token is the last fencing token given, or zero.
	Token int64
	// Subscribers counts the processes that wait for the lock, or did so within
	// Options.Linger; negative if the server does not say.
	Subscribers int64
}

// A Holder is one entry of a record.
type Holder struct {
	Owner string // as Lock.HolderID returns it
	Count int64  // this library always writes 1, and counts re-entries in memory
}

// Inspect reads the state of a lock from Redis. It blocks for one round trip
// and takes no part in the lock.
func (m *Manager) Inspect(ctx context.Context, name string) (Info, error) {
	return m.inspect(ctx, opInspect, name, name, channelOf(name), tokenKeyOf(name))
}

func (m *Manager) inspect(ctx context.Context, op, name string, keys ...string) (Info, error) {
	a, err := m.call(ctx, op, name, command{script: inspectScript, keys: keys})
	if err != nil {
		return Info{}, err
	}
	info := Info{Name: name}
	if a.kind != answerArray || len(a.array) < 3 || a.array[0].kind != answerInt || a.array[1].kind != answerInt || len(a.array)%2 != 1 {
		return Info{}, &LockError{Op: op, Name: name, Err: errShape(&a)}
	}
	if ttl := a.array[0].n; ttl != -2 {
		info.Locked = true
		info.TTL = ofMillis(ttl)
	}
	info.Subscribers = a.array[1].n
	info.Token, _ = readToken(a.array[2].text)
	for i := 3; i < len(a.array); i += 2 {
		n, _ := strconv.ParseInt(a.array[i+1].text, 10, 64)
		info.Holders = append(info.Holders, Holder{a.array[i].text, n})
	}
	return info, nil
}

// ForceUnlock removes a lock, whoever holds it, and wakes those who wait. It
// reports whether there was one. A holder in this manager checks its record at
// once, and loses the lock one round trip after ForceUnlock has returned. Others
// learn of their loss by the message if they are subscribed, else at their next
// renewal. It blocks for two round trips, and more if the lock changes hands
// meanwhile.
//
// It removes only a hold that it has seen. A call without an answer may still
// take effect later, but never on a later hold of this library: see
// [Lock.HolderID].
func (m *Manager) ForceUnlock(ctx context.Context, name string) (bool, error) {
	if checkName(name) == nil {
		// Whatever the answer, the record may be gone.
		defer m.actor.Post(core.Verify{Name: name})
	}
	for {
		info, err := m.inspect(ctx, opForceUnlock, name, name, channelOf(name))
		if err != nil || !info.Locked {
			return false, err
		}
		c := command{script: forceScript, keys: []string{name, channelOf(name)}}
		for _, h := range info.Holders {
			c.args = append(c.args, h.Owner)
		}
		a, err := m.call(ctx, opForceUnlock, name, c)
		switch {
		case err != nil:
			return false, err
		case a.kind != answerInt:
			return false, &LockError{Op: opForceUnlock, Name: name, Err: errShape(&a)}
		case a.n >= 0:
			return a.n == 1, nil
		}
	}
}

// call runs a script that does not concern the core. Its errors are LockErrors.
func (m *Manager) call(ctx context.Context, op, name string, c command) (answer, error) {
	err := checkName(name)
	if err == nil && ctx.Err() != nil {
		err = contextError(ctx)
	}
	var a answer
	if err == nil {
		if a, err = m.run(ctx, c); err == nil {
			err = a.err
		} else if ctx.Err() != nil && !errors.Is(err, ErrClosed) {
			err = m.whileFailing(err)
		}
	}
	if err != nil {
		return answer{}, &LockError{Op: op, Name: name, Err: err}
	}
	return a, nil
}

// run sends a command beside the core. Its error says that no answer will come.
func (m *Manager) run(ctx context.Context, c command) (answer, error) {
	var p futures.Promise[answer]
	done := func(a answer) { p.Resolve(a, nil) }
	if !m.exec.submit([]task{{call: &call{c, done}}}) {
		return answer{}, ErrClosed
	}
	return p.Future().Await(ctx)
}
