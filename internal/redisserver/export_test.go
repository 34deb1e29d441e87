package redisserver

import "github.com/holdfast-go/holdfast/internal/resp"

// StartOn starts a server on a port that may be taken.
func (s *Server) StartOn(port int) error {
	s.port = port
	return s.launch(resp.Login{}, nil)
}
