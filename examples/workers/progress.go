package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// showProgress draws a line that moves until ctx ends, if out is a terminal, and leaves no trace of
// it. Into a file or a pipe it writes nothing.
func showProgress(ctx context.Context, out io.Writer, total time.Duration, text func() string) {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return
	}
	bar := progressbar.NewOptions64(total.Milliseconds(),
		progressbar.OptionSetWriter(f),
		progressbar.OptionSetWidth(24),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionClearOnFinish(),
	)
	defer func() { _ = bar.Finish() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			bar.Describe(text())
			// One short of the end: the bar is finished by whoever stops it.
			_ = bar.Set64(min(time.Since(begin).Milliseconds(), total.Milliseconds()-1))
		}
	}
}

// count writes a number with its thousands set apart.
func count[T ~int | ~int64 | ~uint64](n T) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
