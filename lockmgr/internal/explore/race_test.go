//go:build race

package explore

// slow says that the race detector is on. There is one goroutine, so a few
// states of each scene do.
const slow = true
