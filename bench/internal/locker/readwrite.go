package locker

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// sided are other ways to read and write. They are in no other table.
var sided = []Candidate{{
	Name: "plain lock for all", Kind: ReadWrite, NeedsServer: true,
	About: "holdfast's plain lock, which one reader has at a time",
	Open:  onManager(func(m manager) Locker { return oneSided{m} }),
}, {
	Name: "one hold a reader", Kind: ReadWrite, NeedsServer: true,
	About: "the scripts of the read-write lock, but each reader has a hold of its own and sends its own commands, and a writer that waits keeps nobody out, as in Redisson",
	Open:  openSingly,
}}

// Read takes the read side of holdfast's read-write lock.
func (m manager) Read(ctx context.Context, name string) (Held, error) {
	return m.lock(ctx, name, lockmgr.Shared())
}

// Write takes the write side of holdfast's read-write lock.
func (m manager) Write(ctx context.Context, name string) (Held, error) {
	return m.lock(ctx, name, lockmgr.Exclusive())
}

// oneSided is a client of the plain lock.
type oneSided struct{ manager }

func (m oneSided) Read(ctx context.Context, name string) (Held, error)  { return m.Lock(ctx, name) }
func (m oneSided) Write(ctx context.Context, name string) (Held, error) { return m.Lock(ctx, name) }

// singly waits as direct does. A release of the write side lets all who wait try, one of the read
// side lets one of them.
type singly struct{ *direct }

func openSingly(ctx context.Context, c Config) (Locker, error) {
	s := singly{&direct{channel: func(name string) string { return "redisson_rwlock:{" + name + "}" }, all: "01"}}
	return s, s.open(ctx, c, script.Text("readwrite_acquire"), script.Text("readwrite_release"))
}

func (s singly) Lock(ctx context.Context, name string) (Held, error) { return s.Write(ctx, name) }

func (s singly) Read(ctx context.Context, name string) (Held, error) {
	return s.side(ctx, name, "read")
}

func (s singly) Write(ctx context.Context, name string) (Held, error) {
	return s.side(ctx, name, "write")
}

func (s singly) side(ctx context.Context, name, side string) (Held, error) {
	h := &singlyHeld{s, name, s.newOwner()}
	return h, s.wait(ctx, name, func() (bool, time.Duration, error) {
		c := s.client.B().Evalsha().Sha1(s.acquire).Numkeys(1).Key(name).Arg(side, s.lease, "0", "", "{"+name+"}", h.owner).Build()
		return granted(s.client.Do(ctx, c))
	})
}

type singlyHeld struct {
	singly      singly
	name, owner string
}

func (h *singlyHeld) Unlock(ctx context.Context) error {
	s := h.singly
	return s.client.Do(ctx, s.client.B().Evalsha().Sha1(s.release).Numkeys(1).Key(h.name).Arg("", "{"+h.name+"}", h.owner, s.channel(h.name)).Build()).Error()
}
