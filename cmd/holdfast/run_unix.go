//go:build unix

package main

import (
	"os"
	"syscall"
)

// passedOn are the signals that the command gets too.
var passedOn = []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// fromKeyboard reports whether a terminal sends a signal to all processes in its foreground.
func fromKeyboard(s os.Signal) bool { return s == syscall.SIGINT || s == syscall.SIGQUIT }

func number(s os.Signal) int { return int(s.(syscall.Signal)) }

// terminate asks a process to end.
func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }

// endedBy returns the number of the signal that ended a process, or zero.
func endedBy(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return int(w.Signal())
	}
	return 0
}
