// Package runtest runs the examples' programs within a test.
package runtest

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// OnServers runs a test twice: with the arguments for the embedded server, and with those for a
// real one, which has to be empty again afterwards. The second is skipped where none is installed.
// Both run in parallel with other tests: the programs spend most of their time waiting.
func OnServers(t *testing.T, test func(t *testing.T, args []string)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, nil)
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		test(t, []string{"-redis", "redis://" + s.Addr()})
		left, err := s.Do("KEYS", "*")
		if err != nil {
			t.Fatal(err)
		}
		if left != "" {
			t.Errorf("left on the server: %q", left)
		}
	})
}

// Run runs a program to its end and returns what it printed.
func Run(t *testing.T, p cli.Program, args ...string) string {
	t.Helper()
	var out output
	if err := p(t.Context(), &out, args); err != nil {
		t.Fatalf("%v, after:\n%s", err, out.String())
	}
	return out.String()
}

// Interrupt runs a program as Run does, but ends its context as soon as it has printed a text. It
// returns the program's error.
func Interrupt(t *testing.T, p cli.Program, text string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := output{text: text, seen: cancel}
	err := p(ctx, &out, args)
	if ctx.Err() == nil {
		t.Fatalf("%q was never printed:\n%s", text, out.String())
	}
	return out.String(), err
}

// InOrder checks that the texts appear, one after the other.
func InOrder(t *testing.T, out string, texts ...string) {
	t.Helper()
	rest := out
	for _, text := range texts {
		_, after, ok := strings.Cut(rest, text)
		if !ok {
			t.Fatalf("%q is missing, or not where it should be:\n%s", text, out)
		}
		rest = after
	}
}

// Nowhere returns the URL of a server that is not there.
func Nowhere(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "redis://" + l.Addr().String()
}

// output collects what a program prints.
type output struct {
	text string // if not empty, seen is called when it appears
	seen func()

	mu sync.Mutex
	b  strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Write(p)
	if o.text != "" && strings.Contains(o.b.String(), o.text) {
		o.text = ""
		o.seen()
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
