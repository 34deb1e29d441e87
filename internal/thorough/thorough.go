// Package thorough tells tests that repeat themselves, by seed or by position, how often
// to do so. `go test work` repeats them a few times, so that it is quick. HOLDFAST_THOROUGH=1
// repeats them often; .ci/run sets it in a step of its own.
package thorough

import "os"

// Variable is the environment variable that makes the tests thorough.
const Variable = "HOLDFAST_THOROUGH"

// On reports whether the tests are to be thorough.
func On() bool { return os.Getenv(Variable) != "" }

// Or returns few, or many if the tests are to be thorough.
func Or(few, many int) int {
	if On() {
		return many
	}
	return few
}
