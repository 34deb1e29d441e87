package locktest

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Held reports whether the server has a holder of name. It reads the server's memory and sends
// nothing, so it works on a frozen server too. Readers, writers and taken permits count as holders,
// and so does an ended hold while lockmgr.KeepFor keeps its name.
// While a manager passes a lock on in memory, the server knows the new holder some 20 ms later.
func (s *Server) Held(name string) bool { return len(s.Holders(name)) > 0 }

// Holder returns the first of Holders, or "" if there is none.
func (s *Server) Holder(name string) string {
	if all := s.Holders(name); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Holders returns who holds name, sorted: IDs as [lockmgr.Lock.HolderID] returns them, or for
// permits the IDs of [lockmgr.Lock.PermitIDs]. The ID of an ended hold whose name lockmgr.KeepFor
// keeps ends with ":kept". See Held.
func (s *Server) Holders(name string) (ids []string) {
	m := s.server()
	switch {
	case !m.Exists(name):
	case m.Type(name) == "hash":
		fields, _ := m.HKeys(name) // an error means that it has just expired
		for _, f := range fields {
			if f != "mode" {
				ids = append(ids, strings.TrimSuffix(f, ":write"))
			}
		}
	case m.Type(name) == "string":
		ids = takenPermits(m, name)
	}
	slices.Sort(ids)
	return ids
}

// takenPermits returns the IDs of the permits that have not expired.
func takenPermits(m *miniredis.Miniredis, name string) (ids []string) {
	taken, _ := m.SortedSet(takenKey(name)) // an error means that there are none
	now := float64(time.Now().UnixMilli())
	for id, expires := range taken {
		if expires > now {
			ids = append(ids, hex.EncodeToString([]byte(id)))
		}
	}
	return ids
}

// takenKey is where the permits that are taken are kept.
func takenKey(name string) string {
	if !strings.Contains(name, "{") {
		name = "{" + name + "}"
	}
	return name + ":timeout"
}

// server returns the present server.
func (s *Server) server() *miniredis.Miniredis {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mini
}
