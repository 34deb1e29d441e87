package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// rwRounds is how often each kind of wake-up is measured.
const rwRounds = 7

func TestReadWrite_LastJavaReaderWakesGoWriter(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g := w.manager(t, lockmgr.Options{})
		a, b := w.open(t, request{}).thread("a").reads(), w.open(t, request{}).thread("b").reads()
		var took []time.Duration
		for range rwRounds {
			w.awaitFree(t, name)
			a.lock(t, name)
			b.lock(t, name)
			waiting := g.startRefused(t, name, writing)
			w.awaitRWListeners(t, name, 1)
			a.unlock(t, name)
			require.Equal(t, rwRecord("read", b.owner(t)), w.record(t, name))
			require.False(t, waiting.over())
			took = append(took, wakes(t, func() { b.unlock(t, name) }, waiting)...)
			l := waiting.granted(t)
			require.Equal(t, rwRecord("write", l.HolderID()), w.record(t, name))
			unlock(t, l)
		}
		requireWoken(t, "a Go writer after the last reader of Java", took)
	})
}

func TestReadWrite_LastGoReaderWakesJavaWriter(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g, other := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{})
		java := w.open(t, request{}).thread("a").writes()
		var took []time.Duration
		for range rwRounds {
			readers := []*lockmgr.Lock{
				lock(t, g, name, reading), lock(t, g, name, reading),
				lock(t, other, name, reading), lock(t, other, name, reading),
			}
			waiting := w.startJavaSleep(t, java, name)
			unlock(t, readers[:3]...)
			require.Equal(t, rwRecord("read", readers[3].HolderID()), w.record(t, name))
			require.False(t, waiting.answered())
			took = append(took, wakes(t, func() { unlock(t, readers[3]) }, waiting)...)
			java.unlock(t, name)
		}
		requireWoken(t, "a Java writer after the last reader of Go", took)
	})
}

// Several readers of Go wait for a writer of Java, then a reader and a writer.
func TestReadWrite_JavaWriterWakesGo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		one, two := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{})
		java := w.open(t, request{}).thread("a").writes()
		var readers, writers []time.Duration
		for range rwRounds {
			w.awaitFree(t, name)
			java.lock(t, name)
			waiting := []*wait{one.startRefused(t, name, reading), two.startRefused(t, name, reading)}
			waiting = append(waiting, one.startQueued(t, name, reading), two.startQueued(t, name, reading))
			w.awaitRWListeners(t, name, 2)
			readers = append(readers, wakes(t, func() { java.unlock(t, name) }, waiting...)...) // all at a time
			require.Equal(t, rwRecord("read", waiting[0].lock.HolderID(), waiting[1].lock.HolderID()), w.record(t, name))
			for _, r := range waiting {
				unlock(t, r.lock)
			}
		}
		for range rwRounds {
			w.awaitFree(t, name)
			java.lock(t, name)
			writer, reader := one.startRefused(t, name, writing), two.startRefused(t, name, reading)
			begin := time.Now()
			java.unlock(t, name)
			first, second := writer, reader
			select {
			case <-writer.done:
			case <-reader.done:
				first, second = reader, writer
			case <-time.After(eventLimit):
				require.FailNow(t, "nobody was woken")
			}
			unlock(t, first.granted(t))
			unlock(t, second.granted(t))
			readers, writers = append(readers, reader.at.Sub(begin)), append(writers, writer.at.Sub(begin))
		}
		requireWoken(t, "Go readers after a writer of Java", readers)
		requireWoken(t, "Go writers after a writer of Java", writers)
	})
}

// Redisson wakes one thread of a client by the message 0, and all of them by 1.
func TestReadWrite_GoWriterWakesJava(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		name := t.Name()
		g := w.manager(t, lockmgr.Options{})
		one, two := w.two(t)
		threads := append(one.readers(3), two.readers(2)...)
		var readers []time.Duration
		for range rwRounds {
			l := lock(t, g, name, writing)
			var waiting []*call
			for _, j := range threads {
				waiting = append(waiting, w.startJavaSleep(t, j, name))
			}
			readers = append(readers, wakes(t, func() { unlock(t, l) }, waiting...)...) // all at a time
			for _, j := range threads {
				j.unlock(t, name)
			}
		}
		requireWoken(t, "Java readers after a writer of Go", readers)
	})
}
