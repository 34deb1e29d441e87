package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// progress is a line of a terminal that says what is running. Elsewhere it shows nothing.
type progress struct{ out io.Writer }

func newProgress(w io.Writer) progress {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return progress{w}
	}
	return progress{io.Discard}
}

// show writes the line anew. Without text it clears the line.
func (p progress) show(text string) { fmt.Fprint(p.out, "\r\x1b[K", text) }
