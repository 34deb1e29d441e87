// Package network has tests only: lock managers on a bad network.
//
// They use the library as its users do, against a real server, and package faultproxy stands
// between. What must hold whatever happens to connections:
//
//   - no two owners have a handle of a name that is valid at one instant. Every
//     hold is sampled on the clock that all managers of the test share, and the
//     times at which two owners believed to hold must not intersect;
//   - a deadline counts from the send of the last confirmed command, so late
//     replies never prolong a lease, and whoever is cut off knows in time that
//     the lock is lost;
//   - all who wait are served in the end, or get an error of a kind that is
//     documented, when it is documented;
//   - nothing is left: no key, no subscription, no request.
//
// # Which faults
//
//	positions   the reply to, or the sending of, each single script of a scene in
//	            which two managers acquire, pass on, renew and release
//	pubsub      the subscribed connection is cut, refused, silent
//	commands    the other one is, while messages come
//	half-open   both are silent, and nobody says so
//	late        commands that a relay keeps until their client has given up its
//	            connection, and that run after their retry
//	renewals    replies that are slow, come twice or when it is too late
//	tls         certificates that are wrong or expired, handshakes that hang
//	secrets     what errors and logs contain then
//
// # Flags
//
//	-rounds n  how often the scene is played for each position. Default 1
//
// What is not tested: replies that come twice on one connection, which TCP does not do. Replies
// have no numbers, so no client could tell.
package network
