package clientsim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/luaserver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// A server runs one command at a time, in no time. All of it is guarded by the mutex of its
// network.
type server struct {
	keys        keyspace
	known       map[string]*luaserver.Script // by SHA-1
	subscribers map[string][]*conn           // by channel
	memory      luaserver.Memory
	filled      int       // how many faults have filled the memory
	stopped     int       // how many faults have stopped it
	stoppedAt   time.Time // by the first of them
	backlog     []arrival // what came meanwhile
	commands    int

	w      *world
	index  int
	trails map[string]*trail // by holder ID

	replicas []*replica
	outages  []outage
	offset   int64              // how much was written
	touched  map[string]bool    // keys that the present command has changed
	failed   []time.Time        // when a replica took the place of the master
	apart    map[*host]keyspace // of a server that cheats
}

// An arrival is one command, or the end of a connection if args is nil.
type arrival struct {
	from *conn
	args []string
}

func newServer(w *world, index int) *server {
	s := &server{
		w: w, index: index, keys: w.newKeyspace(), known: make(map[string]*luaserver.Script), trails: make(map[string]*trail),
		subscribers: make(map[string][]*conn), apart: make(map[*host]keyspace),
	}
	for range w.set.replicas {
		s.replicas = append(s.replicas, &replica{keys: w.newKeyspace()})
	}
	return s
}

// arrive takes a command in.
func (s *server) arrive(a arrival) {
	if s.stopped > 0 {
		s.backlog = append(s.backlog, a)
		return
	}
	s.serve(a)
}

func (s *server) stop() {
	if s.stopped++; s.stopped == 1 {
		s.stoppedAt = time.Now()
	}
}

// resume ends one stop. The last one lets the backlog run.
func (s *server) resume() {
	if s.stopped--; s.stopped > 0 {
		return
	}
	backlog := s.backlog
	s.w.tracef("server %d runs, %d commands lie there", s.index, len(backlog))
	s.backlog = nil
	for _, a := range backlog {
		s.serve(a)
	}
}

func (s *server) serve(a arrival) {
	if a.args == nil {
		s.hangUp(a.from)
		return
	}
	s.commands++
	a.from.from.ran = time.Now()
	name := ""
	if len(a.args) > 3 && strings.HasPrefix(a.args[0], "EVAL") {
		name = a.args[3]
	}
	if a.from.closed {
		s.w.note(lateCopy, a.from.from, name, 0)
	}
	out := s.command(a.from, a.args)
	s.replicate(a.from)
	if len(out) > 0 {
		a.from.reply(out, name)
	}
}

func (s *server) hangUp(c *conn) {
	for channel := range c.subscribed {
		s.unsubscribe(c, channel)
	}
}

func (s *server) unsubscribe(c *conn, channel string) {
	delete(c.subscribed, channel)
	subs := s.subscribers[channel]
	if i := slices.Index(subs, c); i >= 0 {
		subs = slices.Delete(subs, i, i+1)
	}
	if s.subscribers[channel] = subs; len(subs) == 0 {
		delete(s.subscribers, channel)
	}
}

// command returns the bytes of the answer.
func (s *server) command(c *conn, args []string) []byte {
	asking := c.asking
	c.asking = strings.EqualFold(args[0], "ASKING")
	switch name := strings.ToUpper(args[0]); name {
	case "HELLO":
		mode := "$10\r\nstandalone"
		if s.w.set.servers > 1 {
			mode = "$7\r\ncluster"
		}
		return []byte("%5\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n$5\r\nproto\r\n:3\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$4\r\nmode\r\n" + mode + "\r\n")
	case "CLUSTER":
		return resp.Append(nil, s.cluster(args))
	case "WAIT":
		return s.wait(c, args)
	case "CLIENT", "ASKING":
		return resp.Append(nil, status("OK"))
	case "PING":
		return resp.Append(nil, status("PONG"))
	case "SUBSCRIBE", "SSUBSCRIBE":
		if s.w.cheat == unsubscribed {
			return resp.Append(nil, failure("ERR not now"))
		}
		if c.from.mute {
			return resp.Append(nil, failure("NOPERM No permissions to access a channel"))
		}
		if name == "SSUBSCRIBE" {
			if at := s.moved(args[1]); at != nil {
				return resp.Append(nil, at)
			}
		}
		var out []byte
		for _, channel := range args[1:] {
			if !c.subscribed[channel] {
				c.subscribed[channel] = true
				s.subscribers[channel] = append(s.subscribers[channel], c)
			}
			out = resp.Append(out, resp.Push{strings.ToLower(name), channel, int64(len(c.subscribed))})
		}
		return out
	case "UNSUBSCRIBE", "SUNSUBSCRIBE":
		var out []byte
		for _, channel := range args[1:] {
			s.unsubscribe(c, channel)
			out = resp.Append(out, resp.Push{strings.ToLower(name), channel, int64(len(c.subscribed))})
		}
		return out
	case "SCRIPT":
		if strings.ToUpper(args[1]) != "LOAD" {
			return resp.Append(nil, failure("ERR unknown subcommand"))
		}
		script, err := luaserver.Compile(args[2])
		if err != nil {
			return resp.Append(nil, failure("ERR "+err.Error()))
		}
		s.known[script.SHA] = script
		return resp.Append(nil, script.SHA)
	case "SCAN":
		return resp.Append(nil, s.scan(args))
	case "EVAL", "EVALSHA":
		return resp.Append(nil, s.eval(c, name, args, asking))
	}
	if len(args) > 1 {
		if at := s.elsewhere(args[1:2], asking); at != nil {
			return resp.Append(nil, at)
		}
	}
	s.memory.Begin()
	if err := s.memory.Refuse(args[0]); err != nil {
		return resp.Append(nil, err)
	}
	return resp.Append(nil, s.plain(args))
}

