package lockmgr

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/clean"
)

// A Process says which process a manager is part of. The zero Process is an unknown one.
type Process struct {
	Program string `json:"program,omitempty"` // by default the name of the executable
	Host    string `json:"host,omitempty"`    // by default the name of the host
	PID     int    `json:"pid,omitempty"`     // by default the process ID
}

// MaxProcessBytes is the longest Program and Host that Options.Process may have.
const MaxProcessBytes = 128

// String returns the process in the form "billing@web-3, pid 411", or "" for an unknown one. U+FFFD
// stands for characters that can't be shown.
func (p Process) String() string {
	var b strings.Builder
	b.WriteString(p.Program)
	if p.Host != "" {
		b.WriteString("@" + p.Host)
	}
	if p.PID != 0 {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "pid %d", p.PID)
	}
	return clean.Text(b.String(), clean.Most)
}

// complete returns p with what is not set filled in.
func (p Process) complete() Process {
	if p.Program == "" && len(os.Args) > 0 {
		p.Program = cut(strings.ToValidUTF8(filepath.Base(os.Args[0]), "\uFFFD"), MaxProcessBytes)
	}
	if p.Host == "" {
		host, _ := os.Hostname()
		p.Host = cut(strings.ToValidUTF8(host, "\uFFFD"), MaxProcessBytes)
	}
	p.PID = cmp.Or(p.PID, os.Getpid())
	return p
}

// MaxNoteBytes is the longest text of a [Note].
const MaxNoteBytes = 256

// cut returns at most so many bytes of a text, and no part of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// roundAge rounds a time for a person.
func roundAge(d time.Duration) time.Duration {
	switch d = max(d, 0); {
	case d >= time.Minute:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
