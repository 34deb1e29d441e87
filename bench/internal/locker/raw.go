package locker

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// files has the scripts that holdfast does not have.
//
//go:embed script/*.lua
var files embed.FS

// ownScript returns the text of a script that holdfast does not have.
func ownScript(name string) string {
	text, err := files.ReadFile("script/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

const rawLease = 30 * time.Second

// raw sends scripts without any client in between but rueidis, which is set up as for holdfast.
type raw struct {
	client                     rueidis.Client
	acquire, release, transfer string // hashes
	lease                      string // in milliseconds
	owner                      string // without the number
	last                       atomic.Uint64
}

func openRaw(ctx context.Context, c Config) (*raw, error) { return dialRaw(ctx, c, false) }

// dialRaw returns a client with holdfast's scripts. With apart each call has a connection that its
// caller writes and reads: no goroutine is woken on the way.
func dialRaw(ctx context.Context, c Config, apart bool) (*raw, error) {
	opt := lockmgr.TuneClient(rueidis.ClientOption{InitAddress: []string{c.Addr}})
	if apart {
		opt.AlwaysPipelining, opt.DisableAutoPipelining = false, true
	}
	client, err := rueidis.NewClient(opt)
	if err != nil {
		return nil, err
	}
	r := &raw{client: client, lease: strconv.FormatInt(cmp.Or(c.Lease, rawLease).Milliseconds(), 10)}
	// As long as a manager's, and different in each process.
	r.owner = strconv.FormatUint(rand.Uint64()|1<<63, 16) + "-raw-raw-raw-raw-raw:"
	// With holdfast's work on the server, a difference between candidates is one of waking.
	err = r.load(ctx, map[string]*string{script.Text("acquire"): &r.acquire, script.Text("release"): &r.release, script.Text("transfer"): &r.transfer})
	return r, err
}

// onRaw opens a candidate that sends its own commands, over one connection or apart.
func onRaw(apart bool, with func(*raw, Config) Locker) func(context.Context, Config) (Locker, error) {
	return func(ctx context.Context, c Config) (Locker, error) {
		r, err := dialRaw(ctx, c, apart)
		if err != nil {
			return nil, err
		}
		return with(r, c), nil
	}
}

// load loads scripts and sets their hashes. After an error r is closed.
func (r *raw) load(ctx context.Context, scripts map[string]*string) (err error) {
	for text, sha := range scripts {
		if *sha, err = r.client.Do(ctx, r.client.B().ScriptLoad().Script(text).Build()).ToString(); err != nil {
			r.client.Close()
			return err
		}
	}
	return nil
}

func (r *raw) newOwner() string { return r.owner + strconv.FormatUint(r.last.Add(1), 10) }

func channelOf(name string) string { return "redisson_lock__channel:{" + name + "}" }

func (r *raw) acquireCmd(name, owner string) rueidis.Completed {
	return r.client.B().Evalsha().Sha1(r.acquire).Numkeys(1).Key(name).Arg(r.lease, "0", "", owner).Build()
}

func (r *raw) releaseCmd(name, owner string) rueidis.Completed {
	return r.client.B().Evalsha().Sha1(r.release).Numkeys(1).Key(name).Arg("", owner, channelOf(name)).Build()
}

func (r *raw) transferCmd(name, from, to string) rueidis.Completed {
	return r.client.B().Evalsha().Sha1(r.transfer).Numkeys(1).Key(name).Arg(r.lease, "0", to, from, channelOf(name)).Build()
}

// try takes a lock if it is free. If not, it returns the remaining life of the record.
func (r *raw) try(ctx context.Context, name, owner string) (bool, time.Duration, error) {
	return granted(r.client.Do(ctx, r.acquireCmd(name, owner)))
}

// granted reads the reply of a script that acquires: nil, or the remaining life of the record.
func granted(reply rueidis.RedisResult) (bool, time.Duration, error) {
	ttl, err := reply.AsInt64()
	if rueidis.IsRedisNil(err) {
		return true, 0, nil
	}
	return false, time.Duration(ttl) * time.Millisecond, err
}

// gaveBack reads the reply of a script that gives back: 1 if the owner held.
func gaveBack(reply rueidis.RedisResult) error {
	n, err := reply.AsInt64()
	if rueidis.IsRedisNil(err) || err == nil && n != 1 {
		return errNotHeld
	}
	return err
}

var errNotHeld = errors.New("nothing was held")

// Close ends the client.
func (r *raw) Close() { r.client.Close() }

type rawHeld struct {
	raw         *raw
	name, owner string
}

func (h *rawHeld) Unlock(ctx context.Context) error {
	return h.raw.client.Do(ctx, h.raw.releaseCmd(h.name, h.owner)).Error()
}

// lockedRand is a seeded source for many goroutines.
type lockedRand struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newRand(seed uint64) *lockedRand { return &lockedRand{r: rand.New(rand.NewPCG(seed, 17))} }

func (l *lockedRand) between(low, high time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return low + time.Duration(l.r.Int64N(int64(high-low)))
}
