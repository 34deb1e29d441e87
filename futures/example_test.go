package futures_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/futures"
)

// job is a request that carries its own promise.
type job struct {
	futures.Promise[string]
	name string
}

// Cancel is called when the reader does not want the result any more.
func (j *job) Cancel() { fmt.Println("called off:", j.name) }

// Drop is called with a result that nobody has taken.
func (j *job) Drop(v string) { fmt.Println("given back:", v) }

func newJob(name string) *job {
	j := &job{name: name}
	j.Bind(j)
	return j
}

func Example() {
	j := newJob("greet")
	f := j.Future()
	go func() { j.Resolve("hello", nil) }()

	<-f.Done() // or: f.Await(ctx)
	fmt.Println(f.Result())
	// Output: hello <nil>
}

func ExampleFuture_Await() {
	j := newJob("endless")
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()

	_, err := j.Future().Await(ctx)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	if !j.Resolve("too late", nil) {
		fmt.Println("nobody wants the result")
	}
	// Output:
	// called off: endless
	// true
	// nobody wants the result
}

func ExampleFuture_Cancel() {
	j := newJob("greet")
	j.Resolve("hello", nil)
	// The reader leaves without having looked at the result.
	fmt.Println(j.Future().Cancel())
	// Output:
	// given back: hello
	// true
}

func ExampleAll() {
	a, b := newJob("a"), newJob("b")
	f := futures.All(nil, a.Future(), b.Future())
	b.Resolve("second", nil)
	a.Resolve("first", nil)
	fmt.Println(f.Result())
	// Output: [first second] <nil>
}

func ExampleAny() {
	near, far := newJob("near"), newJob("far")
	f := futures.Any(nil, near.Future(), far.Future())
	near.Resolve("here", nil)
	fmt.Println(f.Result())
	// Output:
	// called off: far
	// here <nil>
}
