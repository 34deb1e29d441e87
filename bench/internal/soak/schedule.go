package soak

import (
	"math/rand/v2"
	"time"
)

// faultShare is the part of a run in which there are faults.
const faultShare = 0.85

// Schedule returns the faults of a run. It depends on its arguments only. The time between two
// begins is random, every on the average; no two faults of one target overlap, so one whose target
// is busy is left out.
func Schedule(seed uint64, length, every, lease time.Duration, procs int, faults []string) []Fault {
	var chosen []kind
	total := 0
	for _, name := range faults {
		if k, ok := kindOf(name); ok {
			chosen = append(chosen, k)
			total += k.weight
		}
	}
	if total == 0 || every <= 0 {
		return nil
	}
	r := rand.New(rand.NewPCG(seed, 0x50a4))
	end := time.Duration(faultShare * float64(length))
	free := make(map[int]time.Duration) // when each target is free again
	var out []Fault
	for at := time.Duration(0); ; {
		at += time.Duration(r.ExpFloat64() * float64(every))
		if at >= end {
			return out
		}
		// All that is random is drawn before it is known whether the fault takes place, so that one
		// more target does not change the rest.
		n := r.IntN(total)
		i := 0
		for ; n >= chosen[i].weight; i++ {
			n -= chosen[i].weight
		}
		k := chosen[i]
		f := Fault{At: at.Round(time.Millisecond), Kind: k.name, Slot: r.IntN(max(1, procs)), Seed: r.Uint64()}
		share := k.least + (k.most-k.least)*r.Float64()
		if k.most > 0 {
			f.For = max(time.Millisecond, time.Duration(share*float64(lease)).Round(time.Millisecond))
		}
		if k.server {
			f.Slot = -1
		}
		f.For = min(f.For, max(time.Millisecond, end-f.At))
		if f.At < free[f.Slot] {
			continue
		}
		free[f.Slot] = f.At + f.For + lease/20
		out = append(out, f)
	}
}
