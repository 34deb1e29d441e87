package explore

import "time"

// Scenes returns the scenes that go test explores.
func Scenes() []*Scene {
	plain, fenced, once := Want{}, Want{Fenced: true}, Want{Once: true}
	long, short := Want{Lease: 18 * time.Second}, Want{Lease: 5 * time.Second}
	owner := func(w Want) Want { w.Owner = 1; return w }

	commands := [faults]int{Break: 9, Refuse: 9, Forbid: 9, ReplyTwice: 9, Slow: 9}
	callers := [faults]int{Cancel: 9, Close: 9, Pause: 9}
	all := [faults]int{}
	for f := range all {
		all[f] = 9
	}
	return []*Scene{
		{Name: "one manager", Wants: [2][]Want{{plain, plain}}, PassCount: 2, Bounds: Bounds{Faults: 1, Each: all}},
		{Name: "two faults", Wants: [2][]Want{{plain, plain}}, PassCount: 1, Bounds: Bounds{Faults: 2, Each: commands, Detours: 3}},
		{Name: "two managers", Wants: [2][]Want{{plain}, {plain}}, PassCount: 2, Bounds: Bounds{Faults: 1, Each: all, Detours: 3}},
		{Name: "three requests", Wants: [2][]Want{{plain, plain}, {plain}}, PassCount: 1, Bounds: Bounds{Faults: 1, Each: all, Detours: 1}},
		{Name: "forced", Wants: [2][]Want{{plain, plain}, {plain}}, PassCount: 2, Bounds: Bounds{Faults: 1, Each: [faults]int{Force: 1}, Detours: 2}},
		{Name: "tokens", Wants: [2][]Want{{fenced, plain}, {fenced}}, PassCount: 2, Bounds: Bounds{Faults: 1, Each: all, Detours: 1}},
		{Name: "long lease", Wants: [2][]Want{{long, plain}}, PassCount: 2, Bounds: Bounds{Faults: 2, Each: commands, Detours: 2}},
		{Name: "named owner", Wants: [2][]Want{{owner(short), owner(long)}, {plain}}, PassCount: 2, Bounds: Bounds{Faults: 1, Each: all, Detours: 1}},
		{Name: "re-entry", Wants: [2][]Want{{owner(short), owner(plain)}}, PassCount: 2, Bounds: Bounds{Faults: 1, Each: callers}},
		{Name: "one try", Wants: [2][]Want{{plain, once}, {once}}, PassCount: 2, Bounds: Bounds{Faults: 1, Each: all, Detours: 1}},
	}
}
