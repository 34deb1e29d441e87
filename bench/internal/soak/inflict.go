package soak

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
)

const floodMessages = 20_000

// inflict does a fault, and undoes it where that has to be. It blocks as long as the fault lasts,
// or until stop is closed, and returns how many blows there were: none means that there was nobody
// to hit.
func (run *run) inflict(f Fault, stop <-chan struct{}) (int, error) {
	if f.Slot < 0 {
		return run.hitServer(f, stop)
	}
	run.mu.Lock()
	p := run.procs[f.Slot]
	run.mu.Unlock()
	proxy := run.proxies[f.Slot][f.Seed%uint64(len(run.proxies[f.Slot]))]
	heal := func() (int, error) {
		pause(f.For, stop)
		proxy.Heal()
		return 1, nil
	}
	switch f.Kind {
	case "kill":
		return 1, run.replace(f.Slot)
	case "stop":
		run.judge.stopped(p.life)
		if err := p.child.Signal(signalStop); err != nil {
			return 0, err
		}
		pause(f.For, stop)
		err := p.child.Signal(signalCont)
		run.judge.continued(p.life)
		return 1, err
	case "cut":
		n := len(proxy.Conns())
		proxy.Cut()
		return n, nil
	case "lost":
		// One, or one after the other.
		m := scripts.Nth(1 + int(f.Seed%7))
		if f.Seed%3 == 0 {
			m = scripts.Chance(0.02, f.Seed)
		}
		return until(proxy.On(m).LoseReplyAndCut(), f.For, stop), nil
	case "before":
		return until(proxy.On(scripts.Nth(1+int(f.Seed%7))).CutBefore(), f.For, stop), nil
	case "delay":
		// Below the time after which an answer counts for nothing, so that it is believed. What
		// counts from the reply then counts too much.
		by := time.Duration(1+f.Seed%80) * run.Lease / 1000
		chance := 0.05
		if f.Seed%2 == 0 {
			chance = 0.4
		}
		return until(proxy.On(scripts.Chance(chance, f.Seed)).DelayReply(by), f.For, stop), nil
	case "deaf":
		for _, c := range proxy.PubSub() {
			c.Cut()
		}
		return 1 + until(proxy.On(faultproxy.Command("SUBSCRIBE", "SSUBSCRIBE")).CutBefore(), f.For, stop), nil
	case "stall":
		proxy.Stall()
		return heal()
	case "hole":
		proxy.BlackHole()
		return heal()
	case "refuse":
		proxy.Refuse()
		proxy.Cut()
		return heal()
	}
	return 0, fmt.Errorf("soak: nothing does %q", f.Kind)
}

// hitServer does a fault of the server.
func (run *run) hitServer(f Fault, stop <-chan struct{}) (int, error) {
	r := rand.New(rand.NewPCG(f.Seed, 1))
	s := run.fleet.nodes[r.IntN(len(run.fleet.nodes))]
	switch f.Kind {
	case "failover", "migrate", "crash", "hang", "takeover":
		return run.hitCluster(f, r, stop)
	case "freeze":
		if run.Cluster {
			f.For = min(f.For, freezeMost)
		}
		if err := s.Signal(signalStop); err != nil {
			return 0, err
		}
		pause(f.For, stop)
		return 1, s.Signal(signalCont)
	case "restart", "forget":
		s.Kill()
		pause(f.For, stop)
		if f.Kind == "forget" {
			if err := s.forget(); err != nil {
				return 0, err
			}
		}
		return 1, s.restart()
	case "pause":
		mode := "ALL"
		if r.IntN(2) == 0 {
			mode = "WRITE"
		}
		_, err := s.do([]string{"CLIENT", "PAUSE", strconv.Itoa(int(f.For.Milliseconds())), mode})
		pause(f.For, stop)
		return 1, err
	case "killnormal", "killpubsub":
		total := 0
		for _, s := range run.fleet.nodes {
			reply, err := s.do([]string{"CLIENT", "KILL", "TYPE", strings.TrimPrefix(f.Kind, "kill"), "SKIPME", "yes"})
			if err != nil {
				return 0, err
			}
			n, err := strconv.Atoi(reply)
			if err != nil {
				return 0, err
			}
			total += n
		}
		return total, nil
	case "scripts":
		n := 0
		for end := time.Now().Add(f.For); time.Now().Before(end); n++ {
			for _, s := range run.fleet.nodes {
				if _, err := s.do([]string{"SCRIPT", "FLUSH"}); err != nil {
					return n, err
				}
			}
			pause(2*time.Millisecond, stop)
		}
		return n, nil
	case "flood":
		reply, err := s.do(run.flood(r)...)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(reply)
	case "flushall":
		_, err := s.do([]string{"FLUSHALL"})
		return 1, err
	case "del":
		reply, err := s.do([]string{"DEL", lockName(r.IntN(run.Names + permitNames))})
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(reply)
	case "evict":
		_, err := s.do([]string{"CONFIG", "SET", "maxmemory-policy", "allkeys-random"}, []string{"CONFIG", "SET", "maxmemory", "1"})
		pause(f.For, stop)
		_, err2 := s.do([]string{"CONFIG", "SET", "maxmemory", "0"})
		if err2 == nil {
			err2 = run.recount()
		}
		if err == nil {
			err = err2
		}
		return 1, err
	}
	return 0, fmt.Errorf("soak: nothing does %q", f.Kind)
}

// recount sets the counters of permits by what is taken, and wakes those who wait. Otherwise
// permits that the server evicted would be missing for ever.
func (run *run) recount() error {
	const script = `local free = ARGV[1] - redis.call('ZCARD', KEYS[2])
redis.call('SET', KEYS[1], free)
return redis.call('PUBLISH', KEYS[3], free)`
	for name := run.Names; name < run.Names+permitNames; name++ {
		keys := append(permitKeys(name), permitChannel(name))
		s, err := run.fleet.of(lockName(name))
		if err != nil {
			return err
		}
		if _, err := s.do(slices.Concat([]string{"EVAL", script, strconv.Itoa(len(keys))}, keys, []string{strconv.Itoa(permitLimit)})); err != nil {
			return err
		}
	}
	return nil
}

func permitChannel(name int) string { return "redisson_sc:" + lockName(name) }

// flood makes scripts that publish wake-ups for nothing on all channels. Some hundred of the
// messages are garbage, up to 64 KB of it.
func (run *run) flood(r *rand.Rand) [][]string {
	const script = `local n = 0
for i = 1, tonumber(ARGV[1]) do
  local message = '0'
  if i % 97 == 0 then message = ARGV[2] end
  redis.call('PUBLISH', KEYS[1 + i % #KEYS], message)
  n = n + 1
end
return n + tonumber(ARGV[3])`
	channels := make([]string, run.Names+permitNames)
	for i := range channels {
		channels[i] = "redisson_lock__channel:" + lockName(i)
		if i >= run.Names {
			channels[i] = permitChannel(i)
		}
	}
	var out [][]string
	const portion = 500 // so that the server is not busy for long
	for sent := 0; sent < floodMessages; sent += portion {
		garbage := make([]byte, 1+r.IntN(1<<uint(r.IntN(17))))
		for i := range garbage {
			garbage[i] = byte(r.Uint32())
		}
		out = append(out, slices.Concat([]string{"EVAL", script, strconv.Itoa(len(channels))}, channels,
			[]string{strconv.Itoa(portion), string(garbage), strconv.Itoa(sent)}))
	}
	return out
}
