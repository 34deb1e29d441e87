// Package doctest compiles and runs the Go code of README.md and of the other
// pages.
//
// Each block of Go code in a page has a copy in a test file here, between two
// comments:
//
//	// README.md 1
//	...
//	// end
//
// The number counts the blocks of the page. What stands around the copy declares
// what the reader of the page has already, such as ctx and mgr. A block can be
// spread over several such pieces, which are joined by an empty line. The test
// Snippets compares pages and copies, apart from the literals that a test must
// choose for itself; others run the copies.
package doctest
