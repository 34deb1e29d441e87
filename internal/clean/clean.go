// Package clean makes texts that others wrote safe to show: names, records and replies of a server,
// which anybody may have written who can reach it.
//
// Such a text may have control characters, which a terminal obeys, marks that change the direction
// of the text around them, line ends that forge a line of a log, and bytes that are no UTF-8. The
// library and the command clean a text when they put it into a line for a person, such as the text
// of an error. They do not change values that a program compares, such as the ID of a holder.
package clean

import (
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Most is how many bytes of a server's words an error or a log line has.
const Most = 1024

// Is reports whether a text can be shown as it is. It cannot if it has U+FFFD, because that may
// stand for something that was removed.
func Is(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar })
}

// Text returns up to most bytes of a text, with U+FFFD in place of each character that can't be
// shown, and with "…" at its end if it was longer.
func Text(text string, most int) string {
	if len(text) <= most && Is(text) {
		return text
	}
	b := make([]byte, 0, min(len(text)+8, most+8))
	for i, r := range text { // an invalid byte is U+FFFD here
		if !unicode.IsPrint(r) {
			r = unicode.ReplacementChar
		}
		if len(b)+utf8.RuneLen(r) > most || i >= most {
			return string(b) + "…"
		}
		b = utf8.AppendRune(b, r)
	}
	return string(b)
}

// Error returns an error with the text of err as Text returns it. It matches what err matches.
func Error(err error) error {
	if err == nil {
		return nil
	}
	return cleaned{err}
}

type cleaned struct{ err error }

func (c cleaned) Error() string { return Text(c.err.Error(), Most) }

func (c cleaned) Unwrap() error { return c.err }

// JSON escapes each character of a JSON text that can't be shown, as \u and four digits:
// encoding/json does not escape DEL, C1 and the marks of direction. The meaning of the text stays
// the same. Line ends and tabs stay, because they only separate values.
func JSON(data []byte) []byte {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, len(data))
	for _, r := range string(data) {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' || r == '\r' {
			b = utf8.AppendRune(b, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			b = append(b, '\\', 'u', digits[unit>>12], digits[unit>>8&15], digits[unit>>4&15], digits[unit&15])
		}
	}
	return b
}
