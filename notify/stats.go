package notify

import "fmt"

// State is the state of the hub's connection.
type State uint8

// The states of the connection. See the diagram in the package's documentation.
const (
	StateIdle       State = iota // no connection, and none needed
	StateConnecting              // being opened
	StateConnected               // works
	StateDown                    // lost, or could not be opened; will be tried again
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

// Stats is a snapshot of a hub. All its figures were taken at one moment; those
// that count events do so since New.
type Stats struct {
	State State
	Err   error // see [Hub.Err]

	Watches   int // open watches
	Channels  int // channels with at least one watch
	Confirmed int // of these, subscribed on the server
	Refused   int // of these, refused by the server so far

	Connects  uint64 // connections that came up
	Losses    uint64 // connections that were up and got lost
	Messages  uint64 // messages that arrived
	Coalesced uint64 // of these, merged into a wake-up that was due already
	Strays    uint64 // of these, for a channel that was not watched any more
	Wakes     uint64 // futures that an event has settled
}
