package lockmgr_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Take a lock, do what must not be done twice at once, give it back.
func Example() {
	server, err := miniredis.Run() // in place of a Redis or Valkey server
	if err != nil {
		panic(err)
	}
	defer server.Close()

	ctx := context.Background()
	manager, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{server.Addr()}}, lockmgr.Options{})
	if err != nil {
		panic(err)
	}
	defer manager.Close(ctx)

	lock, err := manager.Lock(ctx, "orders:42")
	if err != nil {
		panic(err)
	}
	fmt.Println("locked:", lock.Name(), lock.Valid())
	if err := lock.Unlock(ctx); err != nil {
		panic(err)
	}
	fmt.Println("valid after Unlock:", lock.Valid())
	// Output:
	// locked: orders:42 true
	// valid after Unlock: false
}

// managerForExample makes a manager as Example does.
func managerForExample() (manager *lockmgr.Manager, done func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	manager, err = lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{server.Addr()}}, lockmgr.Options{})
	if err != nil {
		panic(err)
	}
	return manager, func() {
		if err := manager.Close(context.Background()); err != nil {
			panic(err)
		}
		server.Close()
	}
}

// A program that has a client already can share it with the manager.
func ExampleNew() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, err := rueidis.NewClient(lockmgr.TuneClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}}))
	if err != nil {
		panic(err)
	}
	defer client.Close()

	ctx := context.Background()
	manager, err := lockmgr.New(client, lockmgr.Options{})
	if err != nil {
		panic(err)
	}
	lock, err := manager.Lock(ctx, "orders:42")
	if err != nil {
		panic(err)
	}
	fmt.Println("locked:", lock.Valid())

	// Close gives back what is held, and leaves the client open.
	if err := manager.Close(ctx); err != nil {
		panic(err)
	}
	fmt.Println("why it ended:", lock.Err())
	keys, err := client.Do(ctx, client.B().Exists().Key("orders:42").Build()).AsInt64()
	fmt.Println("keys left:", keys, err)
	// Output:
	// locked: true
	// why it ended: lockmgr: hold "orders:42": manager closed
	// keys left: 0 <nil>
}

// A future can stand in a select beside anything else that may happen.
func ExampleManager_LockAsync() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()
	held, err := manager.Lock(ctx, "orders:42")
	if err != nil {
		panic(err)
	}

	impatient := manager.LockAsync("orders:42")
	patient := manager.LockAsync("orders:42") // next in line
	select {
	case <-impatient.Done():
		fmt.Println("locked")
	case <-time.After(10 * time.Millisecond):
		// Cancel returns true: it withdrew the request, or gave back a lock that was granted
		// meanwhile.
		fmt.Println("gave up:", impatient.Cancel())
	}

	_ = held.Unlock(ctx)
	<-patient.Done()
	lock, err := patient.Result()
	fmt.Println("the next one:", lock.Valid(), err)
	_ = lock.Unlock(ctx)
	// Output:
	// gave up: true
	// the next one: true <nil>
}

// All takes several locks or none: locks that came before the time was over are given back.
func ExampleManager_LockAsync_all() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()
	held, err := manager.Lock(ctx, "green")
	if err != nil {
		panic(err)
	}
	defer held.Unlock(ctx)

	patience, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	giveBack := func(lock *lockmgr.Lock) { lock.UnlockAsync() }
	both := futures.All(giveBack, manager.LockAsync("red"), manager.LockAsync("green"))
	_, err = both.Await(patience)
	fmt.Println(err)

	red, err := manager.Lock(ctx, "red")
	fmt.Println("red is free:", err == nil)
	_ = red.Unlock(ctx)
	// Output:
	// context deadline exceeded
	// red is free: true
}

// Lock waits until its context ends.
func ExampleManager_Lock() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()
	held, err := manager.Lock(ctx, "orders:42")
	if err != nil {
		panic(err)
	}
	defer held.Unlock(ctx)

	patience, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = manager.Lock(patience, "orders:42")
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

func ExampleManager_TryLock() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()
	held, err := manager.TryLock(ctx, "orders:42")
	if err != nil {
		panic(err)
	}
	defer held.Unlock(ctx)

	_, err = manager.TryLock(ctx, "orders:42")
	fmt.Println(err, errors.Is(err, lockmgr.ErrNotAcquired))
	// Output: lockmgr: lock "orders:42": lock not acquired true
}

