// Package client tests what clients and callers do to the lock manager: they cancel at any moment,
// close it at any moment, unlock twice and use what they have lost. There is no code here but tests;
// each runs the real manager, through the real client library, against a redis-server of its own.
//
// # What must hold
//
//	cancel     a request that was cancelled, at whatever point, leaves nothing:
//	           no key that only its lease would remove, no subscription, no
//	           pending request; and whoever still waits is served as if the
//	           cancelled one had never come
//	close      all that wait fail with ErrClosed, all that is held is lost with
//	           ErrClosed, and the keys are gone when Close returns, unless its
//	           context ended before the server could be asked
//	handle     a lock is given back once, by its handle, while it is held; any
//	           other unlock is refused and touches nothing
//	loss       Lost fires for each lock
//	connection a caller in a hurry, and a slow script, end none
//
// Redis is authoritative for what is left: it is asked at once after Close, long before a lease
// could end, and its count of expired keys must be zero.
//
// Points in the life of a request are reached by events: a server that is paused for writes holds
// an answer back. Package lockmgr tests the points at which the manager's goroutine stands still,
// which nothing outside of it can bring about, and package clientsim those that nobody has thought
// of.
//
// # Longer runs
//
//	go test ./internal/faults/client -run LossIsTold -lateness -v
//
// It prints how late Lost is under load: the figure depends on the machine, so that no test asserts
// it.
package client
