// Package bench is the home of programs that compare holdfast with other
// distributed-lock clients: the same load on the same server, several clients,
// one table.
//
// It is a module of its own, so that the clients it compares with never become
// dependencies of the library.
//
// What measures holdfast alone is not here: the Go benchmarks live beside the
// packages they measure, and run with
//
//	go test -run '^$' -bench . ./...
package bench
