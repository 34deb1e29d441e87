package soak

import (
	"bytes"
	"encoding/gob"
	"io"
	"sync"

	"github.com/holdfast-go/holdfast/bench/internal/check"
)

// A record is what a worker sends. One of the fields is set.
type record struct {
	Open    *check.Hold // goes on, in case that the process is killed
	Hold    *check.Hold // has ended
	Write   *check.Write
	Loss    *check.Loss
	Figures *figures   // so far
	Fault   string     // something that must not happen
	Ready   bool       // the manager is there
	Last    *lastWords // all goroutines have ended
}

// figures are what a worker counts, by what is counted.
type figures [counted]uint64

const (
	requests  = iota
	refused   // tries and waits that ran out
	cancelled // and the cancel won
	failed    // for want of the server
	reentries
	sets     // granted
	setNames // names of these
	permitGrants
	permitsGranted // in these grants
	passes         // handed on inside the manager
	scriptsSent
	counted // how many figures there are
)

// lastWords are what a worker says when it has come to rest.
type lastWords struct {
	Before, After int // goroutines, before the manager and after its Close
	Stacks        string
	Stuck         int    // requests that did not end
	Close         string // the error of Close, if any
}

// A recorder keeps records until they are sent. It is safe for concurrent use.
type recorder struct {
	mu  sync.Mutex
	buf bytes.Buffer
	enc *gob.Encoder
}

func newRecorder() *recorder {
	r := &recorder{}
	r.enc = gob.NewEncoder(&r.buf)
	return r
}

func (r *recorder) put(x record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.enc.Encode(x); err != nil {
		panic(err) // plain structs
	}
}

// flush sends what there is. One goroutine at a time may call it.
func (r *recorder) flush(w io.Writer) error {
	r.mu.Lock()
	out := bytes.Clone(r.buf.Bytes())
	r.buf.Reset()
	r.mu.Unlock()
	_, err := w.Write(out)
	return err
}

// readRecords gives the records of a worker to take, until the worker ends. Half a record at the
// end is what a killed worker leaves.
func readRecords(in io.Reader, take func(record)) error {
	d := gob.NewDecoder(in)
	for {
		var x record
		switch err := d.Decode(&x); err {
		case nil:
			take(x)
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return err
		}
	}
}
