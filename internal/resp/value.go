package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

type (
	// An Error is an error reply, such as "ERR syntax error".
	Error string
	// A Status is a simple string to be written. Read returns a string instead.
	Status string
	// A Push is an array to be written as a push.
	Push []any
)

func (e Error) Error() string { return string(e) }

// Read reads a RESP2 value: nil, an int64, a string, an Error or a []any of them.
func Read(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("resp: empty line")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return Error(rest), nil
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$', '*':
	default:
		return nil, fmt.Errorf("resp: unexpected reply %q", line)
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 0 {
		return nil, err
	}
	if kind == '$' {
		buf := make([]byte, n+2)
		if _, err := io.ReadFull(r, buf); err != nil {
			return nil, err
		}
		return string(buf[:n]), nil
	}
	items := make([]any, n)
	for i := range items {
		if items[i], err = Read(r); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// Text returns a value as text. nil is empty. An array is its elements on lines of their own. An
// Error, also one inside an array, is returned as an error.
func Text(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case Error:
		return "", v
	case []any:
		lines := make([]string, len(v))
		for i, item := range v {
			var err error
			if lines[i], err = Text(item); err != nil {
				return "", err
			}
		}
		return strings.Join(lines, "\n"), nil
	}
	return fmt.Sprint(v), nil
}

// AppendCommand appends a command: an array of its words.
func AppendCommand(b []byte, args ...string) []byte {
	b = appendLength(b, '*', len(args))
	for _, a := range args {
		b = Append(b, a)
	}
	return b
}

// Append appends a value as RESP3. It panics if v is of no type that package resp lists.
func Append(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "_\r\n"...)
	case int64:
		return append(strconv.AppendInt(append(b, ':'), v, 10), "\r\n"...)
	case Status:
		return append(append(append(b, '+'), v...), "\r\n"...)
	case Error:
		return append(append(append(b, '-'), v...), "\r\n"...)
	case string:
		return append(append(appendLength(b, '$', len(v)), v...), "\r\n"...)
	case []any:
		return appendItems(b, '*', v)
	case Push:
		return appendItems(b, '>', v)
	}
	panic(fmt.Sprintf("resp: a value of type %T", v))
}

func appendItems(b []byte, kind byte, items []any) []byte {
	b = appendLength(b, kind, len(items))
	for _, item := range items {
		b = Append(b, item)
	}
	return b
}

func appendLength(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), "\r\n"...)
}
