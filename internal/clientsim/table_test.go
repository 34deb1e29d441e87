package clientsim

import (
	"fmt"
	"math/bits"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A table counts in how many runs each two features met. Two features meet in a request that has
// both (Own), or in two requests that want one name at one time (Beside).
type table struct {
	Own    [allFeatures][allFeatures]int
	Beside [allFeatures][allFeatures]int
	Looked [allFeatures][allFeatures]uint64 // the oracles that looked at a request with both, as bits
	Runs   int
}

// A sheet is what one run adds to the table.
type sheet struct {
	own, beside [allFeatures]features
	looked      [allFeatures][allFeatures]uint64
}

// add adds a run.
func (t *table) add(s *sheet) {
	t.Runs++
	for f := range allFeatures {
		s.own[f].each(func(g feature) { t.Own[f][g]++; t.Looked[f][g] |= s.looked[f][g] })
		s.beside[f].each(func(g feature) { t.Beside[f][g]++ })
	}
}

// merge adds another table.
func (t *table) merge(o *table) {
	t.Runs += o.Runs
	for f := range allFeatures {
		for g := range allFeatures {
			t.Own[f][g] += o.Own[f][g]
			t.Beside[f][g] += o.Beside[f][g]
			t.Looked[f][g] |= o.Looked[f][g]
		}
	}
}

// sheet returns which features have met in the world. All has ended.
func (b *book) sheet() *sheet {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	now := time.Now()
	names := make(map[string][]*request)
	for _, q := range b.all {
		if q.end.IsZero() {
			q.end = now
		}
		q.parts(func(name string, _ feature) { names[name] = append(names[name], q) })
	}
	for name, all := range names {
		for _, q := range all {
			b.whoIsThere(q, name, all)
		}
	}
	s := new(sheet)
	for _, q := range b.all {
		for _, t := range b.w.mets {
			if t.overlaps(span{q.issued, q.end}) && (t.host == nil || t.host == q.host) {
				q.parts(func(name string, _ feature) {
					if t.name == "" || t.name == name {
						q.met.add(t.feature)
					}
				})
			}
		}
		if q.met&whoIsThere == 0 {
			q.met.add(nobody)
		}
		s.note(q)
	}
	for _, all := range names {
		for i, q := range all {
			for _, o := range all[i+1:] {
				if o.issued.After(q.end) {
					break
				}
				s.noteBeside(q.met, o.met)
			}
		}
	}
	return s
}

// whoIsThere notes who else wants a name of a request during its life. all are the requests for the
// name, by their instants.
func (b *book) whoIsThere(q *request, name string, all []*request) {
	local, elsewhere := false, false
	for _, o := range all {
		if o.issued.After(q.end) || local && elsewhere {
			break
		}
		if o != q && !o.end.Before(q.issued) && !o.end.Equal(o.issued) {
			local, elsewhere = local || o.mgr == q.mgr, elsewhere || o.mgr != q.mgr
		}
	}
	switch {
	case local && elsewhere:
		q.met.add(both)
	case local:
		q.met.add(localWaiters)
	case elsewhere:
		q.met.add(waitersElsewhere)
	}
	if b.w.strangerAt(name, span{q.issued, q.end}) {
		q.met.add(likeRedisson)
	}
}

func (s *sheet) note(q *request) {
	q.met.each(func(f feature) {
		s.own[f] |= q.met
		q.met.each(func(g feature) { s.looked[f][g] |= q.looked })
	})
}

func (s *sheet) noteBeside(a, b features) {
	a.each(func(f feature) { s.beside[f] |= b })
	b.each(func(f feature) { s.beside[f] |= a })
}

// verdict returns the pairs that no run has met though they can be met, pairs that were met though
// a list has them as impossible, and totals.
func (t *table) verdict() (missing, impossible []string, totals string) {
	var own, beside, never, most int
	least := t.Runs
	for f := range allFeatures {
		for g := f + 1; g < allFeatures; g++ {
			pair := featuresOf(f, g)
			n := t.Own[f][g]
			switch {
			case why(pair, unmet) != "":
				if never++; n > 0 {
					impossible = append(impossible, fmt.Sprintf("%v × %v", f, g))
				}
				continue
			case why(pair, apart) != "":
				n = t.Beside[f][g]
				beside++
			default:
				own++
			}
			if least, most = min(least, n), max(most, n); n == 0 {
				missing = append(missing, fmt.Sprintf("%v × %v", f, g))
			}
		}
	}
	slices.Sort(missing)
	return missing, impossible, fmt.Sprintf("%d features (kinds, options, ends, troubles), %d pairs that one request can meet, %d that two requests for one name can, %d impossible; the rarest pair in %d runs of %d, the most frequent in %d",
		allFeatures, own, beside, never, least, t.Runs, most)
}

// FAULTS has the totals of the table.
func TestTable_TotalsAreThoseOfFaults(t *testing.T) {
	_, _, totals := new(table).verdict()
	totals, _, _ = strings.Cut(totals, ";")
	page, err := os.ReadFile("../../FAULTS.md")
	require.NoError(t, err)
	require.Contains(t, string(page), totals)
}

// why returns why a list has a pair, or "".
func why(pair features, list []impossible) string {
	for _, i := range list {
		first, second := pair&i.a, pair&i.b
		if bits.OnesCount64(uint64(pair)) == 2 && first != 0 && second != 0 && (first|second) == pair {
			return i.why
		}
	}
	return ""
}

// String prints the table: a row for each feature, with the number of runs that each other feature
// was met in.
func (t *table) String() string {
	var b strings.Builder
	for f := range allFeatures {
		fmt.Fprintf(&b, "%-24v %6d runs\n", f, t.Own[f][f])
		for g := range allFeatures {
			if g == f {
				continue
			}
			fmt.Fprintf(&b, "    × %-24v %6d own %6d beside, looked at by", g, t.Own[f][g], t.Beside[f][g])
			for i, name := range oracles {
				if t.Looked[f][g]&(1<<i) != 0 {
					fmt.Fprintf(&b, " %s", strings.TrimPrefix(name, "promise"))
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
