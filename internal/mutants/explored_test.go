package mutants

import "slices"

// exploredMutants are those of the core's that the explorer must catch as well.
// Seeds catch them after hundreds or thousands of runs, or never.
var exploredMutants = explored(
	"deadline: a long lease is inherited",
	"re-entry: shorter lease shortens",
	"re-entry: shortens a watched hold",
	"re-entry: after the deadline",
	"re-entry: longer lease not asked for",
	"unknown: no clean-up when nobody is left",
	"unknown: no clean-up of what comes to life later",
	"unknown: suspects dropped at once",
	"unknown: a removal explains any suspect",
	"unknown: one removal explains all suspects",
	"a message is a hint: wake-up during a try not remembered",
	"a message is a hint: remembered, but ignored",
	"a message is a hint: no try on confirmation",
	"a message is a hint: raises no doubt",
	"a message is a hint: passed on in doubt",
	"every end is an end: Unlock not answered when the record is gone",
)

// explored returns mutants of the core by their names, for the explorer.
func explored(names ...string) []mutant {
	out := make([]mutant, len(names))
	for i, name := range names {
		at := slices.IndexFunc(coreMutants, func(m mutant) bool { return m.String() == name })
		if at < 0 {
			panic("mutants: the core has no mutant " + name)
		}
		out[i] = coreMutants[at]
		out[i].by = explorer
	}
	return out
}
