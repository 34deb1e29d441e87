package actor_test

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/actor"
)

// tally counts words. Only its actor's goroutine touches the map.
type tally struct{ count map[string]int }

// A word is counted; a question is answered on its channel.
type (
	event    any
	word     string
	question struct {
		word  string
		reply chan<- int // has room for the answer: a handler must not block
	}
)

func (t *tally) Handle(batch []event) time.Duration {
	for _, e := range batch {
		switch e := e.(type) {
		case word:
			t.count[string(e)]++
		case question:
			e.reply <- t.count[e.word]
		}
	}
	return -1 // sleep until something arrives
}

func (t *tally) Stopped() { fmt.Println("words known:", len(t.count)) }

func Example() {
	a := actor.Start[event](&tally{count: make(map[string]int)})
	for _, w := range []string{"hold", "fast", "hold"} {
		a.Post(word(w))
	}

	reply := make(chan int, 1)
	a.Post(question{"hold", reply})
	fmt.Println("hold:", <-reply)

	a.Stop()
	fmt.Println("accepted:", a.Post(word("late")))
	<-a.Done()
	// Unordered output:
	// hold: 2
	// accepted: false
	// words known: 2
}

// reminder says when its time has come. It needs no timer of its own.
type reminder struct {
	at  time.Time // zero: nothing to be reminded of
	say func()
}

func (r *reminder) Handle(batch []time.Duration) time.Duration {
	for _, wait := range batch {
		r.at = time.Now().Add(wait)
	}
	if r.at.IsZero() {
		return -1
	}
	if left := time.Until(r.at); left > 0 {
		return left // call again then, or as soon as there is something new
	}
	r.at = time.Time{}
	r.say()
	return -1
}

func ExampleHandler_alarm() {
	said := make(chan struct{})
	a := actor.Start(&reminder{say: func() { close(said) }})
	a.Post(time.Millisecond)
	<-said
	a.Stop()
	<-a.Done()
	fmt.Println("time is up")
	// Output: time is up
}
