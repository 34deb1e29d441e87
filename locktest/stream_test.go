package locktest

import (
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func read(t *testing.T, s *stream) string {
	t.Helper()
	b := make([]byte, 2)
	n, err := s.read(b)
	require.NoError(t, err)
	return string(b[:n])
}

func TestStream_KeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(false)
		begin := time.Now()
		s.write([]byte("abc"), 3*time.Second)
		s.write([]byte("d"), 0) // not before the others
		require.Equal(t, "ab", read(t, s))
		require.Equal(t, 3*time.Second, time.Since(begin))
		require.Equal(t, "c", read(t, s))
		require.Equal(t, "d", read(t, s))
	})
}

func TestStream_CopiesWhatIsWritten(t *testing.T) {
	s := newStream(false)
	b := []byte("a")
	s.write(b, 0)
	b[0] = 'x'
	require.Equal(t, "a", read(t, s))
}

func TestStream_EndComesAfterTheBytes(t *testing.T) {
	s := newStream(false)
	s.write([]byte("a"), 0)
	s.end()
	require.Equal(t, "a", read(t, s))
	_, err := s.read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	_, err = s.write([]byte("b"), 0)
	require.ErrorIs(t, err, net.ErrClosed)
}

// A deadline ends a read, also one that blocks when it is set.
func TestStream_Deadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(false)
		begin := time.Now()
		s.setDeadline(begin.Add(time.Second))
		_, err := s.read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begin))
		s.setDeadline(time.Time{})
		time.AfterFunc(time.Minute, func() { s.setDeadline(time.Now()) })
		_, err = s.read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		s.setDeadline(time.Time{})
		time.AfterFunc(time.Hour, func() { s.write([]byte("a"), 0) })
		require.Equal(t, "a", read(t, s))
	})
}

func TestStream_HeldLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(true)
		begin := time.Now()
		s.write([]byte("a"), 0)
		s.end()
		time.AfterFunc(time.Minute, func() { s.hold(false) })
		require.Equal(t, "a", read(t, s))
		require.Equal(t, time.Minute, time.Since(begin))
	})
}

func TestStream_LostBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(false)
		s.write([]byte("a"), 0)
		s.lose()
		n, err := s.write([]byte("b"), 0)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		s.end()
		time.AfterFunc(time.Minute, func() { s.fail(syscall.ECONNRESET) })
		_, err = s.read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET, "neither the bytes nor the end")
	})
}

func TestStream_FailsAtOnce(t *testing.T) {
	s := newStream(false)
	s.write([]byte("a"), 0)
	s.fail(syscall.ECONNRESET)
	s.fail(io.EOF)
	_, err := s.read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = s.write([]byte("a"), 0)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}
