// Package archtest holds the architecture to its word. It has tests only: they read the
// repository's Go files and go.mod, and name each file that breaks a rule, together with the reason
// for the rule. The rules are the tables at the top of rules_test.go.
//
//	lockmgr ──▶ notify ──▶ actor, futures
//	   ├─────▶ actor, futures, renewal
//	   ├─────▶ lockmgr/internal/cluster ──▶ lockmgr/internal/wire ──▶ lockmgr/internal/core
//	   └─────▶ lockmgr/internal/core ──▶ renewal      (pure: no clock, no I/O,
//	                                                   no goroutine, no channel)
//
// In some folders each file uses only files below it, in the order that the folder's doc.go lists
// them: see files_test.go. So the files form no cycle, and the list is true. In package core the
// list has groups: a file calls only files of its own group and of the groups below.
//
// Test files are free: the rules are about what users link. But sleeps_test.go lists the tests that
// sleep in real time.
package archtest
