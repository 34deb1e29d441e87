package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shell starts a shell in a terminal, loads the script of completion into it, and returns when it
// is ready.
func (w *world) shell(name string) *terminal {
	dir := w.t.TempDir()
	require.NoError(w.t, os.WriteFile(filepath.Join(dir, "ordinary-file"), []byte("#!/bin/sh\necho ran under $HOLDFAST_NAME\n"), 0o755))
	if _, err := exec.LookPath(name); err != nil {
		w.t.Skip("SKIPPED: there is no " + name + ", so completion in it is not tested")
	}
	var c *exec.Cmd
	setup := "cd " + dir + "; export TERM=vt100 PATH=" + filepath.Dir(binary) + ":$PATH; "
	switch name {
	case "bash":
		const library = "/usr/share/bash-completion/bash_completion"
		if _, err := os.Stat(library); err != nil {
			w.t.Skip("SKIPPED: there is no " + library + ", which scripts of completion need")
		}
		c, setup = exec.Command("bash", "--norc", "--noprofile", "-i"), setup+". "+library+"; . <(holdfast completion bash); "
	case "zsh":
		c, setup = exec.Command("zsh", "-f", "-i"), setup+"autoload -U compinit; compinit -u -D; . <(holdfast completion zsh); "
	}
	x, p := w.inTerminal(c)
	w.t.Cleanup(func() { _ = p.Process.Kill() })
	x.types(setup + "PS1='read''y> '\n")
	x.shows("ready> ")
	return x
}

// enter types a line with tabs, and waits until the screen shows what comes of it.
func (x *terminal) enter(line, want string) {
	x.t.Helper()
	before := len(x.screen.String())
	x.types(line + "\n")
	require.Eventually(x.t, func() bool { return strings.Contains(x.screen.String()[before:], want) }, patient, 5*time.Millisecond, line)
}

// Commands and flags are completed, but not names of locks: files would be offered. The command of
// run is completed as elsewhere.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh"} {
		t.Run(shell, func(t *testing.T) {
			x := newWorld(t).shell(shell)
			x.enter("holdfast sho\t--js\tnothing", `"name":"nothing"`)
			x.enter("holdfast show ordinary\t", "ordinary is free")
			x.enter("holdfast run --now\tordinary\t -- ./ordin\t", "ran under ordinary\r\n")
		})
	}
}
