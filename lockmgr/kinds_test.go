package lockmgr_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A kind is a way to ask for a name.
type kind struct {
	title string
	kind  string // those of one kind wait for each other
	ask   func(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock]
}

var kinds = []kind{
	lockKind("plain", "plain"),
	lockKind("reader", "read-write", lockmgr.Shared()),
	lockKind("writer", "read-write", lockmgr.Exclusive()),
	lockKind("fair", "fair", lockmgr.Fair()),
	{"permits", "permits", func(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
		return m.Permits(name, 1).AcquireAsync(1, opts...)
	}},
	setKind("set", "plain", func(name string) lockmgr.Set { return lockmgr.All(name) }),
	setKind("set of readers", "read-write", func(name string) lockmgr.Set { return lockmgr.Set{Shared: []string{name}} }),
	setKind("set of writers", "read-write", func(name string) lockmgr.Set { return lockmgr.Set{Exclusive: []string{name}} }),
}

func lockKind(title, as string, with ...lockmgr.LockOption) kind {
	return kind{title, as, func(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
		return m.LockAsync(name, append(opts, with...)...)
	}}
}

// setKind returns a kind of sets. They have another name beside.
func setKind(title, as string, of func(name string) lockmgr.Set) kind {
	return kind{title, as, func(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
		set := of(name)
		set.Names = append(set.Names, name+"-beside")
		return m.LockAllAsync(set, opts...)
	}}
}

// kindOf returns the kind with a title.
func kindOf(title string) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.title == title })]
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