// The bound belongs to the request: a future that nobody looks at ends too.
func ExampleMaxWait() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()
	held, err := manager.Lock(ctx, "orders:42")
	if err != nil {
		panic(err)
	}
	defer held.Unlock(ctx)

	future := manager.LockAsync("orders:42", lockmgr.MaxWait(10*time.Millisecond))
	<-future.Done()
	_, err = future.Result()
	fmt.Println(errors.Is(err, lockmgr.ErrWaitTimeout), errors.Is(err, lockmgr.ErrNotAcquired))
	var failed *lockmgr.LockError
	fmt.Println(errors.As(err, &failed), failed.Op, failed.Name, failed.Waited >= 10*time.Millisecond)
	// Output:
	// true true
	// true lock orders:42 true
}

// An owner can lock what it holds once more. The lock is free when it has been unlocked as often.
func ExampleAsOwner() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()
	outer, err := manager.Lock(ctx, "orders:42")
	if err != nil {
		panic(err)
	}
	inner, err := manager.Lock(ctx, "orders:42", lockmgr.AsOwner(outer.Owner()))
	if err != nil {
		panic(err)
	}
	_ = inner.Unlock(ctx)
	fmt.Println("after the first Unlock:", inner.Valid(), outer.Valid())
	_ = outer.Unlock(ctx)
	fmt.Println("after the second:", inner.Valid(), outer.Valid())
	// Output:
	// after the first Unlock: false true
	// after the second: false false
}

// Many may read at a time. A writer has the name alone.
func ExampleShared() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()

	first, err := manager.Lock(ctx, "catalog", lockmgr.Shared())
	if err != nil {
		panic(err)
	}
	second, err := manager.Lock(ctx, "catalog", lockmgr.Shared())
	if err != nil {
		panic(err)
	}
	_, err = manager.TryLock(ctx, "catalog", lockmgr.Exclusive())
	fmt.Println("while two read:", errors.Is(err, lockmgr.ErrNotAcquired))

	_ = first.Unlock(ctx)
	_ = second.Unlock(ctx)
	writer, err := manager.TryLock(ctx, "catalog", lockmgr.Exclusive())
	fmt.Println("when nobody reads:", err == nil)
	_ = writer.Unlock(ctx)
	// Output:
	// while two read: true
	// when nobody reads: true
}

// A set is taken as a whole, or not at all.
func ExampleManager_LockAll() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()

	// Read the prices, and write two accounts: all three at once, or none.
	lock, err := manager.LockAll(ctx, lockmgr.Set{Names: []string{"account:1", "account:2"}, Shared: []string{"prices"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = manager.TryLock(ctx, "account:2")
	fmt.Println("free meanwhile:", err == nil)
	fmt.Println("unlocked:", lock.Unlock(ctx) == nil)

	// Output:
	// free meanwhile: false
	// unlocked: true
}

// Permits are a counting semaphore. An operator can give one back by its ID.
func ExamplePermits() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()

	downloads := manager.Permits("downloads", 3) // at most three, in all processes together
	err := downloads.Do(ctx, 1, func(ctx context.Context, l *lockmgr.Lock) error {
		info, err := downloads.Inspect(ctx)
		fmt.Println("free during one:", info.Free)
		return err
	})
	fmt.Println("done:", err == nil)

	// A download that hangs: an operator gives its permit back.
	hangs, err := downloads.Acquire(ctx, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := downloads.Inspect(ctx)
	for _, permit := range info.Taken {
		_, err = downloads.Return(ctx, permit.ID)
	}
	fmt.Println("given back:", err == nil)
	<-hangs.Lost()
	fmt.Println(hangs.Err())

	// Output:
	// free during one: 2
	// done: true
	// given back: true
	// lockmgr: hold "downloads": lease lost: a permit was given back by its ID, or removed
}

// The bound belongs to the hold: a holder that hangs loses its lock in the end, although its
// process lives on.
func ExampleMaxHold() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()
	lock, err := manager.Lock(ctx, "orders:42", lockmgr.MaxHold(50*time.Millisecond))
	if err != nil {
		panic(err)
	}
	<-lock.Lost()
	fmt.Println(lock.Err())
	fmt.Println(errors.Is(lock.Unlock(ctx), lockmgr.ErrLeaseLost))
	// Output:
	// lockmgr: hold "orders:42": lease lost: its MaxHold is over
	// true
}

// Work that takes longer than expected asks for more time. No error means that the lock was held
// when the server was asked.
func ExampleLock_Extend() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()
	lock, err := manager.Lock(ctx, "orders:42", lockmgr.FixedLease(time.Second))
	if err != nil {
		panic(err)
	}
	if err := lock.Extend(ctx, time.Minute); err != nil {
		panic(err)
	}
	fmt.Println(lock.Remaining() > 50*time.Second)
	_ = lock.Unlock(ctx)
	fmt.Println(errors.Is(lock.Extend(ctx, time.Minute), lockmgr.ErrNotHeld))
	// Output:
	// true
	// true
}

