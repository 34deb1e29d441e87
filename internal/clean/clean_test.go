package clean

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// hostile has a character of each kind that must not be shown.
var hostile = []string{
	"\x00", "\a", "\b", "\t", "\n", "\r", "\x1b[2J", "\x1b]0;title\a", "\x7f", // control characters and DEL
	"\u0080", "\u0085", "\u009b31m", // C1
	"\u200e", "\u200f", "\u061c", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", // marks of direction
	"\u2066", "\u2067", "\u2068", "\u2069",
	"\u2028", "\u2029", "\u00a0", "\u200b", "\ufeff", "\U000e0041", // line ends, spaces and marks without a glyph
	"\xff", "\xc3", "\x9b", "\xed\xa0\x80", "\xf4\x90\x80\x80", // no UTF-8
	"\ue000", "\U0010ffff", // no glyph that is known
}

func TestText_RemovesWhatATerminalObeys(t *testing.T) {
	for _, h := range hostile {
		text := Text("a"+h+"b", 100)
		require.Truef(t, utf8.ValidString(text), "%q", h)
		require.Falsef(t, strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }), "%q gave %q", h, text)
		require.Truef(t, strings.HasPrefix(text, "a\uFFFD") && strings.HasSuffix(text, "b"), "%q gave %q", h, text)
		require.Falsef(t, Is("a"+h+"b"), "%q", h)
		require.Falsef(t, Is(text), "%q", h)
	}
}

func TestText_KeepsWhatCanBeShown(t *testing.T) {
	for _, text := range []string{"", "a", `orders:42 "x" \`, "Grüße", "日本語", "שלום", "e\u0301", "🙂"} {
		require.Equal(t, text, Text(text, 100))
		require.True(t, Is(text))
		require.Equal(t, text, string(JSON([]byte(text))))
	}
	require.Equal(t, "a\uFFFDb", Text("a\uFFFDb", 100))
}

func TestText_HasABound(t *testing.T) {
	require.Equal(t, "abcd", Text("abcd", 4))
	require.Equal(t, "abcd…", Text("abcde", 4))
	require.Equal(t, "abc…", Text("abcü", 4), "no part of a character")
	require.Equal(t, "…", Text("abc", 0))
	require.Equal(t, "\uFFFD…", Text("\xff\xff\xff", 4))
	long := Text(strings.Repeat("\x1b", 1<<20), Most)
	require.LessOrEqual(t, len(long), Most+len("…"))
}

func TestJSON_HasTheSameMeaning(t *testing.T) {
	for _, h := range append(hostile, "plain", "🙂\U000e0041") {
		want := map[string]string{"name" + h: strings.ToValidUTF8(h, "\uFFFD")}
		text, err := json.MarshalIndent(want, "", "\t")
		require.NoError(t, err)
		safe := JSON(text)
		require.Falsef(t, strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "").Replace(string(safe)), func(r rune) bool { return !unicode.IsPrint(r) }), "%q gave %q", h, safe)
		var got, plain map[string]string
		require.NoError(t, json.Unmarshal(safe, &got))
		require.NoError(t, json.Unmarshal(text, &plain))
		require.Equal(t, plain, got)
	}
}
