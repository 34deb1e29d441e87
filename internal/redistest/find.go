package redistest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redisserver"
)

const (
	envServer  = "HOLDFAST_SERVER"
	envRequire = "HOLDFAST_REQUIRE_SERVER"

	skipped = "SKIPPED: no redis-server or valkey-server on PATH; " +
		"set " + envServer + " to a binary, or " + envRequire + "=1 to fail instead"
)

// notice is printed once for each test binary, however many tests it skips.
const notice = `
********************************************************************************
  NO REDIS-SERVER OR VALKEY-SERVER ON PATH: TESTS AGAINST A REAL SERVER ARE
  SKIPPED. WHAT PASSES BELOW HAS NOT BEEN SHOWN TO WORK WITH REDIS.

  Install one of them, or name one:     HOLDFAST_SERVER=/path/to/redis-server
  To make this an error instead of a skip:        HOLDFAST_REQUIRE_SERVER=1
********************************************************************************

`

var noticeOnce sync.Once

// Need ends the test as Start does if there is no server: for tests whose parts start servers, and
// that would miss what those parts find.
func Need(t testing.TB) {
	t.Helper()
	find(t)
}

// find returns the path of the server's binary, or ends the test: skipped when there is none,
// failed when there has to be one.
func find(t testing.TB) string {
	t.Helper()
	return findOr(t, os.Stderr, &noticeOnce)
}

func findOr(t testing.TB, w io.Writer, once *sync.Once) string {
	t.Helper()
	path, err := redisserver.Find(os.Getenv(envServer))
	switch {
	case err == nil:
		return path
	case !errors.Is(err, redisserver.ErrNone):
		// A binary that was asked for by name and is not there is a mistake, never a reason to
		// skip.
		t.Fatalf("redistest: %s: %v", envServer, err)
	case os.Getenv(envRequire) == "1":
		t.Fatalf("redistest: %v, and %s=1 asks for one", err, envRequire)
	}
	once.Do(func() { fmt.Fprint(w, notice) })
	t.Skip(skipped)
	return ""
}
