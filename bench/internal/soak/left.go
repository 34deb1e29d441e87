package soak

import (
	"fmt"
	"strings"
	"time"
)

// Leftovers are what is there when all workers have come to rest.
type Leftovers struct {
	Keys          []string // other than token counters
	Channels      []string
	Connections   []string
	Goroutines    int    // in all workers
	Stuck         int    // requests that did not end
	Problem       string // why this is not known
	AfterLongest  time.Duration
	goroutineText string
}

// left looks at the server until nothing is left, or the longest lease is over:
// what a killed process held may stay for so long.
func (run *run) left() Leftovers {
	var l Leftovers
	longest := run.Lease + 20*time.Millisecond // of fixed leases
	began := time.Now()
	for {
		problem := run.probe(&l)
		l.AfterLongest = time.Since(began)
		if problem == nil && len(l.Keys)+len(l.Channels)+len(l.Connections) == 0 {
			break
		}
		if time.Since(began) > longest+time.Second {
			if problem != nil {
				l.Problem = problem.Error()
			}
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	for _, p := range run.procs {
		w := p.report.words
		if w == nil {
			continue // which is a violation already
		}
		l.Stuck += w.Stuck
		if w.After > w.Before {
			l.Goroutines += w.After - w.Before
		}
		if w.Stuck > 0 || w.After > w.Before {
			l.goroutineText += fmt.Sprintf("process %d:\n%s\n", p.life, w.Stacks)
		}
		if w.Close != "" {
			run.judge.fault("process %d: %s", p.life, w.Close)
		}
	}
	return l
}

// probe asks the server.
func (run *run) probe(l *Leftovers) error {
	const list = `return table.concat(redis.call(unpack(ARGV)), '\n')`
	ask := func(args ...string) ([]string, error) {
		text, err := run.server.do(append([]string{"EVAL", list, "0"}, args...))
		if err != nil || text == "" {
			return nil, err
		}
		return strings.Split(text, "\n"), nil
	}
	keys, err := ask("KEYS", "*")
	if err != nil {
		return err
	}
	l.Keys = nil
	for _, k := range keys {
		if !strings.HasPrefix(k, "redisson_lock_token:") {
			l.Keys = append(l.Keys, k)
		}
	}
	if l.Channels, err = ask("PUBSUB", "CHANNELS"); err != nil {
		return err
	}
	text, err := run.server.do([]string{"CLIENT", "LIST"})
	if err != nil {
		return err
	}
	l.Connections = strings.Split(strings.TrimSpace(text), "\n")[1:] // the first is this one, or as good as that
	return nil
}
