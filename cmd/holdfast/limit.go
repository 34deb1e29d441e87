package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/lockmgr"
)

func (a *app) limit() *cobra.Command {
	var forget bool
	c := &cobra.Command{
		Use:   "limit NAME [N]",
		Short: "Show or set how many permits there are",
		Long: `limit prints how many permits NAME has, or sets the number. The first run --permits sets it too. Later ones
use what is set, and say so if they were given another number.

With a smaller number those who have a permit keep it, and nobody gets one until enough are given back. With 0
nobody gets one until the number is raised.

--forget removes what the server knows of NAME, if nobody has a permit. The next run --permits sets the number anew.

It ends with 1 if the number to print or to forget is not set, or if --forget finds permits that are taken. It ends with
64 if NAME is in use as something else.`,
		Example: `  holdfast limit transcode
  holdfast limit transcode 5
  holdfast limit --forget transcode`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			set := len(args) == 2
			var limit int
			if set {
				var err error
				if limit, err = strconv.Atoi(args[1]); err != nil {
					return fmt.Errorf("limit: %q is no number of permits", args[1])
				}
			}
			if set && forget {
				return errors.New("limit: a number and --forget exclude each other")
			}
			return a.with(looks, func(ctx context.Context, m *lockmgr.Manager) error {
				p := m.Permits(args[0], 1)
				told := func(err error) error {
					if e := new(lockmgr.LockError); isWrongType(err) && errors.As(err, &e) {
						return &exit{exitUsage, fmt.Errorf("%s has no permits: it is in use as a lock, or by another program", shown(e.Name))}
					}
					return failed(err)
				}
				if set {
					return told(p.SetLimit(ctx, limit))
				}
				info, err := p.Inspect(ctx)
				switch {
				case err != nil:
					return told(err)
				case !info.Exists:
					return &exit{exitFailed, fmt.Errorf("no number of permits is set for %s", shown(info.Name))}
				case !forget:
					fmt.Fprintln(c.OutOrStdout(), info.Limit)
					return nil
				}
				removed, err := p.Delete(ctx)
				if err == nil && !removed {
					return &exit{exitFailed, fmt.Errorf("%s is not forgotten: permits are taken", shown(info.Name))}
				}
				return failed(err)
			})
		},
	}
	c.Flags().BoolVar(&forget, "forget", false, "remove what the server knows of the permits, if nobody has one")
	return c
}
