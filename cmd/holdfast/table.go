package main

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// leastWords is the width below which the column NOTE is left out, so that the columns NAME and
// HELD BY have more. HELD BY needs as much for a pid of seven digits.
const leastWords = 15

// table sets rows of texts out in columns, two spaces between them. The first row has the titles.
// If the rows are wider than width, the columns of words are cut. Zero is no width: nothing is cut.
func table(width int, rows [][]string) []string {
	const gap = 2
	widths := make([]int, len(rows[0]))
	for _, texts := range rows {
		for i, text := range texts {
			widths[i] = max(widths[i], ansi.StringWidth(text))
		}
	}
	if width > 0 {
		room := width + gap
		var words []int // the columns that may be cut
		for i, title := range rows[0] {
			room -= widths[i] + gap
			if slices.Contains([]string{"NAME", "HELD BY", "NOTE"}, strings.TrimSpace(title)) {
				words = append(words, i)
				room += widths[i]
			}
		}
		most := level(widths, words, room)
		if last := len(words) - 1; most < leastWords && rows[0][words[last]] == "NOTE" {
			widths[words[last]] = 0
			most = level(widths, words[:last], room+gap)
		}
		for _, i := range words {
			widths[i] = min(widths[i], max(most, 1))
		}
	}
	lines := make([]string, len(rows))
	for i, texts := range rows {
		var b strings.Builder
		for j, text := range texts {
			if widths[j] > 0 {
				text = cut(rows[0][j], text, widths[j])
				b.WriteString(text + strings.Repeat(" ", widths[j]-ansi.StringWidth(text)+gap))
			}
		}
		lines[i] = strings.TrimRight(b.String(), " ")
		if width > 0 {
			lines[i] = ansi.Truncate(lines[i], width, "")
		}
	}
	return lines
}

// level returns how wide a column may be if some columns share the room and the narrow ones need
// less.
func level(widths, columns []int, room int) int {
	most := 0
	for _, i := range columns {
		most = max(most, widths[i])
	}
	for ; most > 0; most-- {
		sum := 0
		for _, i := range columns {
			sum += min(widths[i], most)
		}
		if sum <= room {
			break
		}
	}
	return most
}

// cut cuts a text to the width of its column: a name in the middle, as names often begin alike, and
// a holder before the pid.
func cut(title, text string, width int) string {
	end := len(text) // of what may be cut
	switch title {
	case "NAME":
		return middle(text, width/2, width)
	case "HELD BY":
		for _, tail := range []string{ended, ", pid "} {
			if i := strings.LastIndex(text, tail); i >= 0 {
				end = i
			}
		}
	}
	return middle(text, ansi.StringWidth(text[end:]), width)
}

// middle cuts a text to a width, but not in its last columns.
func middle(text string, last, width int) string {
	whole := ansi.StringWidth(text)
	if whole <= width {
		return text
	}
	begin := ansi.Truncate(text, max(1, width-last), "…")
	end := ansi.TruncateLeft(text, whole-last, "")
	if ansi.StringWidth(end) > last { // half of a wide character was cut off
		end = ansi.TruncateLeft(text, whole-last+1, "")
	}
	return begin + ansi.Truncate(end, width-ansi.StringWidth(begin), "…")
}
