package wire

import (
	"maps"
	"sync"
)

// Dials number the connections that are made, and keep the number of the newest one to each address. All
// addresses share one sequence of numbers, so an address that was forgotten never gets an earlier number
// again.
type Dials struct {
	mu        sync.Mutex
	last      uint64
	by        map[string]uint64 // the number of the newest connection to each address; nil before the first
	forgotten uint64            // the last number when an address was forgotten
}

// Add numbers a new connection to an address. It must be called before anything is sent over the
// connection: else an answer that came over it could count as proved.
func (d *Dials) Add(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = make(map[string]uint64)
	}
	d.last++
	d.by[addr] = d.last
}

// to returns a number that grows with each connection to an address. It may also grow when another address
// is forgotten. Then a node is asked for one more proof. to returns zero if d is nil.
func (d *Dials) to(addr string) uint64 {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n, known := d.by[addr]; known {
		return n
	}
	return d.forgotten // not zero: else a proof from before the first connection would count again
}

// forget drops the addresses for which gone returns true. So Dials do not grow as nodes come and go.
func (d *Dials) forget(gone func(addr string) bool) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before := len(d.by)
	maps.DeleteFunc(d.by, func(addr string, _ uint64) bool { return gone(addr) })
	if len(d.by) < before {
		d.forgotten = d.last
	}
}
