package faultproxy

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// Frames beyond these bounds count as no RESP. They are those of servers, or above.
const (
	maxLine   = 1 << 20
	maxBulk   = 512 << 20
	maxValues = 1 << 24
)

var errNotRESP = errors.New("faultproxy: not RESP")

// splitter cuts a stream into frames: whole commands or whole replies. Frames and rest, put
// together, are what was written to it, whatever that is.
type splitter struct {
	// inline: a line that begins with no type of RESP is a frame of its own, as in "PING\r\n".
	inline bool

	buf  []byte // from the start of the frame in hand
	read int    // of it, the bytes that are understood
	left int    // of it, the values that are still to come; 0: not begun
	err  error  // for good: there are no more frames
}

func (s *splitter) write(p []byte) { s.buf = append(s.buf, p...) }

// next returns the next whole frame, or nil if there is none yet, or none any more. The frame is
// not overwritten later.
func (s *splitter) next() []byte {
	if s.err != nil || len(s.buf) == 0 {
		return nil
	}
	if s.left == 0 {
		s.left = 1
	}
	for s.left > 0 {
		n, children, err := 0, 0, error(nil)
		if s.inline && s.read == 0 && s.buf[0] != '*' {
			n, err = line(s.buf)
		} else {
			n, children, err = value(s.buf[s.read:])
		}
		if err != nil || s.left+children > maxValues {
			s.err = errNotRESP
			return nil
		}
		if n == 0 {
			return nil
		}
		s.read += n
		s.left += children - 1
	}
	frame := s.buf[:s.read:s.read]
	s.buf, s.read = s.buf[s.read:], 0
	return frame
}

// rest returns the bytes that are no whole frame, and forgets them.
func (s *splitter) rest() []byte {
	rest := s.buf
	s.buf, s.read, s.left = nil, 0, 0
	return rest
}

// line returns the length of the first line, its end included, or 0 if there is none yet.
func line(b []byte) (int, error) {
	i := bytes.IndexByte(b[:min(len(b), maxLine)], '\n')
	if i < 0 && len(b) >= maxLine {
		return 0, errNotRESP
	}
	return i + 1, nil
}

// value returns the length of what begins b, up to its first child: all of a string, the header of
// an array. The length is 0 if more bytes are needed.
func value(b []byte) (n, children int, err error) {
	n, err = line(b)
	if n == 0 || err != nil {
		return 0, 0, err
	}
	if n < 3 || b[n-2] != '\r' {
		return 0, 0, errNotRESP
	}
	text := string(b[1 : n-2])
	switch b[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		return n, 0, nil
	case '$', '!', '=':
		size, err := length(text, maxBulk)
		if err != nil || text == "-1" {
			return n, 0, err
		}
		end := n + size + 2
		if len(b) < end {
			return 0, 0, nil
		}
		if b[end-2] != '\r' || b[end-1] != '\n' {
			return 0, 0, errNotRESP
		}
		return end, 0, nil
	case '*', '~', '>':
		children, err = length(text, maxValues)
		return n, children, err
	case '%':
		children, err = length(text, maxValues/2)
		return n, 2 * children, err
	case '|': // its pairs, and the value that it is about
		children, err = length(text, maxValues/2)
		return n, 2*children + 1, err
	}
	return 0, 0, errNotRESP
}

// length reads a count. -1 stands for a null, which has nothing in it.
func length(text string, most int) (int, error) {
	if text == "-1" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, errNotRESP
	}
	return n, nil
}

// parseCommand returns the words of a command: none if the server will not answer it, or if it is
// no command.
func parseCommand(frame []byte) (args []string) {
	if frame[0] != '*' {
		return strings.Fields(string(frame))
	}
	n, children, _ := value(frame)
	for range children {
		arg, size := word(frame[n:])
		if size == 0 {
			return nil
		}
		args = append(args, arg)
		n += size
	}
	return args
}

// word reads a bulk or simple string from the start of b, and its length there.
func word(b []byte) (string, int) {
	n, _, err := value(b)
	if n == 0 || err != nil {
		return "", 0
	}
	switch b[0] {
	case '+':
		return string(b[1 : n-2]), n
	case '$':
		if head, _ := line(b); head < n {
			return string(b[head : n-2]), n
		}
	}
	return "", 0
}

// confirms are the commands that are answered by pushes, one for each name.
var confirms = map[string]string{
	"SUBSCRIBE": "subscribe", "PSUBSCRIBE": "psubscribe", "SSUBSCRIBE": "ssubscribe",
	"UNSUBSCRIBE": "unsubscribe", "PUNSUBSCRIBE": "punsubscribe", "SUNSUBSCRIBE": "sunsubscribe",
}

// pushKind returns the first word of a push, or "" if the frame is a reply. subscribed says that
// arrays may be pushes, as in RESP2.
func pushKind(frame []byte, subscribed bool) string {
	frame = afterAttributes(frame)
	if len(frame) == 0 || frame[0] != '>' && !(frame[0] == '*' && subscribed) {
		return ""
	}
	head, _ := line(frame)
	kind, _ := word(frame[head:])
	if frame[0] == '>' {
		return "push " + kind
	}
	switch kind {
	case "message", "pmessage", "smessage":
		return "push " + kind
	}
	for _, c := range confirms {
		if kind == c {
			return "push " + kind
		}
	}
	return ""
}

// afterAttributes returns the value that a frame's attributes are about.
func afterAttributes(frame []byte) []byte {
	for len(frame) > 0 && frame[0] == '|' {
		n, children, _ := value(frame)
		for left := children; ; { // the last of them is the value
			if n == 0 {
				return nil // no frame of a reply
			}
			frame = frame[n:]
			if left == 1 {
				break
			}
			n, children, _ = value(frame)
			left += children - 1
		}
	}
	return frame
}
