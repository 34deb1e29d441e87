// Package certmagic gives any storage of certmagic the locks of holdfast, so that of several
// processes one obtains or renews a certificate.
//
//	storage := holdfastcertmagic.Wrap(files, mgr, holdfastcertmagic.Options{Prefix: "tls:"})
//	config := certmagic.New(cache, certmagic.Config{Storage: storage})
//
// The name of a lock is Options.Prefix and the name that certmagic gives it. The manager renews the
// lock until certmagic unlocks it. If the process dies, the lock is free after
// lockmgr.Options.Lease.
//
// certmagic is not told that a lock was lost before it unlocks it. Unlock then returns an error
// that matches lockmgr.ErrLeaseLost.
package certmagic

import (
	"context"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// Options say how a [Locker] names its locks. The zero value is valid.
type Options struct {
	// Prefix begins the name of each lock. Default: nothing.
	Prefix string
}

// A Storage is a storage of certmagic whose locks are those of a [Locker].
type Storage struct {
	certmagic.Storage
	*Locker
}

// Lock calls [Locker.Lock], not that of the wrapped storage.
func (s Storage) Lock(ctx context.Context, name string) error { return s.Locker.Lock(ctx, name) }

// Unlock calls [Locker.Unlock], not that of the wrapped storage.
func (s Storage) Unlock(ctx context.Context, name string) error { return s.Locker.Unlock(ctx, name) }

var (
	_ certmagic.Storage          = Storage{}
	_ certmagic.TryLocker        = Storage{}
	_ certmagic.LockLeaseRenewer = Storage{}
)

// Wrap returns a storage that keeps its data in s and takes its locks from m. It does no I/O. Close
// m when certmagic has ended.
func Wrap(s certmagic.Storage, m *lockmgr.Manager, options Options) Storage {
	return Storage{Storage: s, Locker: NewLocker(m, options)}
}
