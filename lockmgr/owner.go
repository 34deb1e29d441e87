package lockmgr

import (
	"context"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// An Owner identifies the holder of a lock, as a thread does in Redisson. Requests of an owner for
// a lock that the owner holds are granted at once and counted (reentry). Every request gets an
// owner of its own unless AsOwner or WithOwner names an owner.
//
// Owners are made by [Manager.NewOwner], belong to the manager and compare with ==. The zero Owner
// is not valid.
type Owner struct {
	of *identity
	n  uint64
}

// String returns "<manager uuid>/<number>". The text does not occur in Redis, where each hold has
// an ID of its own: see [Lock.HolderID].
func (o Owner) String() string {
	if o.of == nil {
		return "no owner"
	}
	return o.of.uuid + "/" + strconv.FormatUint(o.n, 10)
}

// identity names a manager. The UUID is random and of version 8. The UUIDs of Redisson's clients
// are of version 4. So a script for a fair lock can tell a plain lock of holdfast: see
// internal/script/fair.lua.
//
// secret is random, too. Only the manager and the server know the secret: see [core.Grant].
type identity struct{ uuid, secret string }

func newIdentity() *identity {
	id := uuid.New()
	id[6] = id[6]&0x0f | 0x80
	return &identity{id.String(), strings.ReplaceAll(uuid.NewString(), "-", "")}
}

// holder returns the field of a hold in the record: see [Lock.HolderID].
func (id *identity) holder(h *core.Hold) string { return id.holderID(h.Request.Kind, h.Number) }

// holderID returns the holder ID with a number, for a kind of lock.
func (id *identity) holderID(k core.Kind, n uint64) string {
	if k == core.Fair {
		return wire.FairHolderID(id.uuid, n)
	}
	return wire.HolderID(id.uuid, n)
}

type ownerKey struct{}

// WithOwner returns a context under which the methods that lock act for an owner. An AsOwner option
// takes precedence.
func WithOwner(ctx context.Context, o Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, o)
}

// WithoutOwner returns a context without the owner that WithOwner has given ctx, for a caller who
// counts on nobody else having the lock, also within the process.
func WithoutOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, nil)
}

func ownerFrom(ctx context.Context) (Owner, bool) {
	o, ok := ctx.Value(ownerKey{}).(Owner)
	return o, ok
}
