package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/server"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// The embedded server's clock has to run, or no lock would ever expire there.
func TestEmbedded_RecordsExpire(t *testing.T) {
	srv, err := server.Open("")
	require.NoError(t, err)
	defer srv.Close()
	require.True(t, srv.Embedded())
	m, err := lockmgr.Dial(srv.Option(), lockmgr.Options{})
	require.NoError(t, err)
	defer m.Close(t.Context())

	srv.Leave("abandoned", 50*time.Millisecond)
	lock, err := m.Lock(t.Context(), "abandoned", lockmgr.MaxWait(time.Minute))
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestURLs(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	for _, url := range []string{"redis://:secret@" + s.Addr(), "redis://:secret@" + s.Addr() + "/", "redis://:secret@" + s.Addr() + "/3"} {
		srv, err := server.Open(url)
		require.NoError(t, err, url)
		require.False(t, srv.Embedded())
		require.Equal(t, s.Addr(), srv.String(), "no password in it")
		srv.Close()
	}
	_, err := server.Open("redis://" + s.Addr())
	require.ErrorContains(t, err, "NOAUTH")
}

func TestURLs_Wrong(t *testing.T) {
	for _, url := range []string{"127.0.0.1:6379", "http://127.0.0.1:6379", "redis://127.0.0.1:6379/x"} {
		_, err := server.Open(url)
		require.ErrorContains(t, err, "-redis should look like", url)
	}
}
