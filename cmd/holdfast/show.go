package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/lockmgr"
)

func isWrongType(err error) bool { return errors.Is(err, lockmgr.ErrWrongType) }

func (a *app) ls() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List locks",
		Long: `ls lists the locks whose names begin with PREFIX, or all: who holds them, for how long, how long the
record lives if nobody renews it, and how many processes wait. A lock that is "kept by" somebody is one that --keep
or KeepFor keeps after its holder has ended. It is free after the TTL. PREFIX is no pattern: leave out the star. A user
who may read some names only must give a PREFIX.

Locks that are free are not listed. Permits with a limit of 0 that nobody has are listed only if PREFIX is their
whole name. Who holds a lock is known a second after the grant; a client of Redisson has an ID only. Texts that others
wrote are printed without control characters. JSON has all of a text: in name_base64 and owner_base64, too, if it is
no UTF-8.

In a terminal what is too long for a line is cut. Use ls | cat, show or --json for the whole.

ls reads all keys of the server by SCAN, page by page, which blocks nobody.`,
		Example: `  holdfast ls orders:
  holdfast ls --json | jq 'select(.waiting > 0).name'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(looks, func(ctx context.Context, m *lockmgr.Manager) error {
				rows, err := scan(ctx, m, strings.Join(args, ""))
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(c.OutOrStdout(), rows)
				}
				return printTable(c.OutOrStdout(), rows)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each lock, one a line")
	return c
}

func printJSON(w io.Writer, rows []row) error {
	for _, r := range rows {
		if err := encode(w, r); err != nil {
			return &exit{exitFailed, err}
		}
	}
	return nil
}

// listed returns the texts of ls, the titles first.
func listed(rows []row, now time.Time) [][]string {
	texts := [][]string{{"NAME", "KIND", "HELD BY", "FOR", "TTL", "WAIT", "NOTE"}}
	for _, r := range rows {
		held := "?"
		switch d := r.held(now); {
		case r.idle():
			held = "-"
		case d > 0:
			held = age(d)
		}
		texts = append(texts, []string{shown(r.Name), r.kind(), r.holders(), held, r.ttl(), r.waiting(), r.note()})
	}
	return texts
}

func printTable(w io.Writer, rows []row) error {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil { // it is no terminal
		width = 0
	}
	for _, line := range table(width, listed(rows, time.Now())) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return &exit{exitFailed, err}
		}
	}
	return nil
}

func (a *app) show() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Tell who holds a lock",
		Long: `show tells who holds the lock NAME, since when and what for, how long its record lives if nobody
renews it, how many processes wait, and the last fencing token.

It ends with 1 if nobody holds the lock.`,
		Example: `  holdfast show backup
  holdfast show --json backup`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(looks, func(ctx context.Context, m *lockmgr.Manager) error {
				r, held, err := look(ctx, m, args[0])
				switch {
				case err != nil:
					return err
				case asJSON:
					err = printJSON(c.OutOrStdout(), []row{r})
				case !held && r.Token > 0:
					fmt.Fprintf(c.OutOrStdout(), "%s is free, its last token is %d\n", shown(r.Name), r.Token)
				case !held:
					fmt.Fprintf(c.OutOrStdout(), "%s is free\n", shown(r.Name))
				default:
					describe(c.OutOrStdout(), &r)
				}
				if err == nil && !held {
					return &exit{code: exitFailed}
				}
				return err
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return c
}

// mostDescribed is how many holders are described in words. --json has more.
const mostDescribed = 20

// describe prints a lock in words.
func describe(w io.Writer, r *row) {
	fmt.Fprintf(w, "%s (%s)\n", shown(r.Name), r.kind())
	described := r.Holders[:min(len(r.Holders), mostDescribed)]
	for _, h := range described {
		how, who := h.words()
		fmt.Fprintf(w, "  %s  %s\n", how, who)
		switch {
		case h.Since == nil:
		case h.Ended != nil:
			fmt.Fprintf(w, "    from   %s to %s\n", h.Since.Format(time.DateTime), h.Ended.Format(time.DateTime))
		default:
			fmt.Fprintf(w, "    for    %s, since %s\n", age(h.held(time.Now())), h.Since.Format(time.DateTime))
		}
		if h.Note != "" {
			fmt.Fprintf(w, "    note   %s\n", said(h.Note))
		}
		fmt.Fprintf(w, "    ID     %s\n", shown(h.Owner))
	}
	if n := r.Count - len(described); n > 0 {
		fmt.Fprintf(w, "  held by  %d more\n", n)
	}
	switch {
	case r.kept():
		fmt.Fprintf(w, "  TTL      %s: %s\n", r.ttl(), r.keptUntil())
	case r.Count > 0 || r.Limit == nil:
		fmt.Fprintf(w, "  TTL      %s, if nobody renews it\n", r.ttl())
	}
	fmt.Fprintf(w, "  waiting  %s\n", r.waiting())
	if r.Token != 0 {
		fmt.Fprintf(w, "  token    %d, the last one given\n", r.Token)
	}
}

func (a *app) breakLock() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "break NAME [ID…]",
		Short: "Remove a lock that somebody holds",
		Long: `break shows who holds the lock NAME, asks, removes the lock from these holders, and wakes those who
