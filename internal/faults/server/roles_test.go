package server_test

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// The roles of children: see beChild.

// pausable takes a lock again and again, and tells what it believed when.
func pausable(p *parent) {
	m := p.dial(lockmgr.Options{RetryTime: time.Minute})
	for {
		l, err := m.Lock(ctx, p.Name)
		p.must(err)
		p.say("held")
		lastTrue, firstFalse := lookUntilLost(l)
		p.say("lost %d %d", lastTrue.UnixNano(), firstFalse.UnixNano())
		<-p.lines
		err = l.Unlock(ctx)
		p.say("unlocked lost=%v", errors.Is(err, lockmgr.ErrLeaseLost))
		<-p.lines
	}
}

// lookUntilLost calls Valid, and Err of a context of the lock, without a rest. It returns when the
// last calls began of which one said that the lock is held, and when the first did that both said
// no.
func lookUntilLost(l *lockmgr.Lock) (lastTrue, firstFalse time.Time) {
	work := l.Context(ctx)
	for {
		begin := time.Now()
		if valid := l.Valid(); !valid && work.Err() != nil {
			return lastTrue, begin
		}
		lastTrue = begin
	}
}

// holder takes a lock, keeps it and tells of every renewal.
func holder(p *parent) {
	m := p.dial(lockmgr.Options{Observer: func(e lockmgr.Event) {
		if _, ok := e.(lockmgr.EventRenewed); ok {
			p.say("renewed")
		}
	}})
	_, err := m.Lock(ctx, p.Name)
	p.must(err)
	p.say("held")
	<-p.lines
}

// crowd waits many times for one lock. It tells when it gets it first, and keeps it until it is
// told to go on; then all who wait have it in turn.
func crowd(p *parent) {
	m := p.dial(lockmgr.Options{})
	var inLine atomic.Int64
	all := make(chan struct{})
	first := make(chan *lockmgr.Lock, 1)
	var open atomic.Bool
	inLine.Store(int64(p.Waiters))
	for range p.Waiters {
		// One that blocks would delay the others.
		m.LockAsync(p.Name).OnDone(func(l *lockmgr.Lock, err error) {
			p.must(err)
			if open.CompareAndSwap(false, true) {
				p.say("granted %d", time.Now().UnixNano())
				first <- l
				return
			}
			l.UnlockAsync()
			if inLine.Add(-1) == 0 {
				close(all)
			}
		})
	}
	for line := range p.lines {
		switch line {
		case "stats":
			s := m.Stats()
			p.say("stats %d %d %d %d", s.Scripts-s.RenewalScripts, s.Waiting, s.Subscriptions, s.Wakes)
		case "go":
			go func() {
				l := <-first
				p.must(l.Unlock(ctx))
				if inLine.Add(-1) == 0 {
					close(all)
				}
				<-all
				p.must(m.Close(ctx))
				p.say("done")
			}()
		}
	}
}
