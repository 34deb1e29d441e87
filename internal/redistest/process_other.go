//go:build !linux

package redistest

import "os/exec"

// killWithParent does nothing: other systems have no such request. There a
// test binary that is killed leaves its server behind.
func killWithParent(*exec.Cmd) {}
