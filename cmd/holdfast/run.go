package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A job is a call of run.
type job struct {
	name    string
	command []string

	noWait                  bool
	wait, lease, keep       time.Duration
	shared, exclusive, fair bool
	permits                 int
	token, passRedis        bool
	grace                   time.Duration
	note                    string
	quiet                   bool

	until time.Time // the end of the wait, if there is one
	told  bool      // that the server is waited for
}

func (a *app) run() *cobra.Command {
	j := &job{}
	c := &cobra.Command{
		Use:   "run NAME -- COMMAND [ARG…]",
		Short: "Run a command while holding a lock",
		Long: `run takes the lock NAME, runs the command, and gives the lock back when the command has ended.
The lock is renewed as long as the command runs. If holdfast dies, the lock is free after --lease.

Without --wait or --nowait it waits for as long as others hold the lock, and for as long as the server can't be
reached or can't serve, as in a failover. It says so once.

If the lock is lost (the server forgot it, somebody broke it, or the server can't be reached for
the time of the lease), the command gets SIGTERM and, --grace later, SIGKILL. If somebody breaks the lock,
holdfast learns it at its next renewal, within 46 % of --lease.

The environment of the command has HOLDFAST_NAME with the whole name, HOLDFAST_PREFIX if run has a prefix, and
with --token HOLDFAST_TOKEN. The token rises with every grant of the lock. A resource that refuses tokens
smaller than the last one is safe from a command that still runs after the lock was lost. The server keeps the
counter of a name's tokens for ever. The command does not get HOLDFAST_REDIS, which may have a password, unless
you give --pass-redis: a holdfast that the command runs then uses the same server. Without, it needs --redis.

holdfast passes SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1 and SIGUSR2 on to the command, unless it was
started with the signal ignored, as by nohup. While it is in the foreground of a terminal it does not pass
on SIGINT and SIGQUIT, because Ctrl-C reaches the command too: both are in one process group, so that the
command can read from the terminal. Processes that the command has started get no signal from holdfast.
Ctrl-Z stops holdfast too, and a lock that is not renewed for --lease is lost. On Windows a command whose
lock is lost is killed at once.

Exit codes: that of the command, or 128 and the number of the signal that ended it;
  64  wrong usage              69  the server can't be reached
  70  another failure          75  others hold the lock
  76  the lock was lost        77  the server forbids it
  126 the command can't run    127 the command was not found`,
		Example: `  holdfast run --nowait backup -- pg_dump -f backup.sql shop
  holdfast run --nowait --keep 55s minutely -- ./job     # once a minute, on whichever host comes first
  holdfast run --permits 3 --wait 10m transcode -- ffmpeg -i in.mov out.mp4`,
		Args: func(c *cobra.Command, args []string) error {
			switch dash := c.ArgsLenAtDash(); {
			case dash == 1 && len(args) > 1:
				j.name, j.command = args[0], args[1:]
			case dash == 0 && len(args) > 2 && args[1] == "--": // a name that begins with -
				j.name, j.command = args[0], args[2:]
			default:
				return errors.New("run: want NAME -- COMMAND, or -- NAME -- COMMAND for a name that begins with -")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if err := j.check(c); err != nil {
				return err
			}
			return j.run(a)
		},
	}
	f := c.Flags()
	f.BoolVarP(&j.noWait, "nowait", "n", false, "end with 75 if others hold the lock, or 69 if the server can't be reached")
	f.DurationVarP(&j.wait, "wait", "w", 0, "wait at most so long, then end with 75 or 69")
	f.DurationVar(&j.lease, "lease", 30*time.Second, "how long the lock stays taken when holdfast dies; at least 100ms")
	f.DurationVar(&j.keep, "keep", 0, "keep the lock taken for so long from the start, even if the command ends before")
	f.BoolVar(&j.shared, "shared", false, "take the read side of a read-write lock")
	f.BoolVar(&j.exclusive, "exclusive", false, "take the write side of a read-write lock")
	f.BoolVar(&j.fair, "fair", false, "first come, first served; all users of the name must ask for it")
	f.IntVar(&j.permits, "permits", 0, "take one of so many permits instead of a lock; the first number for NAME stays: see limit")
	f.BoolVar(&j.token, "token", false, "ask for a fencing token; permits have none")
	f.BoolVar(&j.passRedis, "pass-redis", false, "give the command the URL of the server, with its password, as HOLDFAST_REDIS")
	f.DurationVar(&j.grace, "grace", 10*time.Second, "time between SIGTERM and SIGKILL after a loss")
	f.StringVar(&j.note, "note", "", "what others see the lock is for (default: the command without its arguments)")
	f.BoolVarP(&j.quiet, "quiet", "q", false, "print no holders, no wait for the server, and no other number of permits")
	return c
}

// check refuses flags that contradict each other.
func (j *job) check(c *cobra.Command) error {
	kinds := 0
	for _, set := range []bool{j.shared, j.exclusive, j.fair, j.permits != 0} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return errors.New("run: --shared, --exclusive, --fair and --permits exclude each other")
	case j.noWait && c.Flags().Changed("wait"):
		return errors.New("run: --nowait and --wait exclude each other")
	case c.Flags().Changed("wait") && j.wait <= 0:
		return errors.New("run: --wait must be positive; see --nowait")
	case j.token && j.permits != 0:
		return errors.New("run: --token and --permits exclude each other")
	case j.keep != 0 && kinds > 0:
		return errors.New("run: --keep is for plain locks")
	case c.Flags().Changed("permits") && j.permits <= 0:
		return errors.New("run: --permits must be positive")
	case j.lease == 0:
		return errors.New("run: --lease must be positive")
	case j.grace < 0:
		return errors.New("run: --grace must not be negative")
	}
	if !c.Flags().Changed("note") {
		j.note = filepath.Base(j.command[0])
	}
	for len(j.note) > lockmgr.MaxNoteBytes || len(j.note) > 0 && strings.ToValidUTF8(j.note, "?") != j.note {
		j.note = strings.ToValidUTF8(j.note, "?")
		j.note = j.note[:min(len(j.note), lockmgr.MaxNoteBytes)]
	}
	return nil
}

