package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedirection(t *testing.T) {
	for text, want := range map[string]string{
		"MOVED 3999 127.0.0.1:6381": "127.0.0.1:6381",
		"MOVED 3999 node.x:6381":    "node.x:6381",
		"MOVED 3999 ::1:6381":       "[::1]:6381",
		"MOVED 3999 [::1]:6381":     "[::1]:6381",
		"MOVED 3999 :6381":          "asked:6381",
		"MOVED 3999 ?:6381":         "?:6381",
		"MOVED 3999 nothing":        "",
		"MOVED":                     "",
		"ASK 3999 127.0.0.1:6381":   "127.0.0.1:6381",
	} {
		c := fakeServer(t, func([]string) string { return "-" + text + "\r\n" })
		err := c.Do(t.Context(), c.B().Get().Key("x").Build()).Error()
		addr, ask := Redirection(failureOf(err), "asked:1")
		require.Equal(t, want, addr, text)
		require.Equal(t, want != "" && strings.HasPrefix(text, "ASK"), ask, text)
	}
	addr, _ := Redirection(StrangeNode, "asked:1")
	require.Empty(t, addr)
}
