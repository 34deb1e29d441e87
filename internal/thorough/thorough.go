// Package thorough chooses between a quick and a thorough run of a test. With HOLDFAST_THOROUGH=1
// tests try more seeds, positions and states. .ci/run nightly has a step for that.
package thorough

import "os"

// Variable is the environment variable that makes the tests thorough.
const Variable = "HOLDFAST_THOROUGH"

// On reports whether the tests are to be thorough.
func On() bool { return os.Getenv(Variable) != "" }

// Choose returns quick, or thorough if the tests are to be thorough.
func Choose(quick, thorough int) int {
	if On() {
		return thorough
	}
	return quick
}
