package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestVerdict(t *testing.T) {
	running, interrupted := t.Context(), canceled()
	for _, c := range []struct {
		name    string
		ctx     context.Context
		err     error
		message string
		status  int
	}{
		{"well", running, nil, "", 0},
		{"help", running, flag.ErrHelp, "", 0},
		{"an error", running, errors.New("no luck"), "no luck", 1},
		{"a wrong flag", running, Usage("-for is %v", time.Second), "-for is 1s (-h lists the flags)", 2},
		{"Ctrl-C", interrupted, fmt.Errorf("waiting: %w", context.Canceled), "interrupted", 130},
		{"an error of its own after Ctrl-C", interrupted, errors.New("no luck"), "no luck", 1},
		{"cancelled by someone else", running, context.Canceled, "context canceled", 1},
		{"done in spite of Ctrl-C", interrupted, nil, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			message, status := verdict(c.ctx, c.err)
			require.Equal(t, c.message, message)
			require.Equal(t, c.status, status)
		})
	}
}

func TestParse(t *testing.T) {
	parse := func(args ...string) (n int, out string, err error) {
		flags := flag.NewFlagSet("p", flag.ContinueOnError)
		flags.IntVar(&n, "n", 3, "how `many`")
		var b strings.Builder
		err = Parse(flags, &b, "P does things.", args)
		return n, b.String(), err
	}
	n, out, err := parse("-n", "4")
	require.NoError(t, err)
	require.Equal(t, 4, n)
	require.Empty(t, out)

	_, out, err = parse("-h")
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Contains(t, out, "P does things.")
	require.Contains(t, out, "-n many")

	for _, args := range [][]string{{"-x"}, {"-n", "four"}, {"4"}} {
		_, out, err = parse(args...)
		require.ErrorAs(t, err, new(usageError), "%v", args)
		require.Empty(t, out)
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
