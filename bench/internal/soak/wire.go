package soak

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/holdfast-go/holdfast/bench/internal/check"
)

// The records that a worker sends. Each is a byte that says which, and then a struct of a fixed
// size or a text with its length before it.
const (
	recOpen   byte = 'o' // check.Hold: goes on, in case that the process is killed
	recHold   byte = 'h' // check.Hold: has ended
	recWrite  byte = 'w' // check.Write
	recLoss   byte = 'l' // check.Loss
	recFigure byte = 'f' // figures so far, as JSON
	recFault  byte = 'x' // something that must not happen, as text
	recReady  byte = 'r' // the manager is there
	recLast   byte = 'e' // lastWords, as JSON: all goroutines have ended
)

const maxText = 1 << 16

// figures are what a worker counts.
type figures struct {
	Requests  uint64
	Refused   uint64 // tries and waits that ran out
	Cancelled uint64 // and the cancel won
	Failed    uint64 // for want of the server
	Reentries uint64
	Sets      uint64 // granted
	SetNames  uint64 // names of these

	PermitGrants uint64
	Permits      uint64 // of these grants

	Passes  uint64 // handed on inside the manager
	Scripts uint64
}

func (f *figures) add(g figures) {
	f.Requests += g.Requests
	f.Refused += g.Refused
	f.Cancelled += g.Cancelled
	f.Failed += g.Failed
	f.Reentries += g.Reentries
	f.Sets += g.Sets
	f.SetNames += g.SetNames
	f.PermitGrants += g.PermitGrants
	f.Permits += g.Permits
	f.Passes += g.Passes
	f.Scripts += g.Scripts
}

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
	buf []byte
}

func (r *recorder) put(kind byte, v any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, kind)
	// All of our types have a fixed size.
	r.buf, _ = binary.Append(r.buf, binary.LittleEndian, v)
}

func (r *recorder) text(kind byte, text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text = text[:min(len(text), maxText)]
	r.buf = append(r.buf, kind)
	r.buf = binary.LittleEndian.AppendUint32(r.buf, uint32(len(text)))
	r.buf = append(r.buf, text...)
}

func (r *recorder) json(kind byte, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs
	}
	r.text(kind, text)
}

// flush sends what there is. One goroutine at a time may call it.
func (r *recorder) flush(w io.Writer, spare []byte) ([]byte, error) {
	r.mu.Lock()
	out := r.buf
	r.buf = spare[:0]
	r.mu.Unlock()
	if len(out) == 0 {
		return out, nil
	}
	_, err := w.Write(out)
	return out, err
}

// A listener is told of the records of one worker, in order.
type listener interface {
	open(check.Hold)
	hold(check.Hold)
	write(check.Write)
	loss(check.Loss)
	figures(figures)
	fault(string)
	ready()
	last(lastWords)
}

// readRecords reads until the worker ends. Half a record at the end is what a killed worker leaves.
func readRecords(in io.Reader, l listener) error {
	r := bufio.NewReaderSize(in, 1<<16)
	for {
		kind, err := r.ReadByte()
		if err != nil {
			return ended(err)
		}
		switch kind {
		case recOpen, recHold:
			var h check.Hold
			if err = binary.Read(r, binary.LittleEndian, &h); err == nil && kind == recOpen {
				l.open(h)
			} else if err == nil {
				l.hold(h)
			}
		case recWrite:
			var w check.Write
			if err = binary.Read(r, binary.LittleEndian, &w); err == nil {
				l.write(w)
			}
		case recLoss:
			var x check.Loss
			if err = binary.Read(r, binary.LittleEndian, &x); err == nil {
				l.loss(x)
			}
		case recReady:
			if _, err = readText(r); err == nil {
				l.ready()
			}
		case recFault:
			var text []byte
			if text, err = readText(r); err == nil {
				l.fault(string(text))
			}
		case recFigure:
			var f figures
			if err = readJSON(r, &f); err == nil {
				l.figures(f)
			}
		case recLast:
			var w lastWords
			if err = readJSON(r, &w); err == nil {
				l.last(w)
			}
		default:
			return fmt.Errorf("a record of unknown kind %q", kind)
		}
		if err != nil {
			return ended(err)
		}
	}
}

func ended(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}

func readText(r io.Reader) ([]byte, error) {
	var n uint32
	if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
		return nil, err
	}
	if n > maxText {
		return nil, fmt.Errorf("a text of %d bytes", n)
	}
	text := make([]byte, n)
	_, err := io.ReadFull(r, text)
	return text, err
}

func readJSON(r io.Reader, v any) error {
	text, err := readText(r)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}
