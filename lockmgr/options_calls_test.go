package lockmgr_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/raced"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// An optionRow is what docs/calls.md says about an option.
type optionRow struct {
	takenBy  []string // the calls of the table that take it
	excludes []string
}

// columns are the calls that the table names.
var columns = []string{"Lock", "TryLock", "LockAll", "TryLockAll", "Acquire", "TryAcquire", "Lead"}

// documentedOptions reads the table of options in docs/calls.md.
func documentedOptions(t *testing.T) (names []string, rows map[string]optionRow) {
	page := must(os.ReadFile("../docs/calls.md"))(t)
	_, section, ok := strings.Cut(string(page), "## Options of a request")
	require.True(t, ok)
	_, section, ok = strings.Cut(section, "\n|---|---|---|\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n\n")
	rows = make(map[string]optionRow)
	list := func(cell string) []string {
		return strings.FieldsFunc(cell, func(r rune) bool { return strings.ContainsRune("`, ", r) })
	}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		require.Len(t, cells, 3, line)
		row := optionRow{takenBy: list(cells[1]), excludes: list(cells[2])}
		if row.takenBy[0] == "all" {
			var not []string
			if len(row.takenBy) > 1 {
				require.Equal(t, "but", row.takenBy[1], line)
				not = row.takenBy[2:]
				require.Subset(t, columns, not, line)
			}
			row.takenBy = slices.DeleteFunc(slices.Clone(columns), func(call string) bool { return slices.Contains(not, call) })
		}
		require.Subset(t, columns, row.takenBy, line)
		for _, name := range list(cells[0]) {
			names, rows[name] = append(names, name), row
		}
	}
	return names, rows
}

// An optionCall is a call that takes options, and the call of the table whose options it takes.
type optionCall struct {
	name, column string
	call         func(m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) error
}

// optionCalls are all calls of a manager that take options.
func optionCalls() []optionCall {
	unlocked := func(l *lockmgr.Lock, err error) error {
		if err != nil {
			return err
		}
		return l.Unlock(ctx)
	}
	with := func(context.Context, *lockmgr.Lock) error { return nil }
	return []optionCall{
		{"Lock", "Lock", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			return unlocked(m.Lock(ctx, name, o...))
		}},
		{"LockAsync", "Lock", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			return unlocked(m.LockAsync(name, o...).Await(ctx))
		}},
		{"Do", "Lock", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			return m.Do(ctx, name, with, o...)
		}},
		{"DoValue", "Lock", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			return errOf(lockmgr.DoValue(ctx, m, name, func(context.Context, *lockmgr.Lock) (int, error) { return 0, nil }, o...))
		}},
		{"TryLock", "TryLock", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			return unlocked(m.TryLock(ctx, name, o...))
		}},
		{"LockAll", "LockAll", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			return unlocked(m.LockAll(ctx, lockmgr.All(name, name+"2"), o...))
		}},
		{"LockAllAsync", "LockAll", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			return unlocked(m.LockAllAsync(lockmgr.All(name, name+"2"), o...).Await(ctx))
		}},
		{"DoAll", "LockAll", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			return m.DoAll(ctx, lockmgr.All(name, name+"2"), with, o...)
		}},
		{"TryLockAll", "TryLockAll", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			return unlocked(m.TryLockAll(ctx, lockmgr.All(name, name+"2"), o...))
		}},
		{"Acquire", "Acquire", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			return unlocked(m.Permits(name, 2).Acquire(ctx, 1, o...))
		}},
		{"AcquireAsync", "Acquire", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			return unlocked(m.Permits(name, 2).AcquireAsync(1, o...).Await(ctx))
		}},
		{"Permits.Do", "Acquire", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			return m.Permits(name, 2).Do(ctx, 1, with, o...)
		}},
		{"TryAcquire", "TryAcquire", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			return unlocked(m.Permits(name, 2).TryAcquire(ctx, 1, o...))
		}},
		{"Lead", "Lead", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			return m.Lead(ctx, name, func(context.Context, int64) error { return nil }, o...)
		}},
		{"CampaignFor", "Lead", func(m *lockmgr.Manager, name string, o ...lockmgr.LockOption) error {
			l := m.CampaignFor(ctx, name, o...)
			select {
			case <-l.Changes():
				return l.Resign(ctx)
			case <-l.Done():
				return l.Err()
			}
		}},
	}
}

