//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The page is served on loopback only, to those who ask for an address of loopback.
func TestWeb(t *testing.T) {
	w := newWorld(t)
	_, err := w.m.Lock(t.Context(), "<script>alert(1)</script>")
	require.NoError(t, err)
	p := w.start("top", "--web", "127.0.0.1:0")
	var url string
	require.Eventually(t, func() bool {
		url = strings.TrimSpace(p.err.String())
		return strings.HasPrefix(url, "http://127.0.0.1:")
	}, patient, 5*time.Millisecond)
	get := func(path, host string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		require.NoError(t, err)
		if host != "" {
			r.Host = host
		}
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer, string(body)
	}
	answer, body := get("", "")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.Contains(t, body, "<title>holdfast: locks</title>")
	answer, body = get("locks.json", "")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "nosniff", answer.Header.Get("X-Content-Type-Options"))
	var snap snapshot
	require.NoError(t, json.Unmarshal([]byte(body), &snap))
	require.Equal(t, "<script>alert(1)</script>", snap.Locks[0].Name)
	require.NotContains(t, body, "<script>", "JSON escapes it")
	for _, host := range []string{"evil.example", "evil.example:7117", "10.0.0.1", ""} {
		if host != "" {
			answer, _ = get("locks.json", host)
			require.Equal(t, http.StatusForbidden, answer.StatusCode, host)
		}
	}
	answer, _ = get("nosuch", "")
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	posted, err := http.Post(url+"locks.json", "text/plain", nil)
	require.NoError(t, err)
	posted.Body.Close()
	require.Equal(t, http.StatusMethodNotAllowed, posted.StatusCode)
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Zero(t, p.wait())
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "example.com:80", "7117"} {
		code, _, _ := w.run("top", "--web", addr)
		require.Equal(t, 64, code, addr)
	}
}