// Do unlocks whatever fn returns, and adds the loss of the lock to its error.
func ExampleManager_Do() {
	manager, done := managerForExample()
	defer done()
	err := manager.Do(context.Background(), "orders:42", func(ctx context.Context, lock *lockmgr.Lock) error {
		fmt.Println(lock.Name(), lock.Valid(), ctx.Err())
		return errors.New("no more orders")
	})
	fmt.Println(err)
	// Output:
	// orders:42 true <nil>
	// no more orders
}

// The resource that the lock protects remembers the largest token that it has seen. So it can
// refuse a holder that does not know that it has lost the lock.
func ExampleLock_Token() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()
	var newest int64
	write := func(by string, lock *lockmgr.Lock) {
		if lock.Token() < newest {
			fmt.Printf("%s writes with token %d: refused\n", by, lock.Token())
			return
		}
		newest = lock.Token()
		fmt.Printf("%s writes with token %d\n", by, lock.Token())
	}

	anna, err := manager.Lock(ctx, "orders:42", lockmgr.Fenced())
	if err != nil {
		panic(err)
	}
	write("anna", anna)
	if _, err := manager.ForceUnlock(ctx, "orders:42"); err != nil {
		panic(err)
	}
	ben, err := manager.Lock(ctx, "orders:42", lockmgr.Fenced())
	if err != nil {
		panic(err)
	}
	write("ben", ben)
	write("anna", anna)
	_ = ben.Unlock(ctx)
	// Output:
	// anna writes with token 1
	// ben writes with token 2
	// anna writes with token 1: refused
}

// A holder that works in small pieces checks before each that it has not lost the lock.
func ExampleLock_Lost() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()
	lock, err := manager.Lock(ctx, "orders:42")
	if err != nil {
		panic(err)
	}

	piece := make(chan int, 1)
	piece <- 1
	for {
		select {
		case <-lock.Lost():
			fmt.Println("lost:", errors.Is(lock.Err(), lockmgr.ErrLeaseLost))
			fmt.Println("unlock:", errors.Is(lock.Unlock(ctx), lockmgr.ErrLeaseLost))
			return
		case n := <-piece:
			fmt.Println("piece", n)
			// Somebody else decides that this takes too long.
			if _, err := manager.ForceUnlock(ctx, "orders:42"); err != nil {
				panic(err)
			}
		}
	}
	// Output:
	// piece 1
	// lost: true
	// unlock: true
}

// Work that takes a context ends with the lock. Here the lease is a fixed one, which nothing
// renews.
func ExampleLock_Context() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()
	lock, err := manager.Lock(ctx, "orders:42", lockmgr.FixedLease(50*time.Millisecond))
	if err != nil {
		panic(err)
	}
	query := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	err = query(lock.Context(ctx))
	fmt.Println(errors.Is(err, lockmgr.ErrLeaseLost))
	// Output: true
}

// Inspect reads what Redis knows of a lock, even if another process holds it.
func ExampleManager_Inspect() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()
	lock, err := manager.Lock(ctx, "orders:42", lockmgr.Fenced())
	if err != nil {
		panic(err)
	}
	info, err := manager.Inspect(ctx, "orders:42")
	if err != nil {
		panic(err)
	}
	fmt.Println("held by me:", info.Locked && info.Holders[0].Owner == lock.HolderID())
	fmt.Println("last token:", info.Token, "lease:", info.TTL.Round(time.Second))
	_ = lock.Unlock(ctx)
	info, err = manager.Inspect(ctx, "orders:42")
	fmt.Println("locked:", info.Locked, err)
	// Output:
	// held by me: true
	// last token: 1 lease: 30s
	// locked: false <nil>
}

