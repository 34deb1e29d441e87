package main

import (
	"errors"
	"sync"
)

var errStale = errors.New("a later holder has changed the order")

// A table stands for a database. It refuses writes with a smaller token than it has seen, and with
// the same token of another holder.
type table struct {
	mu   sync.Mutex
	rows map[string]row
}

type row struct {
	state  string
	token  int64
	holder string
}

// save is, in SQL: UPDATE orders SET state = $1, token = $2, holder = $3
// WHERE id = $4 AND (token < $2 OR (token = $2 AND holder = $3)). A server that lost its data may
// give two holders the same token.
func (t *table) save(id, state string, token int64, holder string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.rows[id]; r.token > token || r.token == token && r.holder != holder {
		return errStale
	}
	t.rows[id] = row{state, token, holder}
	return nil
}

// load returns the state of an order.
func (t *table) load(id string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[id].state
}
