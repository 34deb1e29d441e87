package server

import "time"

// Leave puts a lock on the embedded server whose holder will never come back.
func (s *Server) Leave(name string, ttl time.Duration) {
	s.embedded.mini.HSet(name, "8f14e45f-ceea-467f-a8b5-6d1c3f1b2a90:1", "1")
	s.embedded.mini.SetTTL(name, ttl)
}