// An observer sees all that happens in a manager, for metrics and traces.
func ExampleOptions_observer() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	seen := make(chan string, 16)
	manager, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{server.Addr()}}, lockmgr.Options{
		// It runs on a goroutine of its own, and delays no lock.
		Observer: func(ev lockmgr.Event) {
			switch ev := ev.(type) {
			case lockmgr.EventGranted:
				seen <- fmt.Sprintf("granted %s, passed on: %v", ev.Name, ev.Passed)
			case lockmgr.EventUnlocked:
				seen <- "unlocked " + ev.Name
			}
		},
	})
	if err != nil {
		panic(err)
	}

	ctx := context.Background()
	first, err := manager.Lock(ctx, "orders:42")
	if err != nil {
		panic(err)
	}
	second := manager.LockAsync("orders:42")
	_ = first.Unlock(ctx)
	lock, err := second.Await(ctx)
	if err != nil {
		panic(err)
	}
	_ = lock.Unlock(ctx)
	if err := manager.Close(ctx); err != nil {
		panic(err)
	}
	close(seen)
	for s := range seen {
		fmt.Println(s)
	}
	// Output:
	// granted orders:42, passed on: false
	// unlocked orders:42
	// granted orders:42, passed on: true
	// unlocked orders:42
}

// A service connects over TLS as a user that may lock names which begin with "app:". It checks
// these permissions at its start.
func ExampleManager_Check() {
	connect := func(ctx context.Context, password string) (*lockmgr.Manager, error) {
		mgr, err := lockmgr.Dial(rueidis.ClientOption{
			InitAddress: []string{"redis.example.org:6380"},
			Username:    "locker",
			Password:    password,
			TLSConfig:   &tls.Config{ServerName: "redis.example.org", MinVersion: tls.VersionTLS12},
		}, lockmgr.Options{})
		if err != nil {
			return nil, err
		}
		report, err := mgr.Check(ctx, "app:")
		for _, w := range report.Warnings {
			log.Print(w)
		}
		if err != nil {
			return nil, errors.Join(err, mgr.Close(ctx)) // it names the permissions that are missing
		}
		return mgr, nil
	}
	_ = connect
}

// Several processes start the same job at about the same time. It runs once.
func ExampleKeepFor() {
	manager, done := managerForExample()
	defer done()
	for _, process := range []string{"first", "second"} {
		err := manager.Do(context.Background(), "nightly", func(context.Context, *lockmgr.Lock) error {
			fmt.Println("run by the", process)
			return nil
		}, lockmgr.OnlyIfFree(), lockmgr.KeepFor(time.Minute))
		if errors.Is(err, lockmgr.ErrNotAcquired) {
			fmt.Println("not by the", process)
		}
	}
	// Output:
	// run by the first
	// not by the second
}

// A process hands a lock to the next one, and nobody comes in between.
func ExampleTakeOver() {
	manager, done := managerForExample()
	defer done()
	ctx := context.Background()
	first, err := manager.Lock(ctx, "order 7", lockmgr.KeepFor(time.Minute), lockmgr.Fenced())
	if err != nil {
		panic(err)
	}
	holder, token := first.HolderID(), first.Token() // to be sent to the next one
	_ = first.Unlock(ctx)
	_, err = manager.TryLock(ctx, "order 7")
	fmt.Println("others get it:", err == nil)
	next, err := manager.Lock(ctx, "order 7", lockmgr.TakeOver(holder), lockmgr.Fenced())
	if err != nil {
		panic(err)
	}
	fmt.Println("nobody was in between:", next.Token() == token+1)
	_ = next.Unlock(ctx)
	// Output:
	// others get it: false
	// nobody was in between: true
}

func ExampleManager_Lead() {
	manager, done := managerForExample()
	defer done()
	ctx, stop := context.WithCancel(context.Background())
	err := manager.Lead(ctx, "reports", func(ctx context.Context, term int64) error {
		fmt.Println("leads in term", term)
		stop()       // as SIGTERM would
		<-ctx.Done() // or the leadership is lost
		return nil
	})
	fmt.Println(err)
	// Output:
	// leads in term 1
	// <nil>
}
