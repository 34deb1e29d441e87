// Command holdfast takes locks for other programs, and shows and breaks locks, on Redis or Valkey.
//
//	holdfast run backup -- pg_dump …    runs a command while it holds the lock "backup"
//	holdfast ls                         lists locks
//	holdfast show backup                tells who holds a lock
//	holdfast break backup               removes a lock
//	holdfast limit transcode 5          sets how many permits there are
//	holdfast check                      tells what the user may do
//	holdfast top                        shows locks as they change
//
// Its locks are those of the library, and so those of Redisson.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// Exit codes, as in sysexits.h where that has one.
const (
	exitFailed      = 1
	exitUsage       = 64
	exitUnreachable = 69
	exitInternal    = 70
	exitBusy        = 75
	exitLost        = 76
	exitForbidden   = 77
	exitNotRun      = 126
	exitNotFound    = 127
	exitSignal      = 128 // plus the number of the signal
)

// An exit ends the program with a code. Its text is empty if there is nothing to say.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func main() {
	root, out := newRoot(), &stdout{}
	root.SetOut(out)
	command, err := root.ExecuteC()
	if out.err != nil {
		err = &exit{exitFailed, out.err}
	}
	if err == nil {
		return
	}
	code := exitUsage // of the flags and arguments, which cobra checks
	var e *exit
	if errors.As(err, &e) {
		code = e.code
	}
	if text := err.Error(); text != "" {
		if e == nil {
			fmt.Fprintf(os.Stderr, "holdfast: %s\nholdfast: see %s --help\n", saidLines(text), command.CommandPath())
		} else {
			fmt.Fprintln(os.Stderr, "holdfast:", said(text))
		}
	}
	os.Exit(code)
}

// stdout is the standard output. It remembers the first error, so that no command has to look.
type stdout struct{ err error }

func (o *stdout) Write(b []byte) (int, error) {
	n, err := os.Stdout.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// Variables of the environment. The first two are read. All may be set for the command of run.
const (
	envRedis  = "HOLDFAST_REDIS"
	envPrefix = "HOLDFAST_PREFIX"
	envName   = "HOLDFAST_NAME"
	envToken  = "HOLDFAST_TOKEN"
)

// An app is what all commands share.
type app struct{ url, prefix string }

func newRoot() *cobra.Command {
	a := &app{}
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Take, show and break locks on Redis or Valkey",
		Long: `holdfast takes locks on Redis or Valkey for other programs, and shows and breaks locks.

The server is that of --redis, or of the environment variable HOLDFAST_REDIS:

  redis://user:password@host:6379/0          rediss:// for TLS
  redis://host1:6379?addr=host2:6379         a cluster
  redis://sentinel:26379?master_set=main     Sentinels

Other users of the machine can see a password in an argument. Put it into the variable.

If programs give Options.Prefix to the library, give it to --prefix or HOLDFAST_PREFIX. It is put before each
NAME and PREFIX, unless the NAME or PREFIX begins with it already.

Put -- before a name that begins with -, as in: holdfast show -- -x`,
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	url, prefix := os.Getenv(envRedis), os.Getenv(envPrefix)
	root.PersistentFlags().StringVar(&a.url, "redis", "", "URL of the server (default $HOLDFAST_REDIS, or redis://127.0.0.1:6379)")
	root.PersistentFlags().StringVar(&a.prefix, "prefix", "", "what all names begin with (default $HOLDFAST_PREFIX, or nothing)")
	root.PersistentPreRun = func(c *cobra.Command, _ []string) {
		if !c.Flags().Changed("prefix") {
			a.prefix = prefix
		}
		a.url = cmp.Or(a.url, url)
		if a.url == "" && os.Getenv(envName) == "" { // not under a run, whose server is another one
			a.url = "redis://127.0.0.1:6379"
		}
	}
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp) // names of locks are no files
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if strings.HasPrefix(err.Error(), "unknown ") {
			err = fmt.Errorf("%w; put -- before a name that begins with -", err)
		}
		return err
	})
	root.AddCommand(a.run(), a.ls(), a.show(), a.breakLock(), a.limit(), a.check(), a.top(), a.man())
	return root
}

// closeTime bounds the end of a manager.
const closeTime = 10 * time.Second

// with calls f with a manager, which it closes afterwards. Ctrl-C ends the context of f. Before f,
// Ctrl-C ends the program, because the dial of a manager takes no context.
func (a *app) with(o lockmgr.Options, f func(context.Context, *lockmgr.Manager) error) error {
	o.Prefix = a.prefix
	m, err := a.dial(o)
	if err != nil {
		return failed(err)
	}
	return using(m, func() error {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		err := f(ctx, m)
		if err != nil && ctx.Err() != nil {
			return &exit{code: exitSignal + number(os.Interrupt)}
		}
		return err
	})
}

// dial connects to the server. It guesses no server for a command of run: a lock at another server
// keeps nobody out.
func (a *app) dial(o lockmgr.Options) (*lockmgr.Manager, error) {
	if a.url == "" {
		return nil, &exit{exitUsage, errors.New("a command of run needs --redis, or --pass-redis for that run")}
	}
	return lockmgr.DialURL(a.url, o)
}

// using calls f, and closes m afterwards.
func using(m *lockmgr.Manager, f func() error) error {
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		_ = m.Close(ctx)
	}()
	return f()
}

// looks are the options of a manager that takes no locks.
var looks = lockmgr.Options{Anonymous: true}

// failed gives an error of the library its exit code.
func failed(err error) error {
	code := exitInternal
	switch {
	case err == nil, errors.As(err, new(*exit)):
		return err
	case errors.Is(err, lockmgr.ErrUnavailable):
		code = exitUnreachable
	case errors.Is(err, lockmgr.ErrPermission):
		code = exitForbidden
	case errors.Is(err, lockmgr.ErrNotAcquired):
		code = exitBusy
	case errors.Is(err, lockmgr.ErrInvalidOption), errors.Is(err, lockmgr.ErrInvalidName), errors.Is(err, lockmgr.ErrInvalidLease),
		errors.Is(err, lockmgr.ErrInvalidWait), errors.Is(err, lockmgr.ErrKind), errors.Is(err, lockmgr.ErrLimit), errors.Is(err, lockmgr.ErrWrongType):
		code = exitUsage
	}
	return &exit{code, err}
}
