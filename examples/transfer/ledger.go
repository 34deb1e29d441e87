package main

import (
	"fmt"
	"sync"
)

// A ledger is what the locks protect. It stands for a database with a row for each account. Each
// row has the largest fencing token that has changed it, so the ledger can refuse a clerk who lost
// the lock without noticing.
type ledger struct {
	mu   sync.Mutex
	rows []row
}

type row struct{ balance, newest int64 }

// A change is a new balance of an account. Its token is that of the account's lock.
type change struct {
	account        int
	balance, token int64
}

func newLedger(accounts int, balance int64) *ledger {
	l := &ledger{rows: make([]row, accounts)}
	for i := range l.rows {
		l.rows[i].balance = balance
	}
	return l
}

func (l *ledger) balance(account int) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows[account].balance
}

// write makes all changes, or none if one of the tokens is stale. In a database that is one
// transaction: UPDATE … SET balance = $1, token = $2 … WHERE token <= $2.
func (l *ledger) write(changes ...change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		if newest := l.rows[c.account].newest; c.token < newest {
			return fmt.Errorf("stale: token %d for account %d, but %d has written since", c.token, c.account, newest)
		}
	}
	for _, c := range changes {
		l.rows[c.account] = row{c.balance, c.token}
	}
	return nil
}

func (l *ledger) total() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum int64
	for _, r := range l.rows {
		sum += r.balance
	}
	return sum
}