wait. It does not take the lock from others that have got it meanwhile. With IDs, as show prints them, it removes these
holders only: one of several readers, or one permit. Without IDs it gives back at most 1,000 permits, and removes the
record of a lock with more than 1,000 holders as a whole. break describes 20 holders and counts the others.

The holder knows at once if it had to wait for the lock while another process held it. If a request
waits behind the holder in the same process, the holder knows within 5 s. Otherwise the holder knows at its next
renewal. break says how long that takes at most: half of the TTL, as a lock is renewed while at least two thirds of
its lease are left. A holder that does not renew, or that is a client of Redisson, knows when it unlocks. Until then
it may go on working while somebody else has the lock: break a lock only if you know that its holder is dead or
harmless.

Without a terminal it needs --yes, which removes the lock from the holders that break finds. It ends with 1
if nobody holds the lock, if none of those that it has shown holds it any more, or if the answer is no.`,
		Example: `  holdfast break backup
  holdfast break --yes backup
  holdfast break transcode af35f2edf1a9803f0000000000010000`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(looks, func(ctx context.Context, m *lockmgr.Manager) error {
				r, held, err := look(ctx, m, args[0])
				if err != nil {
					return err
				}
				if !held || r.Limit != nil && len(r.Holders) == 0 {
					return &exit{exitFailed, fmt.Errorf("%s is free", shown(r.Name))}
				}
				if ids := args[1:]; len(ids) > 0 {
					unknown := r.narrow(ids)
					if r.Count == 0 {
						return &exit{exitFailed, fmt.Errorf("none of these is among the holders found of %s: see holdfast show", shown(r.Name))}
					}
					for _, id := range unknown {
						fmt.Fprintf(c.OutOrStdout(), "no holder: %s\n", shown(id))
					}
				}
				describe(c.OutOrStdout(), &r)
				if !yes {
					if err := confirmed(ctx, c); err != nil {
						return err
					}
				}
				return broken(ctx, c.OutOrStdout(), m, &r)
			})
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

// confirmed asks, and returns nil if the answer is yes. The end of ctx is no answer.
func confirmed(ctx context.Context, c *cobra.Command) error {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return &exit{exitUsage, errors.New("break: no terminal to ask: give --yes")}
	}
	fmt.Fprint(c.OutOrStdout(), "Break it? [y/N] ")
	answered := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answered <- strings.ToLower(strings.TrimSpace(answer))
	}()
	select {
	case answer := <-answered:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return &exit{code: exitFailed}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// broken takes a lock, or permits, from the holders that were shown. Those who have come since keep
// it.
func broken(ctx context.Context, w io.Writer, m *lockmgr.Manager, r *row) error {
	done := false
	var err error
	if r.Limit != nil {
		done, err = returned(ctx, m, r)
	} else {
		done, err = m.ForceUnlockHolders(ctx, r.Name, r.ids()...)
	}
	if err != nil {
		return failed(err)
	}
	if done {
		fmt.Fprintf(w, "broken: %s\n", shown(r.Name))
		switch lives := slices.ContainsFunc(r.Holders, func(h holder) bool { return !h.Kept }); {
		case lives && r.TTL < 0:
			fmt.Fprintln(w, "nobody renews it: a holder that lives knows when it unlocks")
		case lives:
			fmt.Fprintf(w, "the holder knows at its next renewal, in at most %s, or sooner by a message\n", age(r.renewal()))
		}
		if n := r.Count - len(r.Holders); n > 0 && r.Limit != nil {
			fmt.Fprintf(w, "%d more permits are taken: break %s again\n", n, shown(r.Name))
		}
		return nil
	}
	if _, held, err := look(ctx, m, r.Name); err == nil && held {
		return &exit{exitFailed, fmt.Errorf("not broken: none of these holds %s any more, and others do", shown(r.Name))}
	}
	return &exit{exitFailed, fmt.Errorf("%s is free by now", shown(r.Name))}
}

// returned gives back the permits that were shown, one by one, and reports whether one was still
// taken.
func returned(ctx context.Context, m *lockmgr.Manager, r *row) (some bool, err error) {
	for _, id := range r.ids() {
		done, err := m.Permits(r.Name, 1).Return(ctx, id)
		if err != nil {
			return some, err
		}
		some = some || done
	}
	return some, nil
}

func (a *app) check() *cobra.Command {
	c := &cobra.Command{
		Use:   "check [PREFIX]",
		Short: "Tell what the user may do on the server",
		Long: `check tries everything that locks need, on a name of its own that begins with PREFIX, and tells what the
user's access rules forbid and which settings put locks at risk. It leaves nothing behind.

It ends with 77 if something is missing that plain locks need.`,
		Example: `  holdfast check app:
  HOLDFAST_REDIS=redis://locker:secret@db:6379 holdfast check app:`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(looks, func(ctx context.Context, m *lockmgr.Manager) error {
				report, err := m.Check(ctx, strings.Join(args, ""))
				fmt.Fprintln(c.OutOrStdout(), saidLines(report.String()))
				if err == nil {
					fmt.Fprintln(c.OutOrStdout(), "plain locks work")
				}
				return failed(err)
			})
		},
	}
	return c
}
