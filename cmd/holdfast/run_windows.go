package main

import "os"

// passedOn are the signals that end a wait. Windows passes them to the command itself.
var passedOn = []os.Signal{os.Interrupt}

// fromKeyboard is true because the console sends Ctrl-C to the command, too.
func fromKeyboard(os.Signal) bool { return true }

func number(os.Signal) int { return 2 }

// terminate ends a process. There is no way to ask it to end.
func terminate(p *os.Process) { _ = p.Kill() }

func endedBy(*os.ProcessState) int { return 0 }
