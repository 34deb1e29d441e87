package wire

import (
	"maps"
	"sync"
)

// Dials number the dialled connections and the ended connections. All addresses share one sequence
// of numbers, so a forgotten address never gets an earlier number again.
type Dials struct {
	mu        sync.Mutex
	last      uint64
	by        map[string]numbers // nil before the first
	forgotten uint64             // the last number when an address was forgotten
}

// numbers are the numbers of the newest connection to an address, and of the newest end of a
// connection.
type numbers struct{ made, ended uint64 }

// Add numbers a new connection to an address. Add must be called before anything is sent over the
// connection. Otherwise an answer over the connection could count as proved.
func (d *Dials) Add(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = make(map[string]numbers)
	}
	d.last++
	d.by[addr] = numbers{d.last, d.by[addr].ended}
}

// End numbers the end of a connection to an address.
func (d *Dials) End(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n, known := d.by[addr]; known {
		d.last++
		d.by[addr] = numbers{n.made, d.last}
	}
}

// to returns numbers that grow with each connection to an address, and with each end of a
// connection. The numbers may also grow when another address is forgotten. After that, a node is
// asked for one more proof. to returns zeros if d is nil.
func (d *Dials) to(addr string) numbers {
	if d == nil {
		return numbers{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n, known := d.by[addr]; known {
		return n
	}
	return numbers{d.forgotten, d.forgotten} // not zero: else a proof from before the first connection would count again
}

// forget drops the addresses for which gone returns true. So Dials do not grow as nodes come and go.
func (d *Dials) forget(gone func(addr string) bool) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before := len(d.by)
	maps.DeleteFunc(d.by, func(addr string, _ numbers) bool { return gone(addr) })
	if len(d.by) < before {
		d.forgotten = d.last
	}
}
