package notify

import "fmt"

// State is the state of the hub's connection.
type State uint8

// The states of the connection. See the diagram in the package's documentation.
const (
	StateIdle       State = iota // no connection, and none needed
	StateConnecting              // being opened
	StateConnected               // open, and the server has answered
	StateDown                    // lost, or could not be opened; will be retried
	StateClosed                  // the hub was closed
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case StateIdle:
		return "idle"
	case StateConnecting:
		return "connecting"
	case StateConnected:
		return "connected"
	case StateDown:
		return "down"
	case StateClosed:
		return "closed"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Stats is a snapshot of a hub. All figures were taken at the same moment. Counters count from New.
type Stats struct {
	State State
	Err   error // see [Hub.Err]

	Watches   int // open watches
	Channels  int // channels with at least one watch
	Confirmed int // channels that are subscribed on the server
	Refused   int // watched channels that the server refuses

	Connects  uint64 // connections that came up
	Losses    uint64 // connections that came up and were lost
	Messages  uint64 // messages that arrived
	Coalesced uint64 // messages that were merged into an event with an earlier one
	Strays    uint64 // messages of channels that were not watched any more
	Wakes     uint64 // waiting futures that an event has settled
}
