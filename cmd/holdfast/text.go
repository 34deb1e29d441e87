package main

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/clean"
)

// Names, records and replies are texts that others wrote. What this program prints of them goes
// through shown, said or encode.

// shown returns a name or an ID as it is if a terminal prints it as it is, else in quotes. The
// quotes lose nothing, unless the text is very long.
func shown(text string) string {
	if text != "" && len(text) <= clean.Most && strings.TrimSpace(text) == text && clean.Is(text) {
		return text
	}
	if len(text) > clean.Most {
		return strconv.Quote(text[:clean.Most]) + "…"
	}
	return strconv.Quote(text)
}

// said returns a note, or the words of an error, without what a terminal would obey.
func said(text string) string { return clean.Text(text, mostSaid) }

// saidLines does the same for each line of a text of ours.
func saidLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = said(strings.ReplaceAll(line, "\t", "  "))
	}
	return strings.Join(lines, "\n")
}

// mostSaid is how many bytes are printed of what others say. The error of check lists permissions.
const mostSaid = 8 << 10

// encode writes a value as a line of JSON, in which each character that a terminal would obey is
// escaped.
func encode(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		_, err = w.Write(append(clean.JSON(text), '\n'))
	}
	return err
}

// bytesOf returns the bytes of a text that is no UTF-8, which JSON can't have. It returns nil for
// any other text.
func bytesOf(text string) []byte {
	if utf8.ValidString(text) {
		return nil
	}
	return []byte(text)
}
