package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// start runs a command to its end. If this process dies, the kernel sends the command SIGTERM,
// because nobody renews its lock any more. The kernel does so when the thread ends that has started
// the command, so that thread waits here.
func start(c *exec.Cmd, started chan<- error, ended chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	err := c.Start()
	started <- err
	if err == nil {
		ended <- c.Wait()
	}
}
