//go:build unix

package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
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

// In a narrow window a lock is a block whose parts wrap, and so do long words. Without either the
// page is wider than TestPage_FitsANarrowWindow allows.
func TestPage_Wraps(t *testing.T) {
	wide, narrow, _ := strings.Cut(string(page), "@media (max-width: 800px) {")
	require.Regexp(t, `\n  th, td \{[^}]* overflow-wrap: anywhere; `, wide)
	require.Regexp(t, `\n    tr \{ display: flex; flex-wrap: wrap; `, narrow)
}

// The page fits a window of 500 pixels, with long names and notes. HOLDFAST_CHROMIUM is the
// browser, if there is no chromium on PATH.
func TestPage_FitsANarrowWindow(t *testing.T) {
	path := os.Getenv("HOLDFAST_CHROMIUM")
	if path == "" {
		path = "chromium"
	}
	if _, err := exec.LookPath(path); err != nil {
		t.Skip("SKIPPED: there is no " + path + ", so the width of the page is not tested")
	}
	since := time.Now().Add(-50 * time.Hour)
	long := row{Name: strings.Repeat("customers:", 20), Kind: "plain", Count: 1, Waiting: 12345, Holders: []holder{
		{Owner: "x", Program: strings.Repeat("billing", 9), Host: "web-3.example.com", PID: 4194304, Note: strings.Repeat("invoice ", 30), Since: &since},
	}}
	pages := newPages(&source{known: map[string]*track{}, scan: func(context.Context) ([]row, error) { return []row{long, {Name: "a", Holders: []holder{}}}, nil }}, time.Second)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(w, r)
		if r.URL.Path == "/" { // says how wide the page is once it has rows
			_, _ = io.WriteString(w, `<script>setInterval(() => { if ($("rows").children.length)
				document.title = "window " + innerWidth + " page " + document.documentElement.scrollWidth + " rows " + $("rows").children.length }, 50)</script>`)
		}
	}))
	defer server.Close()
	out, err := exec.CommandContext(t.Context(), path, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+t.TempDir(),
		"--virtual-time-budget=5000", "--window-size=500,700", "--dump-dom", server.URL).Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "<title>window 500 page 500 rows 2</title>")
	require.Contains(t, string(out), "4194304")
}
