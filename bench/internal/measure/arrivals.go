package measure

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/server"
)

// arrivals watches who comes to the server for a fair lock. Somebody arrives when a script adds it
// to the queue, or writes it into the record without that. One that gets the lock at once has
// arrived before those whom the same script adds to the queue.
type arrivals struct {
	queue, record string
	conn, marker  *server.Conn
	done          chan error // of the reader

	ids    []string
	seen   map[string]bool
	script int // how many ids there were before the script that runs
}

const lastCommand = "the last command"

// watchArrivals returns when the server reports all commands. The caller closes it.
func watchArrivals(ctx context.Context, addr, name string) (*arrivals, error) {
	a := &arrivals{queue: locker.QueueKey(name), record: name, done: make(chan error, 1), seen: map[string]bool{}}
	var err error
	if a.conn, err = server.Dial(ctx, addr); err != nil {
		return nil, err
	}
	if a.marker, err = server.Dial(ctx, addr); err != nil {
		a.conn.Close()
		return nil, err
	}
	if _, err := a.conn.Do("MONITOR"); err != nil {
		a.close()
		return nil, err
	}
	go func() { a.done <- a.read() }()
	return a, nil
}

func (a *arrivals) close() {
	a.conn.Close()
	a.marker.Close()
}

// all returns the IDs of all who have arrived, in their order. It ends the watch.
func (a *arrivals) all() ([]string, error) {
	if _, err := a.marker.Do("ECHO", lastCommand); err != nil {
		return nil, err
	}
	return a.ids, <-a.done
}

// read handles commands up to the last one.
func (a *arrivals) read() error {
	for {
		reply, err := a.conn.Receive()
		if err != nil {
			return err
		}
		line, ok := reply.(string)
		if !ok {
			return fmt.Errorf("MONITOR has reported %v", reply)
		}
		if last, err := a.command(line); last || err != nil {
			return err
		}
	}
}

// command handles a line of MONITOR, which is
//
//	1700000000.123456 [0 127.0.0.1:4000] "EVALSHA" "3f5…" "5" "name"
//	1700000000.123457 [0 lua] "RPUSH" "redisson_lock_queue:{name}" "id"
func (a *arrivals) command(line string) (last bool, err error) {
	head, rest, ok := strings.Cut(line, "] ")
	if !ok {
		return false, fmt.Errorf("not a line of MONITOR: %q", line)
	}
	if !strings.HasSuffix(head, " lua") {
		a.script = len(a.ids)
		return strings.HasSuffix(rest, strconv.Quote(lastCommand)), nil
	}
	verb, rest := argument(rest)
	key, rest := argument(rest)
	switch strings.ToUpper(verb) {
	case "RPUSH":
		if key == a.queue {
			for rest != "" {
				var id string
				if id, rest = argument(rest); !a.seen[id] {
					a.seen[id] = true
					a.ids = append(a.ids, id)
				}
			}
		}
	case "HSET", "HINCRBY":
		if id, _ := argument(rest); key == a.record && !a.seen[id] {
			a.seen[id] = true
			a.ids = append(a.ids, "")
			copy(a.ids[a.script+1:], a.ids[a.script:])
			a.ids[a.script] = id
		}
	}
	return false, nil
}

// argument splits a line of MONITOR behind its first argument, which is in quotes.
func argument(line string) (arg, rest string) {
	quoted, err := strconv.QuotedPrefix(line)
	if err != nil {
		return "", ""
	}
	arg, _ = strconv.Unquote(quoted)
	return arg, strings.TrimPrefix(line[len(quoted):], " ")
}
