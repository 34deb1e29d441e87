package network

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// authority signs certificates for the length of a test.
type authority struct {
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	roots *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	key := redistest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := redistest.Must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	cert := redistest.Must(x509.ParseCertificate(der))(t)
	a := &authority{cert, key, x509.NewCertPool()}
	a.roots.AddCert(cert)
	return a
}

// issue makes a certificate for a host that is good until a time.
func (a *authority) issue(t testing.TB, host string, until time.Time) *tls.Certificate {
	key := redistest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{host}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: until,
	}, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

const host = "redis.test"

// tlsClient are options of a client that trusts an authority.
func tlsClient(addr string, a *authority) rueidis.ClientOption {
	opt := calm(addr)
	opt.Username, opt.Password = "someone", secret
	opt.TLSConfig = &tls.Config{RootCAs: a.roots, ServerName: host}
	return opt
}

// What is wrong with a certificate is told at once, as an error that can be matched.
func TestTLS_BadCertificateIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	faults.Do(t, s, "ACL", "SETUSER", "someone", "on", ">"+secret, "+@all", "~*", "&*")
	ours, theirs := newAuthority(t), newAuthority(t)
	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	for what, tt := range map[string]struct {
		cert *tls.Certificate
		says string // empty: it is good
	}{
		"good":              {ours.issue(t, host, later), ""},
		"of another host":   {ours.issue(t, "other.test", later), "certificate is valid for other.test"},
		"of another author": {theirs.issue(t, host, later), "certificate signed by unknown authority"},
		"expired":           {ours.issue(t, host, before), "certificate has expired"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := faultproxy.Start(t, s.Addr(), faultproxy.WithTLS(&tls.Config{Certificates: []tls.Certificate{*tt.cert}}))
			opt := tlsClient(p.Addr(), ours)
			opt.Dialer.Timeout = time.Minute // so that it is not the time-out that ends it
			start := time.Now()
			m, err := lockmgr.Dial(opt, lockmgr.Options{})
			require.Less(t, time.Since(start), faults.Patience)
			if tt.says == "" {
				require.NoError(t, err)
				faults.Release(t, faults.Take(t, m, "a"))
				require.NoError(t, m.Close(faults.Patient(t)))
				return
			}
			require.ErrorIs(t, err, lockmgr.ErrUnavailable)
			var cert *tls.CertificateVerificationError
			require.ErrorAs(t, err, &cert)
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), secret)
			require.Empty(t, p.Commands(), "nothing was said to a server that is not trusted")
		})
	}
}

// A server wants a certificate of the client. The error says what the server said of it.
func TestTLS_ClientCertificateIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ours, theirs := newAuthority(t), newAuthority(t)
	later := time.Now().Add(time.Hour)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for what, tt := range map[string]struct {
			cert  *tls.Certificate
			taken bool
		}{
			"good":              {ours.issue(t, "client", later), true},
			"none":              {&tls.Certificate{}, false},
			"of another author": {theirs.issue(t, "client", later), false},
			"expired":           {ours.issue(t, "client", time.Now().Add(-time.Hour)), false},
		} {
			t.Run(tls.VersionName(version)+" "+what, func(t *testing.T) {
				t.Parallel()
				p := faultproxy.Start(t, s.Addr(), faultproxy.WithTLS(&tls.Config{
					Certificates: []tls.Certificate{*ours.issue(t, host, later)}, MinVersion: version, MaxVersion: version,
					ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ours.roots,
				}))
				opt := tlsClient(p.Addr(), ours)
				opt.Dialer.Timeout = time.Minute // so that it is not the time-out that ends it
				opt.Username, opt.Password = "", ""
				opt.TLSConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					return tt.cert, nil
				}
				m, err := lockmgr.Dial(opt, lockmgr.Options{})
				if tt.taken {
					require.NoError(t, err)
					require.NoError(t, m.Close(faults.Patient(t)))
					return
				}
				require.ErrorIs(t, err, lockmgr.ErrUnavailable)
				require.ErrorContains(t, err, "remote error: tls: ")
				require.ErrorContains(t, err, "does the server want a certificate of the client")
			})
		}
	}
}

// A server of plain text, or a client of it: no hang either.
func TestTLS_OnOneSideOnlyFails(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ours := newAuthority(t)
	p := faultproxy.Start(t, s.Addr(), faultproxy.WithTLS(&tls.Config{Certificates: []tls.Certificate{*ours.issue(t, host, time.Now().Add(time.Hour))}}))
	_, err := lockmgr.Dial(tlsClient(s.Addr(), ours), lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrUnavailable)
	require.NotContains(t, err.Error(), secret)
	opt := hasty(p.Addr()) // the server takes its first words for a handshake
	_, err = lockmgr.Dial(opt, lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrUnavailable)
}

func TestTLS_HandshakeEndsWithTheDialTimeout(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ours := newAuthority(t)
	p := faultproxy.Start(t, s.Addr(), faultproxy.WithTLS(&tls.Config{Certificates: []tls.Certificate{*ours.issue(t, host, time.Now().Add(time.Hour))}}))
	p.StallHandshakes()
	opt := tlsClient(p.Addr(), ours)
	opt.Dialer.Timeout = 200 * time.Millisecond
	opt.ConnWriteTimeout = 10 * faults.Patience // so that it is not this one
	start := time.Now()
	_, err := lockmgr.Dial(opt, lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrUnavailable)
	require.NotContains(t, err.Error(), secret)
	require.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond)
	require.Less(t, time.Since(start), faults.Patience)
}

// A certificate that runs out does no harm to connections that stand. When the next one has to be
// made, holders lose their locks in time, who waits is told, and with a new certificate all goes
// on.
func TestTLS_CertificateExpiresMeanwhile(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ours := newAuthority(t)
	good, expired := ours.issue(t, host, time.Now().Add(time.Hour)), ours.issue(t, host, time.Now().Add(-time.Hour))
	var present atomic.Pointer[tls.Certificate]
	present.Store(good)
	p := faultproxy.Start(t, s.Addr(), faultproxy.WithTLS(&tls.Config{
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return present.Load(), nil },
		SessionTicketsDisabled: true,
	}))
	opt := calm(p.Addr())
	opt.TLSConfig = &tls.Config{RootCAs: ours.roots, ServerName: host}
	seen := faults.NewWitness()
	m := dialBy(t, opt, lockmgr.Options{Lease: lease, CommandTimeout: timeout, Observer: seen.Observe})
	l := take(t, m, "a")
	present.Store(expired)
	for tries := 1; !faults.Reached[lockmgr.EventRenewed](seen, 2, l.Lost()); tries++ {
		require.Less(t, tries, 10) // a busy machine may lose it for other reasons
		l = take(t, m, "a")
	}

	p.Cut()
	// A try that is made while another one dials may end without its reason.
	var cert *tls.CertificateVerificationError
	require.Eventually(t, func() bool {
		_, err := m.TryLock(faults.Patient(t), "b")
		require.ErrorIs(t, err, lockmgr.ErrUnavailable)
		return errors.As(err, &cert)
	}, faults.Patience, 5*time.Millisecond)
	faults.AwaitLost(t, l)
	require.False(t, l.Valid())

	present.Store(good)
	_ = take(t, m, "a").Unlock(faults.Patient(t))
}
