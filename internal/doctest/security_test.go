package doctest

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func check(ctx context.Context, mgr *lockmgr.Manager) (lockmgr.Report, error) {
	// SECURITY.md 1
	report, err := mgr.Check(ctx, "app:")
	// end
	return report, err
}

func dialTLS(addr, password string) (*lockmgr.Manager, error) {
	// SECURITY.md 2
	mgr, err := lockmgr.Dial(rueidis.ClientOption{
		InitAddress: []string{addr},
		Username:    "locker",
		Password:    password,
		TLSConfig:   &tls.Config{ServerName: "redis.example.org", MinVersion: tls.VersionTLS12},
	}, lockmgr.Options{})
	// end
	return mgr, err
}

func TestSecurity(t *testing.T) {
	t.Parallel()
	addr, _ := redistest.Mini(t)
	require.NoError(t, dial("redis://"+addr, func(mgr *lockmgr.Manager) error {
		report, err := check(t.Context(), mgr)
		require.Empty(t, report.Missing)
		return err
	}))
	_, err := dialTLS("127.0.0.1:1", "secret") // package faults/network has servers with TLS
	require.ErrorIs(t, err, lockmgr.ErrUnavailable)
}
