package futures

// Promise is the write end of a future. Its zero value is ready for use. It is meant to be embedded by value in whatever carries the
// request, so that one allocation serves both, and must not be copied after its first use.
type Promise[T any] struct{ f Future[T] }

// Bind has c told if the future is cancelled. It is to be called before the future is handed out, if at all.
func (p *Promise[T]) Bind(c Canceler) { p.f.canceler = c }

// Future returns the read end, always the same. It points into the promise and keeps all that alive that the promise is a part of.
func (p *Promise[T]) Future() *Future[T] { return &p.f }

// Resolve settles the future. It runs the callbacks, so no lock may be held that these take. It reports false if the future was settled
// before, by a cancel for instance: nobody will see v then, and it is still the caller's to look after.
func (p *Promise[T]) Resolve(v T, err error) bool {
	_, ok := p.f.settle(v, err)
	return ok
}

// Ready returns a future that is settled already.
func Ready[T any](v T, err error) *Future[T] {
	f := &Future[T]{value: v, err: err}
	f.settled.Store(true)
	return f
}
