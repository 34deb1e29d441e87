// Package faults has what the fault suites below it, and the tests of lockmgr on real servers,
// share: contexts that do not hang, questions to a server, troubles of a server that end, and an
// observer that keeps what it is told.
package faults
