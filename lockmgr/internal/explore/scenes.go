package explore

import "time"

// Scenes are those that go test explores.
func Scenes() []*Scene {
	plain, fenced, once := Want{}, Want{Fenced: true}, Want{Once: true}
	owner := func(w Want) Want { w.Owner = 1; return w }
	lease := func(w Want, n int) Want { w.Lease = 1000 * ms * time.Duration(n); return w }
	return []*Scene{
		{Name: "two", Wants: [2][]Want{{plain}, {plain}}, PassCount: 2, Bounds: Bounds{Faults: 1, Each: each(1), States: 20000}},
		{Name: "three", Wants: [2][]Want{{plain, plain}, {plain}}, PassCount: 2, Bounds: Bounds{Faults: 1, Each: each(1), States: 20000}},
		{Name: "alone", Wants: [2][]Want{{plain, plain}, {}}, PassCount: 1, Bounds: Bounds{Faults: 2, Each: each(2), States: 20000}},
		{Name: "fenced", Wants: [2][]Want{{fenced, fenced}, {fenced}}, PassCount: 2, Bounds: Bounds{Faults: 1, Each: each(1), States: 20000}},
		{Name: "owner", Wants: [2][]Want{{owner(lease(plain, 5)), owner(lease(plain, 18)), owner(plain)}, {}}, PassCount: 2, Bounds: Bounds{Faults: 1, Each: each(1), States: 20000}},
		{Name: "lease", Wants: [2][]Want{{lease(plain, 18), plain}, {}}, PassCount: 2, Bounds: Bounds{Faults: 2, Each: each(1), States: 20000}},
		{Name: "once", Wants: [2][]Want{{plain, once}, {once}}, PassCount: 2, Bounds: Bounds{Faults: 1, Each: each(1), States: 20000}},
	}
}

// each allows every kind of fault n times.
func each(n int) (all [faults]int) {
	for i := range all {
		all[i] = n
	}
	return all
}
