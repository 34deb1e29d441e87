// Package cli is what a small program needs around its work: flags, Ctrl-C and an exit status.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// A Program does its work, writes its story to out, and gives back all it holds before it returns,
// whatever the reason.
type Program func(ctx context.Context, out io.Writer, args []string) error

// Main runs a program and ends the process: with status 0 if all went well, 1 after an error, 2 if
// the flags were wrong, and 130 after Ctrl-C (or SIGTERM), which ends the program's context. A
// second Ctrl-C ends it the hard way.
func Main(name string, run Program) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // from here on a signal kills, as usual
	err := run(ctx, os.Stdout, os.Args[1:])
	message, status := verdict(ctx, err)
	if message != "" {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, message)
	}
	os.Exit(status)
}

// verdict says how a program ended.
func verdict(ctx context.Context, err error) (message string, status int) {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return "", 0
	case errors.As(err, new(usageError)):
		return err.Error() + " (-h lists the flags)", 2
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return "interrupted", 130
	}
	return err.Error(), 1
}

type usageError struct{ error }

// Usage marks an error as one of the command line.
func Usage(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// Parse reads the flags. On -h it prints about and the flags to out and returns flag.ErrHelp. What
// is wrong with the flags is returned, not printed.
func Parse(flags *flag.FlagSet, out io.Writer, about string, args []string) error {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(out, "%s\n\nFlags:\n", about)
		flags.SetOutput(out)
		flags.PrintDefaults()
		return err
	case err != nil:
		return usageError{err}
	case flags.NArg() > 0:
		return Usage("unexpected argument %q", flags.Arg(0))
	}
	return nil
}
