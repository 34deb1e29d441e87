package doctest

import (
	"crypto/tls"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

func dialTLS(addr, password string) (*lockmgr.Manager, error) {
	// SECURITY.md 1
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
	_, err := dialTLS("127.0.0.1:1", "secret") // package faults/network has servers with TLS
	require.ErrorIs(t, err, lockmgr.ErrUnavailable)
}
