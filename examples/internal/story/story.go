// Package story prints what happens in a program, line by line: when, who, what.
package story

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// A Story is told by any number of goroutines.
type Story struct {
	out   io.Writer
	begin time.Time

	mu sync.Mutex // one line at a time
}

// Begin starts a story: its clock counts from here.
func Begin(out io.Writer) *Story { return &Story{out: out, begin: time.Now()} }

// Scene prints a heading.
func (s *Story) Scene(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "\n"+format+"\n", args...)
}

// Say prints one line.
func (s *Story) Say(who, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%6.2fs  %-8s "+format+"\n", append([]any{s.Elapsed().Seconds(), who}, args...)...)
}

// Elapsed is the time since the story began.
func (s *Story) Elapsed() time.Duration { return time.Since(s.begin) }

// Pause gives the reader time. It returns early, with an error, when ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Expect returns nil if err is the error that the story is about.
func Expect(err, want error) error {
	switch {
	case errors.Is(err, want):
		return nil
	case err == nil:
		return fmt.Errorf("expected the error %q, there was none", want)
	}
	return fmt.Errorf("expected the error %q, got: %w", want, err)
}

// Short rounds a duration to what a reader cares for.
func Short(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
