package futures

// Promise is the write end of a future. Its zero value is ready for use. It is
// meant to be embedded by value in the struct of its request, so that one
// allocation serves both, and must not be copied after its first use.
type Promise[T any] struct{ f Future[T] }

// Bind sets the source of the value. It must be called before the future is
// handed out, if at all.
func (p *Promise[T]) Bind(s Source[T]) { p.f.source = s }

// Future returns the read end, always the same. It points into the promise, and
// so keeps alive the struct that the promise is embedded in.
func (p *Promise[T]) Future() *Future[T] { return &p.f }

// Resolve settles the future, with a value if err is nil. It runs the callbacks
// that no Dispatcher takes, so the caller must not hold a mutex that these
// need. It reports false if the future was settled before, for example by
// Cancel: no reader sees v then, and the caller must give it back. If it
// reports true, v belongs to the future, which gives it to a reader or to the
// Source's Drop.
func (p *Promise[T]) Resolve(v T, err error) bool { return p.f.settle(stateOf(err), v, err) }

// Ready returns a future that is settled already. A value that nobody takes is
// forgotten.
func Ready[T any](v T, err error) *Future[T] {
	f := &Future[T]{value: v, err: err}
	f.state.Store(stateOf(err))
	return f
}

// stateOf returns the state of a future that is settled with err.
func stateOf(err error) uint32 {
	if err != nil {
		return failed
	}
	return offered
}
