package locker

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr"
)

var holdfast = Candidate{
	Name: "holdfast", Kind: Holdfast, NeedsServer: true,
	About: "lockmgr.Dial with the default options",
	Open: func(_ context.Context, c Config) (Locker, error) {
		m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{c.Addr}, Username: c.User, Password: c.User}, lockmgr.Options{Lease: c.Lease})
		if err != nil {
			return nil, err
		}
		return manager{m}, nil
	},
}

type manager struct{ *lockmgr.Manager }

// onManager opens a candidate that asks holdfast in another way.
func onManager(with func(manager) Locker) func(context.Context, Config) (Locker, error) {
	return func(ctx context.Context, c Config) (Locker, error) {
		m, err := holdfast.Open(ctx, c)
		if err != nil {
			return nil, err
		}
		return with(m.(manager)), nil
	}
}

func (m manager) Lock(ctx context.Context, name string) (Held, error) { return m.lock(ctx, name) }

func (m manager) lock(ctx context.Context, name string, options ...lockmgr.LockOption) (Held, error) {
	l, err := m.Manager.Lock(ctx, name, options...)
	if err != nil {
		return nil, err // not l: a nil *Lock in an interface is not nil
	}
	return l, nil
}

func (m manager) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = m.Manager.Close(ctx)
}
