//go:build race

package explore

// slow reports whether the race detector is on. It has one goroutine to look at, so a
// few states of each scene are enough.
const slow = true
