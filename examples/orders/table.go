package main

import (
	"errors"
	"sync"
)

var errStale = errors.New("a later holder has changed the order")

// A table stands for a database. It refuses writes with a smaller token than it has seen.
type table struct {
	mu   sync.Mutex
	rows map[string]row
}

type row struct {
	state string
	token int64
}

// save is, in SQL: UPDATE orders SET state = $1, token = $2 WHERE id = $3 AND token <= $2.
func (t *table) save(id, state string, token int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows[id].token > token {
		return errStale
	}
	t.rows[id] = row{state, token}
	return nil
}

// load returns the state of an order.
func (t *table) load(id string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[id].state
}
