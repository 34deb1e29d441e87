package wire

import (
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// An Answer is what a command returned, free of the client's types. A Failure takes the place of
// everything else.
type Answer struct {
	Kind    AnswerKind
	Int     int64
	Text    string
	Array   []Answer
	Failure *Failure
}

// AnswerKind says which field of an Answer counts.
type AnswerKind uint8

const (
	Nil AnswerKind = iota
	Int
	Text
	Array
	Failed
)

// Answer returns the answer that carries the failure.
func (f *Failure) Answer() Answer { return Answer{Kind: Failed, Failure: f} }

// ErrorReply returns the answer for an error reply of a server.
func ErrorReply(err error) Answer { return serverFailure(err, err.Error()).Answer() }

// Refuse makes f the failure of each answer.
func Refuse(answers []Answer, f *Failure) {
	for i := range answers {
		answers[i] = f.Answer()
	}
}

// Begins reports whether the answer is an array that begins with elements of these kinds.
func (a *Answer) Begins(kinds ...AnswerKind) bool {
	if a.Kind != Array || len(a.Array) < len(kinds) {
		return false
	}
	for i, kind := range kinds {
		if a.Array[i].Kind != kind {
			return false
		}
	}
	return true
}

// is reports whether the answer is an array of elements of these kinds.
func (a *Answer) is(kinds ...AnswerKind) bool {
	return len(a.Array) == len(kinds) && a.Begins(kinds...)
}

// Field returns the text after a key in an array of keys and values.
func (a *Answer) Field(key string) string {
	for i := 0; i+1 < len(a.Array); i += 2 {
		if a.Array[i].Text == key {
			return a.Array[i+1].Text
		}
	}
	return ""
}

// Unexpected returns the failure for an answer that its command can't return.
func (a *Answer) Unexpected() *Failure {
	return &Failure{
		Kind: Unknown, Ran: core.Maybe, Final: true,
		Err:  fmt.Errorf("unexpected reply %.200q (kind %d, %d)", a.Text, a.Kind, a.Int),
		Hint: "is this a Redis or Valkey server, and does nothing between rewrite replies?",
	}
}

// ReadToken reads a fencing token, which is positive.
func ReadToken(text string) (token int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n > 0
}

// ReadMillis converts milliseconds of the server. A number that exceeds a Duration becomes about
// core.Forever.
func ReadMillis(n int64) time.Duration {
	return time.Duration(min(n, int64(core.Forever/time.Millisecond))) * time.Millisecond
}
