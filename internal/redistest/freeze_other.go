//go:build !unix

package redistest

// Freeze skips the test: this system has no SIGSTOP.
func (s *Server) Freeze() {
	s.t.Helper()
	s.t.Skip("redistest: no SIGSTOP on this system")
}

// Thaw does nothing.
func (s *Server) Thaw() {}
