//go:build !linux

package main

import "os/exec"

// start runs a command to its end.
func start(c *exec.Cmd, started chan<- error, ended chan<- error) {
	err := c.Start()
	started <- err
	if err == nil {
		ended <- c.Wait()
	}
}
