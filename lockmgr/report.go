package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/clean"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A Report is what Check found.
type Report struct {
	// Server is the name and version of the server, if the user may call INFO.
	Server string
	// Missing are the permissions the user lacks.
	Missing []Permission
	// Warnings are sentences about settings that slow locks down or put locks at risk.
	Warnings []string
}

// String returns the report in lines: the server, each missing permission, and each warning.
func (r Report) String() string {
	var lines []string
	if r.Server != "" {
		lines = append(lines, "server: "+r.Server)
	}
	for _, p := range r.Missing {
		line := "missing: " + p.String()
		if p.Optional {
			line += ", not needed by plain locks"
		}
		lines = append(lines, line)
	}
	for _, w := range r.Warnings {
		lines = append(lines, "warning: "+w)
	}
	return strings.Join(lines, "\n")
}

// A Permission is a command, a key or a channel that the server's access rules may allow.
type Permission struct {
	// Rule is the argument of ACL SETUSER that grants the permission, for example "+pttl". A
	// pattern is made from the prefix given to Check.
	Rule string
	// For names what does not work without the permission.
	For string
	// Optional reports whether plain locks work without the permission.
	Optional bool
	// Nodes are the addresses of the masters of a cluster without the permission. Each node has
	// access rules of its own. Nodes is nil if all masters that Check asks lack the permission, and
	// for a single server.
	Nodes []string
}

// String returns the rule, the purpose and the Nodes.
func (p Permission) String() string {
	text := p.Rule + " (" + p.For + ")"
	if len(p.Nodes) > 0 {
		text += " at " + strings.Join(p.Nodes, ", ")
	}
	return clean.Text(text, clean.Most)
}

// A site is a server that Check asks, and the name of Check's lock there.
type site struct {
	master string // the address of a master of a cluster; empty for a single server
	name   string
}

// A checkup is a call of Check.
type checkup struct {
	m       *Manager
	prefix  string
	sharded bool // whether channels are sharded
	sites   []site
	report  Report

	site                    // the site that is asked now
	channel, counter string // the channel and the token key of its name
}

// visit calls f once for each site, after setting site, channel and counter. visit ends at the
// first error, and adds the address of the master to the error.
func (c *checkup) visit(f func() error) error {
	for _, p := range c.sites {
		c.site, c.channel, c.counter = p, wire.Channel(p.name), wire.TokenKey(p.name)
		if err := f(); err != nil && p.master != "" {
			return fmt.Errorf("lockmgr: check of the master at %s: %w", clean.Text(p.master, clean.Most), err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// denied returns an error that names the missing permissions for plain locks, or nil.
func (c *checkup) denied() error {
	c.mergeNodes()
	var needed []string
	for _, p := range c.report.Missing {
		if !p.Optional {
			needed = append(needed, p.String())
		}
	}
	if len(needed) == 0 {
		return nil
	}
	return &ServerError{Kind: ErrPermission, Err: errors.New("the user lacks " + strings.Join(needed, ", ")), Hint: "see ACL SETUSER, and docs/redis.md for all that is needed"}
}

// missing adds a missing permission of the site to the report.
func (c *checkup) missing(p Permission) {
	i := slices.IndexFunc(c.report.Missing, func(q Permission) bool { return q.Rule == p.Rule })
	if i < 0 {
		i = len(c.report.Missing)
		c.report.Missing = append(c.report.Missing, p)
	}
	q := &c.report.Missing[i]
	if c.master != "" && !slices.Contains(q.Nodes, c.master) {
		q.Nodes = append(q.Nodes, c.master)
	}
}

// mergeNodes removes the addresses from each permission missing at all sites.
func (c *checkup) mergeNodes() {
	for i := range c.report.Missing {
		if p := &c.report.Missing[i]; len(p.Nodes) == len(c.sites) {
			p.Nodes = nil
		}
	}
}

// warn adds a warning. In a cluster the warning begins with the address of the master.
func (c *checkup) warn(format string, args ...any) {
	text := clean.Text(fmt.Sprintf(format, args...), clean.Most)
	if c.master != "" {
		text = "the master at " + c.master + ": " + text
	}
	c.report.Warnings = append(c.report.Warnings, text)
}

// say sends a command that is no script. say returns an error if no answer came, if the server is
// unavailable, or if the server refused the user or the password. Further errors of the server are
// in the answer.
func (c *checkup) say(ctx context.Context, words ...string) (wire.Answer, error) {
	a, err := c.m.run(ctx, c.master, wire.Command{Args: words})
	if err != nil || a.Failure == nil {
		return a, err
	}
	if f := a.Failure; f.Kind == wire.Unavailable || f.Kind == wire.Closed || f.BadLogin() || ctx.Err() != nil {
		return a, serverError(f)
	}
	return a, nil
}
