package wire

import "sync"

// Dials count the connections that were made to each address.
type Dials struct {
	mu sync.Mutex
	by map[string]uint64 // by address; nil before the first
}

// Add counts a new connection to an address. It must be called before anything is sent over the
// connection: else an answer that came over it could count as proved.
func (d *Dials) Add(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = make(map[string]uint64)
	}
	d.by[addr]++
}

// to returns how many connections to an address were made. It is zero if d is nil.
func (d *Dials) to(addr string) uint64 {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.by[addr]
}
