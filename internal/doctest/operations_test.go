package doctest

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func observed(waited, held func(time.Duration), lost func(string, error)) lockmgr.Options {
	// docs/operations.md 1
	options := lockmgr.Options{
		Logger: slog.Default(),
		Observer: func(e lockmgr.Event) {
			switch e := e.(type) {
			case lockmgr.EventGranted:
				waited(e.Waited)
			case lockmgr.EventUnlocked:
				held(e.Held)
			case lockmgr.EventLost:
				lost(e.Name, e.Err)
			}
		},
	}
	// end
	return options
}

func stuck(ctx context.Context, mgr *lockmgr.Manager, name string, force bool) error {
	// docs/operations.md 2
	info, err := mgr.Inspect(ctx, name) // who holds it, for how long, who waits
	if err != nil || !info.Locked {
		return err
	}
	slog.Warn("stuck", "holders", info.Holders, "ttl", info.TTL, "queue", len(info.Queue))
	if !force {
		return nil // look twice
	}
	_, err = mgr.ForceUnlock(ctx, name)
	// end
	return err
}

var mgr *lockmgr.Manager // what ready asks

// docs/operations.md 3
func ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if _, err := mgr.Inspect(ctx, "app:ready"); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// end

// A service that starts before its server is ready as soon as the server is there.
func TestOperations_Readiness(t *testing.T) {
	s := redistest.Start(t)
	s.Kill()
	mgr = redistest.Must(lockmgr.DialURL("redis://"+s.Addr(), lockmgr.Options{ConnectLater: true}))(t)
	t.Cleanup(func() { require.NoError(t, mgr.Close(context.Background())) })
	status := func() int {
		w := httptest.NewRecorder()
		ready(w, httptest.NewRequest(http.MethodGet, "/ready", nil))
		return w.Code
	}
	require.Equal(t, http.StatusServiceUnavailable, status())
	s.Restart()
	require.Eventually(t, func() bool { return status() == http.StatusOK }, time.Minute, 10*time.Millisecond)
}

func shutDown(ctx context.Context, mgr *lockmgr.Manager, server *http.Server) error {
	// docs/operations.md 4
	err := server.Shutdown(ctx) // waits for the handlers, which hold locks
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, mgr.Close(closing)) // what is still held is lost with ErrClosed, and released
	// end
}

func TestOperations_Snippets(t *testing.T) {
	t.Parallel()
	addr, server := redistest.Mini(t)
	ctx := t.Context()
	waits, holds, losses := make(chan time.Duration, 10), make(chan time.Duration, 10), make(chan string, 10)
	options := observed(func(d time.Duration) { waits <- d }, func(d time.Duration) { holds <- d },
		func(name string, err error) { losses <- name + ": " + err.Error() })
	options.Logger = slog.New(slog.DiscardHandler)
	mgr := redistest.Must(lockmgr.DialURL("redis://"+addr, options))(t)

	l := redistest.Must(mgr.Lock(ctx, "a"))(t)
	<-waits
	require.NoError(t, stuck(ctx, mgr, "a", false))
	require.True(t, l.Valid())
	info := redistest.Must(mgr.Inspect(ctx, "a"))(t)
	require.True(t, strings.HasPrefix(info.Holders[0].Owner, mgr.ID()))
	require.NoError(t, stuck(ctx, mgr, "a", true))
	<-l.Lost()
	require.Contains(t, <-losses, "a: ")
	require.NoError(t, stuck(ctx, mgr, "a", true), "nobody holds it any more")

	// A handler that holds a lock when the shutdown begins ends in peace.
	begun, end := make(chan bool), make(chan bool)
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := mgr.Do(r.Context(), "b", func(context.Context, *lockmgr.Lock) error {
			close(begun)
			<-end
			return nil
		})
		if err != nil {
			w.WriteHeader(status(err))
		}
	})}
	listener := redistest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go web.Serve(listener)
	answer := make(chan int, 1)
	go func() {
		defer close(answer)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		if r, err := client.Get("http://" + listener.Addr().String()); err == nil {
			r.Body.Close()
			answer <- r.StatusCode
		}
	}()
	<-begun
	web.RegisterOnShutdown(func() { close(end) })
	require.NoError(t, shutDown(ctx, mgr, web))
	require.Equal(t, http.StatusOK, <-answer)
	require.NotEmpty(t, holds)
	require.Empty(t, server.Keys())
}

// Each log line of the library is told on the page, and each one that is told there exists.
func TestOperations_LogLines(t *testing.T) {
	page, err := os.ReadFile(root + "docs/operations.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "\n## Log lines\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var told []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1) {
		told = append(told, row[1])
	}
	var lines []string
	for _, folder := range []string{"lockmgr", "notify", "renewal", "futures", "actor"} {
		require.NoError(t, filepath.WalkDir(root+folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			lines = append(lines, logLines(t, path)...)
			return nil
		}))
	}
	require.NotEmpty(t, lines)
	slices.Sort(told)
	slices.Sort(lines)
	require.Equal(t, lines, told)
}

// logLines returns the messages that a file logs.
func logLines(t *testing.T, path string) (found []string) {
	file := redistest.Must(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t)
	logs := []string{"Debug", "Info", "Warn", "Error", "DebugContext", "InfoContext", "WarnContext", "ErrorContext", "Log", "LogAttrs", "NewRecord", "log"}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 { // an error's Error has no arguments
			return true
		}
		name := ""
		switch f := call.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
		}
		if !slices.Contains(logs, name) {
			return true
		}
		for _, arg := range call.Args {
			if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text := redistest.Must(strconv.Unquote(lit.Value))(t)
				found = append(found, text)
				return true
			}
		}
		if name != "Error" && name != "log" { // wire.Config.Error takes a failure
			t.Errorf("%s: a log line whose text is not a literal", path)
		}
		return true
	})
	return found
}

// The page tells each cause of a loss.
func TestOperations_Losses(t *testing.T) {
	page := redistest.Must(os.ReadFile(root + "docs/operations.md"))(t)
	source := redistest.Must(os.ReadFile(root + "lockmgr/internal/core/errors.go"))(t)
	causes := regexp.MustCompile(`"%w: ([^"]+)", ErrLeaseLost\)`).FindAllStringSubmatch(string(source), -1)
	require.Len(t, causes, 5)
	for _, cause := range causes {
		require.True(t, strings.Contains(string(page), "`"+cause[1]+"`"), cause[1])
	}
}
