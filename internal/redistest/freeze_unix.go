//go:build unix

package redistest

import "syscall"

// Freeze stops the server with SIGSTOP: it keeps its connections and answers nothing until Thaw. On
// systems without that signal it skips the test.
func (s *Server) Freeze() {
	s.t.Helper()
	s.Signal(syscall.SIGSTOP)
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw() {
	s.t.Helper()
	s.Signal(syscall.SIGCONT)
}
