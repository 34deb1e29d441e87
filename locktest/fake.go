package locktest

import (
	"testing"
	"testing/synctest"
	"time"
)

const (
	eventually = 5 * time.Minute
	pollEvery  = 10 * time.Millisecond
)

// Advance lets d of fake time pass, and then waits until every other goroutine of the bubble is
// blocked. It must be called in a bubble, by one goroutine at a time.
func Advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Eventually lets fake time pass until cond is true, and ends the test with t.Fatal if it is not
// after 5 minutes. It checks every 10 ms of fake time, which takes no real waiting. cond may use
// the Server and managers. See Advance.
func Eventually(t testing.TB, cond func() bool) {
	t.Helper()
	Within(t, eventually, cond)
}

// Within is Eventually with another limit, in fake time.
func Within(t testing.TB, d time.Duration, cond func() bool) {
	t.Helper()
	synctest.Wait()
	for end := time.Now().Add(d); !cond(); {
		left := time.Until(end)
		if left <= 0 {
			t.Fatalf("locktest: the condition is still false after %v", d)
		}
		Advance(min(left, pollEvery))
	}
}
