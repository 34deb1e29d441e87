// Package mutants checks the checkers: it breaks holdfast in one place at a time
// and expects a certain test to fail. A rule whose mutant survives is one that
// nothing tests, or that nothing needs.
//
// There are two lists. The core's mutants are caught by the simulation or by
// the core's stories. Those of the client, its scripts and the packages below it
// are caught by the tests that they name.
//
//	go test ./internal/mutants                                          each is up to date
//	go test ./internal/mutants -mutants -v -timeout 0                   each is caught: an hour
//	go test ./internal/mutants -mutants -v -run Mutants/core            one list
//	go test ./internal/mutants -mutants -v -shard 2/3                   every third, from the second on
//	go test ./internal/mutants -mutants -v -run 'Mutants/.*/no_margin'  one of them
//
// Without the flag it is only checked that the place which a mutant changes
// occurs exactly once in its package, that the changed file compiles, and that
// the tests which must catch it are there. With it the package of the tests is
// built once for each mutant, by go test -c -overlay, so that no file in the
// repository changes; a table tells which test caught which mutant. Each is a
// subtest named after its rule and itself; -parallel says how many are built and
// run at a time.
//
// A place is given by its tokens. It survives new comments, new line breaks and
// a move to another file of the package.
//
// A test catches a mutant by failing, or by not ending within its time. A
// mutant that does not build, or for which a test other than the named ones
// fails, fails the run: then the list is out of date.
package mutants
