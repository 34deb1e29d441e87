// Package mutants checks the checkers: it breaks the real client in one place
// at a time and expects a certain test to fail. A rule whose mutant survives is
// one that nothing tests, or that nothing needs.
//
// The core's rules have mutants of their own, in lockmgr/internal/sim. Those
// here are of what lies around it: the shell of lockmgr, its scripts, notify,
// renewal, futures and actor.
//
//	go test ./internal/mutants                                   each is up to date
//	go test ./internal/mutants -mutants -v                       each is caught: seven minutes
//	go test ./internal/mutants -mutants -shard 2/3               every third, from the second on
//	go test ./internal/mutants -mutants -run 'Mutants/no margin' one of them
//
// Without the flag it is only checked that the text which a mutant replaces
// occurs exactly once in its file, and that the tests which must catch it are
// there. With it the package of the tests is built once for each mutant, by
// go test -c -overlay, so that no file in the repository changes; a table tells
// which test caught which mutant. Each is a subtest named after its rule and
// itself; -parallel says how many are built and run at a time.
//
// A test catches a mutant by failing, or by not ending within its time. A
// mutant that does not build, or for which a test other than the named ones
// fails, fails the run: then the list is out of date.
package mutants
