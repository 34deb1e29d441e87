package certmagic

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/readme"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestReadme_CodeIsInTheExample(t *testing.T) { readme.Check(t) }

func manager(t *testing.T, s *redistest.Server) *lockmgr.Manager {
	t.Helper()
	return faults.Dial(t, s.Addr(), lockmgr.Options{Lease: time.Second})
}

// issuer signs certificates itself. Each takes until somebody waits.
type issuer struct {
	key    *ecdsa.PrivateKey
	issued atomic.Int64
	wait   func()
}

func (i *issuer) IssuerKey() string { return "test" }

func (i *issuer) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	i.wait()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(i.issued.Add(1)), DNSNames: csr.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, i.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// Of two processes that need the same certificate, one obtains it. The other waits for the lock,
// and finds the certificate in the storage.
func TestStorage_OneCertificateForTwoProcesses(t *testing.T) {
	s := redistest.Start(t)
	key := redistest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	managers := []*lockmgr.Manager{manager(t, s), manager(t, s)}
	ca := &issuer{key: key, wait: func() {
		faults.Eventually(t, func() bool { return managers[0].Stats().Waiting+managers[1].Stats().Waiting > 0 }, "nobody waits")
	}}
	files := &certmagic.FileStorage{Path: t.TempDir()}
	var all sync.WaitGroup
	for _, m := range managers {
		var config *certmagic.Config
		cache := certmagic.NewCache(certmagic.CacheOptions{
			GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
			Logger:           zap.NewNop(),
		})
		t.Cleanup(cache.Stop)
		config = certmagic.New(cache, certmagic.Config{
			Storage: Wrap(files, m, Options{Prefix: "tls:"}), Issuers: []certmagic.Issuer{ca},
			OCSP: certmagic.OCSPConfig{DisableStapling: true}, Logger: zap.NewNop(),
		})
		all.Go(func() {
			if err := config.ManageSync(t.Context(), []string{"shop.example.com"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, ca.issued.Load())
	for _, m := range managers {
		require.Zero(t, m.Stats().Held, "a lock was not released")
	}
}

// Storages exclude each other by our locks, not by those of the wrapped storage. A name is locked
// once, even if the contexts of two callers have one owner.
func TestLocker_Rules(t *testing.T) {
	s := redistest.Start(t)
	m := manager(t, s)
	a := Wrap(&certmagic.FileStorage{Path: t.TempDir()}, manager(t, s), Options{Prefix: "tls:"})
	b := Wrap(&certmagic.FileStorage{Path: t.TempDir()}, m, Options{Prefix: "tls:"})
	ctx := lockmgr.WithOwner(t.Context(), m.NewOwner())

	require.ErrorIs(t, a.Unlock(ctx, "x"), lockmgr.ErrNotHeld)
	require.ErrorIs(t, a.RenewLockLease(ctx, "x", time.Hour), lockmgr.ErrNotHeld)
	require.NoError(t, a.Lock(ctx, "x"))
	require.NoError(t, a.RenewLockLease(ctx, "x", time.Hour))
	require.Equal(t, "1", faults.Do(t, s, "EXISTS", "tls:x"))

	require.ErrorIs(t, b.Unlock(ctx, "x"), lockmgr.ErrNotHeld, "the lock of another process")
	ok, err := b.TryLock(ctx, "x")
	require.NoError(t, err)
	require.False(t, ok)
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.Lock(short, "x"), context.DeadlineExceeded)

	require.NoError(t, a.Unlock(ctx, "x"))
	require.ErrorIs(t, a.Unlock(ctx, "x"), lockmgr.ErrNotHeld)
	ok, err = b.TryLock(ctx, "x")
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = b.TryLock(ctx, "x")
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, b.Unlock(ctx, "x"))
}

// A holder that lost its lock is told when it unlocks, and does not release the lock of the next
// holder in its process.
func TestLocker_Loss(t *testing.T) {
	s := redistest.Start(t)
	l := NewLocker(manager(t, s), Options{})
	ctx := t.Context()
	require.NoError(t, l.Lock(ctx, "x"))
	faults.Do(t, s, "DEL", "x")
	faults.Eventually(t, func() bool { return l.RenewLockLease(ctx, "x", time.Hour) != nil })
	require.ErrorIs(t, l.RenewLockLease(ctx, "x", time.Hour), lockmgr.ErrLeaseLost)

	require.NoError(t, l.Lock(ctx, "x"), "the next holder")
	require.ErrorIs(t, l.Unlock(ctx, "x"), lockmgr.ErrLeaseLost)
	require.NoError(t, l.RenewLockLease(ctx, "x", time.Hour), "the next holder lost its lock to an old one")
	require.NoError(t, l.Unlock(ctx, "x"))
	require.ErrorIs(t, l.Unlock(ctx, "x"), lockmgr.ErrNotHeld)
}

// An error other than a held lock is told.
func TestLocker_ClosedManager(t *testing.T) {
	m := manager(t, redistest.Start(t))
	require.NoError(t, m.Close(t.Context()))
	l := NewLocker(m, Options{})
	ok, err := l.TryLock(t.Context(), "x")
	require.ErrorIs(t, err, lockmgr.ErrClosed)
	require.False(t, ok)
	require.ErrorIs(t, l.Lock(t.Context(), "x"), lockmgr.ErrClosed)
}
