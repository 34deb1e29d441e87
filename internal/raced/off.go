//go:build !race

// Package raced tells tests whether the race detector is on. It makes them ten times slower, so
// those that repeat themselves by seed do so less often.
package raced

// On reports whether the race detector is on.
const On = false
