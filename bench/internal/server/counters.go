package server

import (
	"strconv"
	"strings"
	"time"
)

// Counters are what the server counted between two moments.
type Counters struct {
	Calls   map[string]float64 // by command, those inside scripts too
	In, Out float64            // bytes
	CPU     time.Duration      // user and system
	Clients float64            // connections, at the end
}

// A Snapshot is where the counters stood at one moment.
type Snapshot struct {
	at             Counters
	sent, received int
}

// Snapshot reads the counters.
func (c *Conn) Snapshot() (Snapshot, error) {
	text, err := c.Do("INFO", "everything")
	if err != nil {
		return Snapshot{}, err
	}
	f := fields(text)
	num := func(key string) float64 {
		x, _ := strconv.ParseFloat(f[key], 64)
		return x
	}
	var s Snapshot
	s.sent, s.received = c.Traffic()
	s.at = Counters{
		Calls: map[string]float64{},
		In:    num("total_net_input_bytes"), Out: num("total_net_output_bytes"),
		CPU:     time.Duration((num("used_cpu_sys") + num("used_cpu_user")) * float64(time.Second)),
		Clients: num("connected_clients"),
	}
	for key, value := range f {
		name, ok := strings.CutPrefix(key, "cmdstat_")
		if !ok {
			continue
		}
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		if n, err := strconv.ParseFloat(calls, 64); err == nil {
			s.at.Calls[strings.ToLower(name)] = n
		}
	}
	return s, nil
}

// Since returns what was counted between two snapshots, less what reading them cost.
func (s Snapshot) Since(before Snapshot) Counters {
	d := Counters{
		Calls: map[string]float64{}, Clients: s.at.Clients, CPU: s.at.CPU - before.at.CPU,
		// The first reply was not yet counted in it, the second request is.
		In:  s.at.In - before.at.In - float64(s.sent),
		Out: s.at.Out - before.at.Out - float64(before.received),
	}
	for name, n := range s.at.Calls {
		if n -= before.at.Calls[name]; n != 0 && name != "info" {
			d.Calls[name] = n
		}
	}
	return d
}

// fromClients are the commands that come from clients only: no script that is measured here calls
// them. What a script calls is the server's own business, and is not on the wire.
var fromClients = map[string]bool{
	"evalsha": true, "eval": true, "fcall": true, "ping": true, "hello": true,
	"subscribe": true, "unsubscribe": true, "ssubscribe": true, "sunsubscribe": true,
	"script|load": true, "auth": true, "select": true,
	"client|tracking": true, "client|setinfo": true, "client|setname": true, "client|id": true, "client|no-evict": true, "client|caching": true,
	"command": true, "quit": true, "cluster|slots": true,
}

// Commands is how many commands clients sent, pings aside. Extra names more of them that this
// client sends itself and no script of its own calls.
func (c Counters) Commands(extra ...string) float64 {
	var n float64
	for name, calls := range c.Calls {
		if name != "ping" && fromClients[name] {
			n += calls
		}
	}
	for _, name := range extra {
		n += c.Calls[name]
	}
	return n
}

func fields(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok {
			out[key] = value
		}
	}
	return out
}
