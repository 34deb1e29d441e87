package explore

// A set is a set of digests. It numbers them in the order in which they are added. The
// zero value is an empty set. A digest takes 22 to 28 bytes.
type set struct {
	digests []digest
	// slots is a hash table with open addressing. A slot is zero, or the number of a
	// digest plus one. There are a power of two of them, at least a third free.
	slots []uint32
}

func (s *set) len() int { return len(s.digests) }

// add returns the number of a digest, and reports whether it is new.
func (s *set) add(d digest) (int32, bool) {
	if len(s.slots)*2 <= len(s.digests)*3 {
		s.grow()
	}
	at := s.slot(d)
	if n := s.slots[at]; n > 0 {
		return int32(n - 1), false
	}
	s.digests = append(s.digests, d)
	s.slots[at] = uint32(len(s.digests))
	return int32(len(s.digests) - 1), true
}

// find returns the number of a digest, and reports whether the set has it.
func (s *set) find(d digest) (int32, bool) {
	if len(s.slots) == 0 {
		return 0, false
	}
	n := s.slots[s.slot(d)]
	return int32(n) - 1, n > 0
}

// slot returns the slot that has the digest, or the empty slot where it belongs.
func (s *set) slot(d digest) uint64 {
	last := uint64(len(s.slots) - 1)
	at := d[0] & last
	for n := s.slots[at]; n > 0 && s.digests[n-1] != d; n = s.slots[at] {
		at = (at + 1) & last
	}
	return at
}

// grow doubles the number of slots.
func (s *set) grow() {
	s.slots = make([]uint32, max(64, 2*len(s.slots)))
	for i, d := range s.digests {
		s.slots[s.slot(d)] = uint32(i + 1)
	}
}
