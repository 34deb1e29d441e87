package locktest_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
	"github.com/holdfast-go/holdfast/locktest"
)

var ctx = context.Background()

// bubble runs a test on a server in fake time.
func bubble(t *testing.T, test func(t *testing.T, s *locktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, locktest.Start(t)) })
}

// A recorder is a test that notes its failure.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper()                      {}
func (r *recorder) Fatal(args ...any)            { r.said = fmt.Sprint(args...); runtime.Goexit() }
func (r *recorder) Fatalf(s string, args ...any) { r.Fatal(fmt.Sprintf(s, args...)) }
func (r *recorder) Errorf(s string, args ...any) { r.said = fmt.Sprintf(s, args...) }

// failure runs f with a test of its own and returns how that failed, or "".
func failure(t *testing.T, f func(t testing.TB)) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.said
}

// recorded starts a server whose test is a recorder.
func recorded(t *testing.T) (*locktest.Server, *recorder) {
	r := &recorder{TB: t}
	return locktest.Start(r), r
}

func lock(t *testing.T, m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *lockmgr.Lock {
	t.Helper()
	l, err := m.Lock(ctx, name, opts...)
	require.NoError(t, err)
	return l
}

// closed reports whether a channel is closed once everything is quiet.
func closed(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}
