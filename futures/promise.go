package futures

// Promise is the write end of a future. The zero value is ready for use. A Promise is meant to be
// embedded by value in the struct of its request, so that both need a single allocation. A Promise
// must not be copied after its first use.
type Promise[T any] struct{ f Future[T] }

// Bind sets the Source of the value. Call Bind before the future is handed out, if at all.
func (p *Promise[T]) Bind(s Source[T]) { p.f.source = s }

// Future returns the read end. All calls return the same pointer. The pointer points into the
// Promise, and so keeps the struct alive in which the Promise is embedded.
func (p *Promise[T]) Future() *Future[T] { return &p.f }

// Resolve settles the future with v if err is nil, else with err. Without a Dispatcher, Resolve
// runs the callbacks, so the caller must not hold a mutex that the callbacks need. Resolve reports
// false if the future was settled before, for example by Cancel: no reader gets v, and the caller
// must give v back. If Resolve reports true, v belongs to the future, which passes it to a reader
// or to the Source's Drop.
func (p *Promise[T]) Resolve(v T, err error) bool { return p.f.settle(stateOf(err), v, err) }

// Ready returns a future that is already settled. The future has no Source, so an untaken value is
// not given back.
func Ready[T any](v T, err error) *Future[T] {
	f := &Future[T]{value: v}
	if err != nil {
		f.source = failure[T]{err}
	}
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
