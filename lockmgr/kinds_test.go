package lockmgr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// kinds are the ways to ask for a name, each as a kind of its own.
var kinds = []struct {
	title string
	kind  string // those of one kind wait for each other
	ask   func(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock]
}{
	{"plain", "plain", func(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
		return m.LockAsync(name, opts...)
	}},
	{"reader", "read-write", func(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
		return m.LockAsync(name, append(opts, lockmgr.Shared())...)
	}},
	{"writer", "read-write", func(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
		return m.LockAsync(name, append(opts, lockmgr.Exclusive())...)
	}},
	{"fair", "fair", func(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
		return m.LockAsync(name, append(opts, lockmgr.Fair())...)
	}},
	{"permits", "permits", func(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
		return m.Permits(name, 1).AcquireAsync(1, opts...)
	}},
	{"set", "plain", func(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
		return m.LockAllAsync(lockmgr.Set{Names: []string{name, name + " beside"}}, opts...)
	}},
	{"set of readers", "read-write", func(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
		return m.LockAllAsync(lockmgr.Set{Shared: []string{name}, Names: []string{name + " beside"}}, opts...)
	}},
	{"set of writers", "read-write", func(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
		return m.LockAllAsync(lockmgr.Set{Exclusive: []string{name}, Names: []string{name + " beside"}}, opts...)
	}},
}

// A request for a name that is held as another kind fails with ErrKind at once, whether it waits or
// not, and whether this manager or another one has the name. So does one for a name that this
// manager waits for as another kind. Permits and locks have keys of different types in different
// processes: there the error may be ErrWrongType.
func TestKinds_AskedForWhatIsInUse(t *testing.T) {
	s, m, other := startServer(t, lockmgr.Options{})
	waiter := dial(t, s.Addr(), lockmgr.Options{})
	patient := faults.Patient(t)
	for _, has := range kinds {
		for _, asks := range kinds {
			if has.kind == asks.kind {
				continue
			}
			name := has.title + " and " + asks.title
			held := must(has.ask(m, name).Await(patient))(t, name)
			for where, by := range map[string]*lockmgr.Manager{"": m, " elsewhere": other} {
				for how, opts := range map[string][]lockmgr.LockOption{" waits": nil, " tries": {lockmgr.MaxWait(0)}, " takes a token": {lockmgr.Fenced()}} {
					if how == " takes a token" && asks.kind == "permits" {
						continue
					}
					_, err := asks.ask(by, name, opts...).Await(patient)
					if where == " elsewhere" && err != nil && (has.kind == "permits" || asks.kind == "permits") {
						require.True(t, errors.Is(err, lockmgr.ErrKind) || errors.Is(err, lockmgr.ErrWrongType), "%s%s%s: %v", name, where, how, err)
						continue
					}
					require.ErrorIs(t, err, lockmgr.ErrKind, "%s%s%s", name, where, how)
				}
			}
			// Another manager waits for what this one has.
			waiting := has.ask(waiter, name)
			if !strings.Contains(has.title, "reader") {
				faults.Eventually(t, func() bool { return waiter.Stats().Waiting == 1 })
				require.ErrorIs(t, errOf(asks.ask(waiter, name).Await(patient)), lockmgr.ErrKind, "%s waits", name)
			}
			mustUnlock(t, held)
			mustUnlock(t, must(waiting.Await(patient))(t, name))
			// Nobody has the name any more. The counter of permits stays.
			if has.kind == "permits" {
				must(m.Permits(name, 1).Delete(patient))(t, name)
			}
			mustUnlock(t, must(asks.ask(m, name).Await(patient))(t, name))
		}
	}
}
