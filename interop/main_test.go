package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// envChild makes the test binary a child that waits for a lock or permits, and holds them until it
// is killed. Its value is a childTask.
const envChild = "HOLDFAST_INTEROP_CHILD"

type childTask struct {
	Addr, Name string
	Lease      time.Duration
	Kind       string // of a lock: see goOptions
	Permits    int    // that many permits, which are all there are
}

func TestMain(m *testing.M) {
	if task := os.Getenv(envChild); task != "" {
		if err := beChild(task); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	redistest.Parallel(16) // few tests are parallel, and those wait most of the time
	code := m.Run()
	for _, w := range worlds {
		w.stop()
	}
	os.Exit(code)
}

// beChild takes the lock, says so, and holds it until standard input ends.
func beChild(text string) error {
	var task childTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{task.Addr}}, withLease(task.Lease))
	if err != nil {
		return err
	}
	var l *lockmgr.Lock
	if task.Permits > 0 {
		l, err = m.Permits(task.Name, task.Permits).Acquire(background, task.Permits)
	} else {
		l, err = m.Lock(background, task.Name, goOptions[task.Kind]...)
	}
	if err != nil {
		return err
	}
	fmt.Println(l.HolderID())
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	return m.Close(background)
}

// startChild starts a Go process that holds a lock. It returns when that has it.
func startChild(t *testing.T, task childTask) *process {
	t.Helper()
	p, holder := startWaitingChild(t, task)
	select {
	case <-holder:
	case <-p.ended:
		t.Fatalf("the child ended:\n%s", p.stderr)
	case <-time.After(answerTimeout):
		t.Fatalf("the child does not get its lock:\n%s", p.stderr)
	}
	return p
}

// startWaitingChild starts a Go process that waits for a lock. The channel has the holder ID when
// it has the lock.
func startWaitingChild(t *testing.T, task childTask) (p *process, holder <-chan string) {
	t.Helper()
	text := redistest.Must(json.Marshal(task))(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+string(text))
	lines := make(chan string, 16)
	p = redistest.Must(spawn(cmd, func(line string) { lines <- line }))(t)
	t.Cleanup(p.kill)
	return p, lines
}
