package futures

// dispatcherOf returns the Dispatcher for the callbacks of the futures of s. If nil, the goroutine
// that settles a future runs the callbacks.
func dispatcherOf[T any](s Source[T]) Dispatcher {
	switch s := s.(type) {
	case interface{ dispatcher() Dispatcher }:
		return s.dispatcher()
	case Dispatcher:
		return s
	}
	return nil
}

// dispatcher returns the Dispatcher of f's callbacks, or nil. dispatcher may return nil for a
// failed future.
func (f *Future[T]) dispatcher() Dispatcher {
	f.mu.Lock()
	defer f.mu.Unlock()
	return dispatcherOf(f.source)
}

// dispatched returns a function that dispatches drop to d. Either may be nil.
func dispatched[T any](d Dispatcher, drop func(T)) func(T) {
	if d == nil || drop == nil {
		return drop
	}
	return func(v T) { d.Dispatch(func() { drop(v) }) }
}
