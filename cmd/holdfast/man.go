package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) man() *cobra.Command {
	return &cobra.Command{
		Use:     "man",
		Short:   "Print the man page",
		Long:    "man prints the man page of holdfast, which has what the help of all commands has.",
		Example: "  holdfast man > /usr/local/share/man/man1/holdfast.1",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := writeMan(c.OutOrStdout(), c.Root()); err != nil {
				return &exit{exitFailed, err}
			}
			return nil
		},
	}
}

// writeMan writes the man page of a command and its commands.
func writeMan(w io.Writer, root *cobra.Command) error {
	var b strings.Builder
	b.WriteString(".TH HOLDFAST 1\n.SH NAME\nholdfast \\- " + roff(root.Short) + "\n.SH SYNOPSIS\n.nf\n")
	var all []*cobra.Command
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			all = append(all, c)
			b.WriteString("\\fBholdfast\\fR " + roff(c.Use) + "\n")
		}
	}
	b.WriteString(".fi\n.SH DESCRIPTION\n")
	manText(&b, root.Long)
	manFlags(&b, root.PersistentFlags())
	b.WriteString(".SH COMMANDS\n")
	for _, c := range all {
		b.WriteString(".SS holdfast " + roff(c.Use) + "\n")
		manText(&b, c.Long)
		manFlags(&b, c.LocalNonPersistentFlags())
		if c.Example != "" {
			b.WriteString(".PP\nExamples:\n")
			manText(&b, c.Example)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// manText writes a text of help. Lines that begin with spaces stay as they are.
func manText(b *strings.Builder, text string) {
	asIs := false
	for _, line := range strings.Split(text, "\n") {
		if indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"); indented != asIs {
			asIs = indented
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[asIs])
		}
		if line == "" {
			b.WriteString(".PP\n")
		} else {
			b.WriteString(roff(line) + "\n")
		}
	}
	if asIs {
		b.WriteString(".fi\n")
	}
}

func manFlags(b *strings.Builder, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			b.WriteString("\\fB\\-" + f.Shorthand + "\\fR, ")
		}
		value, usage := pflag.UnquoteUsage(f)
		b.WriteString(strings.TrimSpace("\\fB\\-\\-"+roff(f.Name)+"\\fR "+roff(value)) + "\n" + roff(usage))
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" {
			b.WriteString(" (default " + roff(f.DefValue) + ")")
		}
		b.WriteString("\n")
	})
}

// roff writes a line so that roff prints it as it is.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	return line
}