// run takes the lock, runs the command and gives the lock back.
func (j *job) run(a *app) error {
	// A command that can't be found is told before anybody waits for a lock.
	path, err := exec.LookPath(j.command[0])
	if err != nil {
		return notStarted(err)
	}
	signals := make(chan os.Signal, 16)
	for _, s := range passedOn {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	j.until = time.Now().Add(j.wait)
	o := lockmgr.Options{Lease: j.lease, Prefix: a.prefix, Process: lockmgr.Process{Program: "holdfast run"}}
	m, err := outlast(j, signals, func() *futures.Future[*lockmgr.Manager] { return j.dial(a, o) })
	if err != nil {
		return failed(err)
	}
	return using(m, func() error {
		l, err := j.lock(m, signals)
		if err != nil {
			return err
		}
		code, started := j.runUnder(l, path, j.environment(os.Environ(), l, a), signals)
		signal.Stop(signals) // a signal now ends this process, and the lock ends with its lease
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		lost := l.Err()
		switch err := l.Unlock(ctx); {
		case lost != nil || err == nil:
		case errors.Is(err, lockmgr.ErrLeaseLost):
			lost = err
		default:
			fmt.Fprintln(os.Stderr, "holdfast: the lock may stay taken until its lease ends:", said(err.Error()))
		}
		switch {
		case started != nil:
			return notStarted(started)
		case lost != nil:
			return &exit{exitLost, fmt.Errorf("%s: the lock was lost while the command ran: %w", strconv.Quote(l.Name()), lost)}
		case code != 0:
			return &exit{code: code}
		}
		return nil
	})
}

// options are those of the request.
func (j *job) options() []lockmgr.LockOption {
	opts := []lockmgr.LockOption{lockmgr.Note(j.note)}
	switch {
	case j.noWait:
		opts = append(opts, lockmgr.OnlyIfFree())
	case j.wait > 0:
		opts = append(opts, lockmgr.MaxWait(max(time.Until(j.until), time.Millisecond)))
	}
	if j.keep != 0 {
		opts = append(opts, lockmgr.KeepFor(j.keep))
	}
	if j.token {
		opts = append(opts, lockmgr.Fenced())
	}
	switch {
	case j.shared:
		opts = append(opts, lockmgr.Shared())
	case j.exclusive:
		opts = append(opts, lockmgr.Exclusive())
	case j.fair:
		opts = append(opts, lockmgr.Fair())
	}
	return opts
}

// retryAfter is the pause before the server is tried again.
const retryAfter = time.Second

// dial connects to the server, for as long as the job may wait.
func (j *job) dial(a *app, o lockmgr.Options) *futures.Future[*lockmgr.Manager] {
	var p futures.Promise[*lockmgr.Manager]
	go func() { p.Resolve(a.dial(o)) }() // it takes no context, and ends with the program
	if j.wait > 0 {
		time.AfterFunc(time.Until(j.until), func() { p.Resolve(nil, &exit{exitUnreachable, errors.New("the server did not answer in time")}) })
	}
	return p.Future()
}

// outlast tries until the server serves, for as long as the job may wait. A signal ends the wait.
func outlast[T any](j *job, signals <-chan os.Signal, try func() *futures.Future[T]) (none T, err error) {
	stopped := func(s os.Signal) error { return &exit{code: exitSignal + number(s)} }
	for {
		f := try()
		select {
		case <-f.Done():
		case s := <-signals:
			f.Cancel()
			return none, stopped(s)
		}
		value, err := f.Result()
		if j.noWait || !lockmgr.Temporary(err) || errors.Is(err, lockmgr.ErrNotAcquired) || j.waitOver() {
			return value, err
		}
		pause := retryAfter
		if j.wait > 0 {
			pause = min(pause, time.Until(j.until))
		}
		if !j.told && !j.quiet {
			j.told = true
			fmt.Fprintln(os.Stderr, "holdfast: waiting for the server:", said(err.Error()))
		}
		select {
		case <-time.After(pause):
		case s := <-signals:
			return none, stopped(s)
		}
		if j.waitOver() { // another dial would only say that there is no time left
			return value, err
		}
	}
}

func (j *job) waitOver() bool { return j.wait > 0 && time.Until(j.until) <= 0 }

// lock waits for the lock. A signal ends the wait.
func (j *job) lock(m *lockmgr.Manager, signals <-chan os.Signal) (*lockmgr.Lock, error) {
	j.tellLimit(m)
	l, err := outlast(j, signals, func() *futures.Future[*lockmgr.Lock] {
		if j.permits > 0 {
			return m.Permits(j.name, j.permits).AcquireAsync(1, j.options()...)
		}
		return m.LockAsync(j.name, j.options()...)
	})
	switch {
	case err == nil:
		return l, nil
	case !errors.Is(err, lockmgr.ErrNotAcquired):
		return nil, failed(err)
	case j.quiet:
		return nil, &exit{code: exitBusy}
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if r, _, looked := look(ctx, m, j.name); looked == nil && len(r.Holders) > 0 {
		err = fmt.Errorf("%w: %s", err, r.heldOrKept())
	}
	return nil, failed(err)
}

// tellLimit says how many permits there are if that is not the number that was asked for.
func (j *job) tellLimit(m *lockmgr.Manager) {
	if j.permits == 0 || j.quiet {
		return
	}
	until := time.Now().Add(time.Second) // no signal ends it
	if j.wait > 0 && j.until.Before(until) {
		until = j.until
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	info, err := m.Permits(j.name, j.permits).Inspect(ctx)
	if err == nil && info.Exists && info.Limit != j.permits {
		const text = "holdfast: %s has %d permits, and not %d: see holdfast limit\n"
		fmt.Fprintf(os.Stderr, text, shown(info.Name), info.Limit, j.permits)
	}
}

// environment returns the environment of the command: ours, with the variables of its own lock in
// place of those that an outer run may have set.
func (j *job) environment(ours []string, l *lockmgr.Lock, a *app) []string {
	env := slices.DeleteFunc(slices.Clone(ours), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		// On Windows the case of a name does not matter.
		return slices.Contains([]string{envName, envToken, envPrefix, envRedis}, strings.ToUpper(name))
	})
	env = append(env, envName+"="+l.Name())
	if token := l.Token(); token != 0 {
		env = append(env, envToken+"="+strconv.FormatInt(token, 10))
	}
	if a.prefix != "" {
		env = append(env, envPrefix+"="+a.prefix)
	}
	if j.passRedis {
		env = append(env, envRedis+"="+a.url)
	}
	return env
}

// runUnder runs the command until it ends. It returns its exit code, or why it was not started.
func (j *job) runUnder(l *lockmgr.Lock, path string, env []string, signals <-chan os.Signal) (code int, err error) {
	c := exec.Command(path, j.command[1:]...)
	c.Args[0] = j.command[0]
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Env = env
	select {
	case s := <-signals: // there is no command yet that could get it
		return exitSignal + number(s), nil
	default:
	}
	ended := make(chan error, 1)
	started := make(chan error)
	// The command stays in this process's group, so that it can read from the terminal.
	go start(c, started, ended)
	if err := <-started; err != nil {
		return 0, err
	}
	lost := l.Lost()
	var kill <-chan time.Time
	for {
		select {
		case <-lost:
			lost = nil
			terminate(c.Process)
			kill = time.After(j.grace)
		case <-kill:
			_ = c.Process.Kill()
		case s := <-signals:
			if !fromKeyboard(s) {
				_ = c.Process.Signal(s)
			}
		case err := <-ended:
			return exitCode(c, err), nil
		}
	}
}

// exitCode returns the code that tells how a command ended.
func exitCode(c *exec.Cmd, err error) int {
	if err != nil && c.ProcessState == nil {
		return exitInternal
	}
	if s := endedBy(c.ProcessState); s > 0 {
		return exitSignal + s
	}
	return c.ProcessState.ExitCode()
}

func notStarted(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &exit{exitNotFound, err}
	}
	return &exit{exitNotRun, err}
}
