package soak

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Leftovers are what is there when all workers have come to rest.
type Leftovers struct {
	Keys          []string // other than counters, and the keys of permits
	Permits       []string // names of which not all permits are free
	Channels      []string
	Connections   []string
	Goroutines    int    // in all workers
	Stuck         int    // requests that did not end
	Problem       string // why this is not known
	AfterLongest  time.Duration
	goroutineText string
}

// left looks at the server until nothing is left, or the longest lease is over: what a killed
// process held may stay for so long.
func (run *run) left() Leftovers {
	var l Leftovers
	longest := run.Lease + 20*time.Millisecond // of fixed leases
	began := time.Now()
	for {
		problem := run.probe(&l)
		l.AfterLongest = time.Since(began)
		if problem == nil && len(l.Keys)+len(l.Permits)+len(l.Channels)+len(l.Connections) == 0 {
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
	ask := func(s *redisServer, args ...string) ([]string, error) {
		text, err := s.do(append([]string{"EVAL", list, "0"}, args...))
		if err != nil || text == "" {
			return nil, err
		}
		return strings.Split(text, "\n"), nil
	}
	masters, _ := run.fleet.masters()
	var keys, known []string
	for _, s := range masters {
		own, err := ask(s, "KEYS", "*")
		if err != nil {
			return err
		}
		keys = append(keys, own...)
	}
	if len(masters) == 0 {
		return errors.New("no server is a master")
	}
	l.Permits = nil
	for name := run.Names; name < run.Names+permitNames; name++ {
		known = append(known, permitKeys(name)...)
		problem, err := run.probePermits(name)
		if err != nil {
			return err
		}
		if problem != "" {
			l.Permits = append(l.Permits, problem)
		}
	}
	l.Keys = nil
	for _, k := range keys {
		// A worker that was killed, or whose server was away, leaves the record of its process
		// until the TTL of that ends.
		process := strings.HasPrefix(k, "holdfast:manager:")
		if !strings.HasPrefix(k, "redisson_lock_token:") && !process && !queueKey(k) && !slices.Contains(known, k) {
			l.Keys = append(l.Keys, k)
		}
	}
	l.Channels, l.Connections = nil, nil
	for _, s := range run.fleet.nodes {
		for _, kind := range []string{"CHANNELS", "SHARDCHANNELS"} {
			channels, err := ask(s, "PUBSUB", kind)
			if err != nil {
				return err
			}
			l.Channels = append(l.Channels, channels...)
		}
		text, err := s.do([]string{"CLIENT", "LIST"})
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		l.Connections = append(l.Connections, slices.DeleteFunc(lines, ofServers)...)
	}
	return nil
}

// ofServers reports whether a line of CLIENT LIST is about the connection that asks, or one between
// nodes: replicas have one, and a node keeps one to where it has moved keys.
func ofServers(line string) bool {
	for _, mark := range []string{" cmd=client", " flags=S ", " flags=M ", " cmd=restore"} {
		if strings.Contains(line, mark) {
			return true
		}
	}
	return false
}

// queueKey reports whether a key is one of the queue of a fair lock. The places of a killed process
// stay there until somebody asks for the lock.
func queueKey(key string) bool {
	return strings.HasPrefix(key, "redisson_lock_queue:") || strings.HasPrefix(key, "redisson_lock_timeout:")
}

// permitKeys are the keys of permits that may stay: the counter of those that are free, and those
// that are taken. What a killed process had taken is there until the next request removes it.
func permitKeys(name int) []string {
	return []string{lockName(name), lockName(name) + ":timeout"}
}

// probePermits asks the server for the permits of a name. It returns what is wrong with them, or
// nothing if all are free.
func (run *run) probePermits(name int) (string, error) {
	const script = `local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
return (redis.call('GET', KEYS[1]) or 'none') .. ' ' .. redis.call('ZCARD', KEYS[2]) .. ' ' .. redis.call('ZCOUNT', KEYS[2], '(' .. now, '+inf')`
	s, err := run.fleet.of(lockName(name))
	if err != nil {
		return "", err
	}
	text, err := s.do(append([]string{"EVAL", script, "2"}, permitKeys(name)...))
	if err != nil {
		return "", err
	}
	found := strings.Fields(text)
	if len(found) != 3 {
		return "", fmt.Errorf("an answer of %q", text)
	}
	taken, _ := strconv.Atoi(found[1])
	free, err := strconv.Atoi(found[0])
	switch {
	case found[2] != "0":
	case err == nil && free+taken == permitLimit:
		return "", nil
	case found[0] == "none" && taken == 0 && !run.expectsCounter(name):
		return "", nil
	}
	return fmt.Sprintf("%s: counter %s, %s taken, %s of them not expired; there are %d", lockName(name), found[0], found[1], found[2], permitLimit), nil
}

// expectsCounter reports whether the server must know how many permits there are of a name:
// somebody had one, and the server was not made to forget.
func (run *run) expectsCounter(name int) bool {
	j := run.judge
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.breaking && j.permits.Has(uint32(name))
}
