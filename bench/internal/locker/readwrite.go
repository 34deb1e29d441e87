package locker

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// sided are the ways to read and write. They are in no other table.
var sided = []Candidate{
	{
		Name: "Shared and Exclusive", Kind: ReadWrite, NeedsServer: true,
		About: "holdfast's read-write lock: the readers of a process share a hold in Redis",
		Open:  openSided([]lockmgr.LockOption{lockmgr.Shared()}, []lockmgr.LockOption{lockmgr.Exclusive()}),
	},
	{
		Name: "plain lock for all", Kind: ReadWrite, NeedsServer: true,
		About: "holdfast's plain lock, which one reader has at a time",
		Open:  openSided(nil, nil),
	},
	{
		Name: "one hold a reader", Kind: ReadWrite, NeedsServer: true,
		About: "the scripts of the read-write lock, but each reader has a hold of its own and sends its own commands, as in Redisson",
		Open:  openSingly,
	},
}

func openSided(read, write []lockmgr.LockOption) func(context.Context, Config) (Locker, error) {
	return func(ctx context.Context, c Config) (Locker, error) {
		l, err := holdfast.Open(ctx, c)
		if err != nil {
			return nil, err
		}
		return managerSides{l.(manager), read, write}, nil
	}
}

type managerSides struct {
	manager
	read, write []lockmgr.LockOption
}

func (m managerSides) Lock(ctx context.Context, name string) (Held, error) { return m.Write(ctx, name) }

func (m managerSides) Read(ctx context.Context, name string) (Held, error) {
	return m.side(ctx, name, m.read)
}

func (m managerSides) Write(ctx context.Context, name string) (Held, error) {
	return m.side(ctx, name, m.write)
}

func (m managerSides) side(ctx context.Context, name string, options []lockmgr.LockOption) (Held, error) {
	l, err := m.Manager.Lock(ctx, name, options...)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// singly waits as direct does. A release of the write side lets all who wait try, one
// of the read side lets one of them.
type singly struct{ *direct }

func openSingly(ctx context.Context, c Config) (Locker, error) {
	r, err := openRaw(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := r.load(ctx, map[string]*string{script.Text("readwrite_acquire"): &r.acquire, script.Text("readwrite_release"): &r.release}); err != nil {
		return nil, err
	}
	s := singly{&direct{raw: r, names: map[string]*joint{}, channel: func(name string) string { return "redisson_rwlock:{" + name + "}" }, all: "1"}}
	s.listen()
	return s, nil
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
		c := s.client.B().Evalsha().Sha1(s.acquire).Numkeys(1).Key(name).Arg(side, s.lease, "0", h.owner, "{"+name+"}").Build()
		ttl, err := s.client.Do(ctx, c).AsInt64()
		if rueidis.IsRedisNil(err) {
			return true, 0, nil
		}
		return false, time.Duration(ttl) * time.Millisecond, err
	})
}

type singlyHeld struct {
	singly      singly
	name, owner string
}

func (h *singlyHeld) Unlock(ctx context.Context) error {
	s := h.singly
	return s.client.Do(ctx, s.client.B().Evalsha().Sha1(s.release).Numkeys(1).Key(h.name).Arg(h.owner, "{"+h.name+"}", s.channel(h.name)).Build()).Error()
}
