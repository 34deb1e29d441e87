// Package mutants checks the checkers: it breaks holdfast in one place at a time and expects a
// certain test to fail. A rule whose mutant survives is one that nothing tests, or that nothing
// needs.
//
// The list has one or two mutants for each rule that a doc.go, the header of a script or
// docs/guarantees.md states: a lease counted from the wrong instant, a wake-up that is lost, a
// release taken for done. Mutants of pauses, texts, counters and other details do not belong in it,
// because each change of the code may have to change the list. TestLists_AreUpToDate keeps it below
// 200.
//
//	go test ./internal/mutants                                       each is up to date
//	go test ./internal/mutants -mutants -v -timeout 0                each is caught: a quarter of an hour
//	go test ./internal/mutants -mutants -v -shard 2/6                every sixth, from the second on
//	go test ./internal/mutants -mutants -v -run Mutants/deadline     those of one rule
//	go test ./internal/mutants -mutants -v -run 'Mutants/.*no_ASKING' one of them
//
// Without the flag the tests check that the text which a mutant replaces occurs exactly once in its
// function, that the changed file compiles, and that the tests which must catch it exist. With it
// the package of the tests is built once for each mutant, by go test -c -overlay, so that no file
// in the repository changes. A table shows which test caught which mutant. Each is a subtest named
// after its rule and itself; -parallel sets how many are built and run at a time.
//
// A place is given by a function and the tokens in it. It survives new comments, new line breaks,
// changes of other functions, and a move to another file of the package.
//
// A test catches a mutant by failing, or by not ending within its time. A mutant that does not
// build, or for which a test other than the named ones fails, fails the run: then the list is out
// of date.
//
// TestSurvey changes the code where no rule says so: a condition becomes true or false, an operator
// another, a statement is left out. The library has some 8,500 such changes, so TestSurvey takes a
// sample. A change that no test notices fails TestSurvey, unless accepted says why the change may
// survive. The name of a change has the function and the text that is changed, no line.
//
//	go test ./internal/mutants -run Survey -sample 100 -seed 7 -v -timeout 0            100 of all
//	go test ./internal/mutants -run Survey/renewal/Map.Schedule: -sample 9999 -v -timeout 0 those of a function
package mutants
