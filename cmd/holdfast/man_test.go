//go:build unix

package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// The man page has the words of the help of each command, and all flags, and groff has nothing to
// object to.
func TestMan(t *testing.T) {
	w := newWorld(t)
	code, out, _ := w.run("man")
	require.Zero(t, code)
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skip("SKIPPED: there is no groff, so the man page is not tested")
	}
	c := exec.Command("groff", "-man", "-ww", "-z", "-Kutf8", "-Tutf8")
	c.Stdin = strings.NewReader(out)
	text, err := c.CombinedOutput()
	require.NoError(t, err)
	require.Empty(t, string(text))
	c = exec.Command("groff", "-man", "-Kutf8", "-Tutf8", "-P-cbou", "-rLL=200n", "-rHY=0", "-dAD=l")
	c.Stdin = strings.NewReader(out)
	text, err = c.CombinedOutput()
	require.NoError(t, err)
	page := strings.Join(strings.Fields(string(text)), " ")
	has := func(text string) {
		t.Helper()
		require.Contains(t, page, strings.Join(strings.Fields(text), " "))
	}
	root := newRoot()
	has(root.Long)
	has("--redis")
	for _, c := range root.Commands() {
		has("holdfast " + c.Use + " " + c.Long)
		has(c.Example)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			has("--" + f.Name)
			has(f.Usage)
		})
	}
}
