package clientsim

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// A trace stores the last events. It formats them only when it is printed, so their arguments must
// not change afterwards.
type trace struct {
	began time.Time
	out   io.Writer // gets each line at once; may be nil

	mu    sync.Mutex
	ring  [400]line
	n     int
	until time.Duration
}

type line struct {
	at     time.Duration
	format string
	args   []any
}

func (l *line) String() string {
	return fmt.Sprintf("%14.6fs ", l.at.Seconds()) + fmt.Sprintf(l.format, l.args...)
}

func (t *trace) add(format string, args []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = time.Since(t.began)
	l := line{t.until, format, args}
	if t.out != nil {
		fmt.Fprintln(t.out, l.String())
	}
	t.ring[t.n%len(t.ring)] = l
	t.n++
}

func (t *trace) lines() (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := max(0, t.n-len(t.ring)); i < t.n; i++ {
		out = append(out, t.ring[i%len(t.ring)].String())
	}
	return out
}

func (t *trace) last() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until
}
