package client

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// holderEnv makes the test binary a process that holds locks, on the server at this address.
const holderEnv = "HOLDFAST_TEST_HOLDER"

// stoppedLease is both the watched and the fixed lease of that process.
const stoppedLease = 600 * time.Millisecond

// beHolder takes two locks, says so, and looks at them all the time. When it finds that it stood
// still for longer than a lease, it says what the first look after that has shown, and what became
// of an unlock.
func beHolder() {
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{os.Getenv(holderEnv)}}, lockmgr.Options{Lease: stoppedLease, CommandTimeout: stoppedLease / 4})
	orExit(err)
	watched, err1 := m.Lock(ctx, "watched")
	fixed, err2 := m.Lock(ctx, "fixed", lockmgr.FixedLease(stoppedLease))
	orExit(errors.Join(err1, err2))
	locks := []*lockmgr.Lock{watched, fixed}
	last := time.Now()
	fmt.Println("holding") // it may be stopped from here on
	for i := 0; ; i++ {
		l := locks[i%2]
		begun := time.Now()
		valid := l.Valid()
		ended := time.Now()
		if begun.Sub(last) < stoppedLease { // it may have been stopped within the look, though
			last = begun
			if ended.Sub(begun) >= stoppedLease {
				last = time.Time{} // then the next look is the first
			}
			continue
		}
		fmt.Printf("%s valid=%v\n", l.Name(), valid)
		other := locks[(i+1)%2]
		fmt.Printf("%s valid=%v\n", other.Name(), other.Valid())
		break
	}
	fmt.Println("unlocking")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil { // when the server is back
		os.Exit(1)
	}
	for _, l := range locks {
		fmt.Printf("%s lost=%v\n", l.Name(), errors.Is(l.Unlock(ctx), lockmgr.ErrLeaseLost))
	}
	orExit(m.Close(ctx))
	os.Exit(0)
}

// orExit ends a process that can't go on.
func orExit(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