// Each call, with each option and each pair of options, does what the table of docs/calls.md says: it
// works, or it fails with ErrInvalidOption and sends nothing.
func TestOptions_AllPairsOfAllCalls(t *testing.T) {
	m := dial(t, redistest.Start(t).Addr(), lockmgr.Options{})
	values := map[string]func() lockmgr.LockOption{
		"MaxWait":      func() lockmgr.LockOption { return lockmgr.MaxWait(time.Minute) },
		"OnlyIfFree":   lockmgr.OnlyIfFree,
		"FixedLease":   func() lockmgr.LockOption { return lockmgr.FixedLease(time.Minute) },
		"MaxHold":      func() lockmgr.LockOption { return lockmgr.MaxHold(time.Minute) },
		"KeepFor":      func() lockmgr.LockOption { return lockmgr.KeepFor(time.Minute) },
		"TakeOver":     func() lockmgr.LockOption { return lockmgr.TakeOver("nobody") },
		"AsOwner":      func() lockmgr.LockOption { return lockmgr.AsOwner(m.NewOwner()) },
		"Fenced":       lockmgr.Fenced,
		"Shared":       lockmgr.Shared,
		"Exclusive":    lockmgr.Exclusive,
		"Fair":         lockmgr.Fair,
		"Note":         func() lockmgr.LockOption { return lockmgr.Note("what for") },
		"TraceContext": func() lockmgr.LockOption { return lockmgr.TraceContext(ctx) },
		"WaitContext":  func() lockmgr.LockOption { return lockmgr.WaitContext(t.Context()) },
	}
	names, rows := documentedOptions(t)
	require.Len(t, names, len(values), "the table has each option")
	n := 0
	try := func(c optionCall, good bool, options ...string) {
		var opts []lockmgr.LockOption
		for _, name := range options {
			o := values[name]()
			require.Equal(t, name, o.Name())
			opts = append(opts, o)
		}
		n++
		before := m.Stats()
		err := c.call(m, fmt.Sprintf("%s:%d", c.name, n), opts...)
		if good {
			require.NoErrorf(t, err, "%s with %v", c.name, options)
			return
		}
		require.ErrorIsf(t, err, lockmgr.ErrInvalidOption, "%s with %v", c.name, options)
		require.Equalf(t, before.Scripts, m.Stats().Scripts, "%s with %v has sent something", c.name, options)
	}
	for _, c := range optionCalls() {
		takes := func(option string) bool { return slices.Contains(rows[option].takenBy, c.column) }
		require.NoError(t, c.call(m, c.name+":none"))
		require.NoError(t, c.call(m, c.name+":zero", lockmgr.LockOption{}, lockmgr.LockOption{}), "the zero LockOption")
		for _, a := range names {
			try(c, takes(a), a)
			for _, b := range names {
				apart := slices.Contains(rows[a].excludes, b)
				require.Equalf(t, apart, slices.Contains(rows[b].excludes, a), "the table says of %s what it says of %s", a, b)
				try(c, takes(a) && takes(b) && a != b && !apart, a, b)
			}
		}
	}
}

// Lead ignores the owner of its context: a leader that re-entered a hold of that owner would lead beside
// it, with the same term.
func TestLead_IgnoresTheOwnerOfItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		owned := lockmgr.WithOwner(ctx, m.NewOwner())
		err := m.Lead(owned, "a", func(c context.Context, term int64) error {
			short, cancel := context.WithTimeout(owned, time.Minute)
			defer cancel()
			second := m.Lead(short, "a", func(context.Context, int64) error { t.Error("two lead"); return nil })
			require.ErrorIs(t, second, context.DeadlineExceeded)
			return nil
		})
		require.NoError(t, err)
	})
}

// largest are values at which a sum or a product could overflow.
var largest = []int64{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2, math.MaxInt64/2 + 1, math.MaxInt32, int64(lockmgr.MaxLease), int64(lockmgr.MaxLease) + 1}