// scan answers SCAN cursor MATCH pattern COUNT n TYPE type with the keys of a quarter of all slots.
// The pattern has one star.
func (s *server) scan(args []string) any {
	from, _ := strconv.Atoi(args[1])
	head, tail, _ := strings.Cut(strings.ReplaceAll(args[3], `\`, ""), "*")
	keys := []any{}
	for _, key := range slices.Sorted(maps.Keys(s.keys.Values)) {
		slot := int(slotOf(key))
		if from <= slot && slot < from+slots/4 && strings.HasPrefix(key, head) && strings.HasSuffix(key, tail) && s.keys.Do("TYPE", key) == any(status(args[7])) {
			keys = append(keys, key)
		}
	}
	return []any{fmt.Sprint((from + slots/4) % slots), keys}
}

func (s *server) eval(c *conn, name string, args []string, asking bool) any {
	n, _ := strconv.Atoi(args[2])
	keys := args[3 : 3+n]
	if at := s.elsewhere(keys, asking); at != nil {
		return at
	}
	for _, key := range keys {
		if c.from.refused[key] > 0 {
			return failure("NOPERM No permissions to access a key")
		}
	}
	script := s.known[args[1]]
	if name == "EVAL" {
		var err error
		if script, err = luaserver.Compile(args[1]); err != nil {
			return failure("ERR " + err.Error())
		}
		s.known[script.SHA] = script
	}
	if script == nil {
		return failure("NOSCRIPT No matching script. Please use EVAL.")
	}
	if s.w.cheat == divided {
		if s.apart[c.from].Keyspace == nil {
			s.apart[c.from] = s.w.newKeyspace()
		}
		s.keys = s.apart[c.from]
	}
	s.memory.Begin()
	out := engine.Run(script, keys, args[3+n:], func(call []string) any {
		if err := s.memory.Refuse(call[0]); err != nil {
			return err
		}
		if s.elsewhere(keysIn(call), asking) != nil {
			return failure("ERR Script attempted to access a non local key in a cluster node")
		}
		if key := keyOf(call); key != "" && !slices.Contains(keys, key) {
			s.w.seen[undeclared+script.Name+" "+kindOfKey(key)]++
		}
		return s.plain(call)
	})
	s.follow(c, script.Name, keys, args[3+n:], out)
	s.noteDenial(script.Name, keys[0], args[3+n:], out)
	s.w.tracef("  server: %s script %.6s keys %q args %q: %v", c, script.SHA, keys, args[3+n:], out)
	return out
}

// plain is a command that a script may use too.
func (s *server) plain(args []string) any {
	switch strings.ToUpper(args[0]) {
	case "PUBLISH", "SPUBLISH":
		kind, nodes := "message", s.w.servers
		if args[0][0] == 'S' || args[0][0] == 's' {
			kind, nodes = "smessage", []*server{s}
		}
		for _, node := range nodes {
			for _, c := range node.subscribers[args[1]] {
				c.reply(resp.Append(nil, resp.Push{kind, args[1], args[2]}), "")
			}
		}
		return int64(len(s.subscribers[args[1]]))
	case "PUBSUB":
		out := []any{}
		for _, channel := range args[2:] {
			out = append(out, channel, int64(len(s.subscribers[channel])))
		}
		return out
	case "CLUSTER":
		return s.cluster(args)
	}
	if strings.EqualFold(args[0], "HSET") && len(args) >= 4 { // the last field is the holder, for each kind
		if id := strings.TrimSuffix(args[len(args)-2], ":write"); len(id) > 37 && id[36] == ':' {
			s.trailOf(id) // a grant by message, or one that follow notes
		}
	}
	out := s.do(args)
	if len(s.replicas) > 0 {
		if always, is := writes[strings.ToUpper(args[0])]; is && (always || out != any(int64(0))) {
			s.touch(args)
		}
	}
	return out
}

// A record is what one manager has of a name.
type record struct{ name, mgr string }

// do runs a command, and notes which records have gone with it.
func (s *server) do(args []string) any {
	switch strings.ToUpper(args[0]) {
	case "HSET":
		for i := 2; i < len(args); i += 2 {
			delete(s.w.gone, record{args[1], managerOf(args[i])})
		}
	case "HDEL", "DEL":
		before := s.keys.names(args[1])
		defer func() {
			for _, f := range before {
				if mgr := managerOf(f); !s.w.recorded(args[1], mgr) {
					s.w.gone[record{args[1], mgr}] = time.Now()
				}
			}
		}()
	}
	return s.keys.Do(args...)
}

// managerOf returns the ID of the manager that has written a field of a record.
func managerOf(field string) string {
	id, _, _ := strings.Cut(field, ":")
	return id
}

// A trail is what the server has seen of a holder ID.
type trail struct {
	first     time.Time // when a script first took a lock for it, or passed one on to it
	acquires  int
	transfers int
	lost      int // answers of acquires that did not arrive, as the connection was gone
}

// trailOf returns the trail of a holder ID, and begins it if it is new.
func (s *server) trailOf(id string) *trail {
	t := s.trails[id]
	if t == nil {
		t = &trail{first: time.Now()}
		s.trails[id] = t
	}
	return t
}

// follow notes which holder IDs a script has installed.
func (s *server) follow(c *conn, script string, keys, args []string, out any) {
	install := strings.HasSuffix(script, "transfer")
	took := strings.Contains(script, "acquire")
	if !install && !took || (took || script == "fair_transfer") && refused(script, out) {
		return
	}
	see := func(id string) {
		if install && out == nil {
			return
		}
		t := s.trailOf(id)
		if install {
			t.transfers++
			return
		}
		t.acquires++
		if c.closed || c.broken {
			t.lost++
		}
	}
	if strings.HasPrefix(script, "fair_") {
		see(args[0] + ":" + args[8] + ":f")
		return
	}
	var ids []string
	for _, arg := range args {
		isOne := len(arg) > 37 && arg[36] == ':' && arg[8] == '-' && !strings.Contains(arg, " ") && !strings.HasSuffix(arg, ":kept")
		if isOne || strings.HasPrefix(script, "permits_") && len(arg) == 14 {
			ids = append(ids, arg)
		}
	}
	if len(ids) > 0 && (len(keys) <= 2 && script != "acquire_many" || script == "several_acquire") {
		// One request: the first is the new holder. Others are of tries whose answers did not
		// arrive.
		if see(ids[0]); took && len(ids) > 1 {
			s.trails[ids[0]].lost++
		}
		return
	}
	for _, id := range ids {
		see(id)
	}
}

// noteDenial notes a try that had no memory though its manager stands in the line, or has the
// record: see promise13a.
func (s *server) noteDenial(script, key string, args []string, out any) {
	err, is := out.(failure)
	if !is || !strings.HasPrefix(string(err), "OOM") {
		return
	}
	var mgr, place string
	switch script {
	case "acquire":
		mgr, _, _ = strings.Cut(args[2], " ")
	case "readwrite_acquire":
		mgr, _, _ = strings.Cut(args[3], " ")
	case "fair_acquire":
		mgr, place = args[0], args[0]+":"+args[8]+":f"
	}
	stands := s.keys.Do("HEXISTS", "{"+key+"}:lock_wants", mgr) == any(int64(1)) ||
		place != "" && s.keys.Do("ZSCORE", "redisson_lock_timeout:{"+key+"}", place) != nil
	has := slices.ContainsFunc(s.keys.names(key), func(f string) bool { return f == place || slices.Contains(args, strings.TrimSuffix(f, ":write")) })
	if stands || has {
		s.w.denied[record{key, mgr}] = time.Now()
	}
}

// refused reports whether an answer says that a script has taken nothing. Those of scripts that
// several requests share count as grants.
func refused(script string, out any) bool {
	switch out := out.(type) {
	case failure:
		return true
	case int64:
		return true
	case []any:
		switch script {
		case "fair_acquire", "fair_transfer":
			return len(out) > 0 && out[0] != any(int64(1))
		case "several_acquire":
			_, number := out[0].(int64)
			return number
		case "acquire", "readwrite_acquire":
			return true
		}
	}
	return false
}

// writes are the commands that write, with false for those that write nothing if they return zero.
var writes = map[string]bool{
	"DEL": false, "PEXPIRE": false, "PEXPIREAT": false, "HSET": true, "HDEL": false, "INCRBY": true, "SET": true, "ZADD": true, "ZREM": false, "LPOP": true, "LREM": false,
	"RPUSH": true,
}