// The largest values of each numeric field of Options work like any others, or are refused.
func TestOptions_LargestNumbers(t *testing.T) {
	numbers := largest
	if raced.On {
		numbers = largest[:1] // each takes seconds
	}
	fields := reflect.TypeFor[lockmgr.Options]()
	var walk func(t *testing.T, of reflect.Type, index []int)
	walk = func(t *testing.T, of reflect.Type, index []int) {
		for i := range of.NumField() {
			f := of.Field(i)
			at := append(index[:len(index):len(index)], i)
			switch {
			case !f.IsExported():
			case f.Type.Kind() == reflect.Struct:
				walk(t, f.Type, at)
			case reflect.Zero(f.Type).CanInt():
				t.Run(f.Name, func(t *testing.T) {
					for _, n := range numbers {
						if reflect.Zero(f.Type).OverflowInt(n) {
							continue
						}
						var o lockmgr.Options
						reflect.ValueOf(&o).Elem().FieldByIndex(at).SetInt(n)
						bubble(t, func(t *testing.T, w *scene) { tryOptions(t, w, o, n) })
					}
				})
			}
		}
	}
	walk(t, fields, nil)
}

// tryOptions locks, waits, hands over and unlocks with managers that have some options.
func tryOptions(t *testing.T, w *scene, o lockmgr.Options, n int64) {
	o.Anonymous = true
	net := &network{server: w.server}
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{"pipe:0"}, ForceSingleClient: true, DialCtxFn: net.dial}, o)
	if err != nil {
		require.ErrorIs(t, err, lockmgr.ErrInvalidOption)
		require.Nil(t, m)
		return
	}
	defer func() { mustClose(t, m) }()
	other, _ := w.manager(lockmgr.Options{})
	for range 2 {
		held := must(other.Lock(ctx, "a"))(t, n)
		f, g := m.LockAsync("a"), m.LockAsync("a", lockmgr.Fenced())
		time.Sleep(time.Minute)
		require.NoError(t, held.Unlock(ctx), n)
		l := must(f.Await(ctx))(t, n)
		require.True(t, l.Valid(), n)
		require.ErrorIs(t, errOf(other.TryLock(ctx, "a")), lockmgr.ErrNotAcquired, n)
		require.NoError(t, l.Unlock(ctx), n)
		l = must(g.Await(ctx))(t, n)
		time.Sleep(time.Minute)
		require.True(t, l.Valid(), "renewed")
		require.NoError(t, l.Unlock(ctx), n)
		time.Sleep(time.Minute)
	}
	mustUnlock(t, mustLockAll(t, m, lockmgr.All("b", "c")))
	require.NoError(t, m.Do(ctx, "d", func(context.Context, *lockmgr.Lock) error { return nil }))
	if o.Linger > time.Hour {
		require.NotEmpty(t, w.server.PubSubChannels("*"), "it lingers")
	}
	if o.RetryTime > time.Hour {
		net.cut()
		f := m.LockAsync("e")
		time.Sleep(time.Minute)
		net.heal()
		mustUnlock(t, mustAwait(t, f))
	}
}

// The largest value of each time that a call takes works like any other, or is refused.
func TestLock_LargestTimes(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{})
		for _, n := range largest {
			d := time.Duration(n)
			if d < time.Hour {
				continue
			}
			for name, o := range map[string]lockmgr.LockOption{
				"wait": lockmgr.MaxWait(d), "lease": lockmgr.FixedLease(d), "hold": lockmgr.MaxHold(d), "keep": lockmgr.KeepFor(d),
			} {
				l, err := m.Lock(ctx, name, o)
				if err != nil {
					require.ErrorIs(t, err, lockmgr.ErrInvalidLease, o.Name())
					require.Greater(t, d, lockmgr.MaxLease)
					continue
				}
				f := other.LockAsync(name, lockmgr.MaxWait(d))
				time.Sleep(time.Minute)
				require.True(t, l.Valid(), "%s of %v", o.Name(), d)
				err = l.Extend(ctx, d)
				require.Truef(t, err == nil || errors.Is(err, lockmgr.ErrInvalidLease) && d > lockmgr.MaxLease, "Extend by %v: %v", d, err)
				require.True(t, l.Valid())
				mustUnlock(t, l)
				if name == "keep" && d > time.Minute {
					f.Cancel()
					must(other.ForceUnlock(ctx, name))(t)
					continue
				}
				next, err := f.Await(ctx)
				require.NoErrorf(t, err, "%s of %v", o.Name(), d)
				mustUnlock(t, next)
			}
			p := m.Permits("permits", 1)
			mustUnlock(t, mustAcquire(t, p, 1, lockmgr.MaxWait(d), lockmgr.MaxHold(d)))
		}
	})
}
