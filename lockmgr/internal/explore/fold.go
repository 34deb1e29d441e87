package explore

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A digest identifies a state: states of equal digests count as one.
type digest [2]uint64

// digestOf returns the digest of a world.
//
// Each manager is encoded by itself, with its commands and messages and with its
// fields in the record. So a world and the same world with the managers exchanged
// have one digest.
func digestOf(w *world, e *encoder) digest {
	var parts [len(w.managers)]digest
	for i := range w.managers {
		e.begin(w)
		e.manager(w, i)
		parts[i] = sum(e.end())
	}
	slices.SortFunc(parts[:], func(a, b digest) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	e.begin(w)
	for _, p := range parts {
		e.buf = binary.LittleEndian.AppendUint64(e.buf, p[0])
		e.buf = binary.LittleEndian.AppendUint64(e.buf, p[1])
	}
	fields, until := w.server.Fields(lockKey)
	e.int(int64(len(fields)))
	e.time(until)
	for _, n := range w.left {
		e.int(int64(n))
	}
	e.int(int64(w.inAll))
	e.int(int64(w.detours))
	e.bool(w.disturbed)
	e.bool(w.slowed)
	e.bool(w.excused)
	return sum(e.end())
}

// The numbers of a world lie in ranges, so that the encoder can tell what a number
// is from its value. prime moves the IDs of scripts into their range.
const (
	firstScript  = 1000    // numbers of holds lie below it
	firstRequest = 1 << 40 // scripts lie below it
	firstOwner   = 1 << 41 // named owners
	firstToken   = 1 << 40 // among the signed numbers
	firstInstant = 1000 * time.Hour
)

// An encoder writes values so that states that differ only in their numbers and
// labels have the same form.
type encoder struct {
	buf     []byte
	now     time.Duration
	token   int64
	seen    []unsafe.Pointer
	numbers []uint64
	scripts []script
	sorted  []uint64
}

// A script is the position of a script's ID in the buffer.
type script struct {
	at int
	id uint64
}

func (e *encoder) begin(w *world) {
	e.buf, e.seen, e.numbers, e.scripts = e.buf[:0], e.seen[:0], e.numbers[:0], e.scripts[:0]
	e.now, e.token = w.now, w.token()
}

// end writes each script's ID as its rank among all of them.
func (e *encoder) end() []byte {
	e.sorted = e.sorted[:0]
	for _, s := range e.scripts {
		e.sorted = append(e.sorted, s.id)
	}
	slices.Sort(e.sorted)
	e.sorted = slices.Compact(e.sorted)
	for _, s := range e.scripts {
		rank, _ := slices.BinarySearch(e.sorted, s.id)
		e.buf[s.at] = byte(rank)
	}
	return e.buf
}

func (e *encoder) manager(w *world, i int) {
	m := &w.managers[i]
	encodeManager(e, unsafe.Pointer(m))
	fields, _ := w.server.Fields(lockKey)
	for _, f := range fields {
		if n, mine := m.number(f.Name); mine {
			e.uint64(n)
		}
	}
	e.bool(w.server.Subscribed(channelKey, i))
	if w.stray.until > w.now && w.stray.of == i {
		e.time(w.stray.until)
		e.bool(w.stray.sought)
	}
}

func (e *encoder) bool(b bool) {
	if b {
		e.buf = append(e.buf, 1)
	} else {
		e.buf = append(e.buf, 0)
	}
}

func (e *encoder) int(n int64) {
	if n >= firstToken {
		e.buf = append(e.buf, 0xff)
		n -= e.token
	}
	e.buf = binary.AppendVarint(e.buf, n)
}

// uint64 writes the number of a hold as its order of appearance, the ID of a script as
// its rank, and the ID of a request or an owner as it is.
func (e *encoder) uint64(n uint64) {
	switch {
	case n == 0:
		e.buf = append(e.buf, 0)
	case n < firstScript:
		i := slices.Index(e.numbers, n)
		if i < 0 {
			i = len(e.numbers)
			e.numbers = append(e.numbers, n)
		}
		e.buf = append(e.buf, 1, byte(i))
	case n < firstRequest:
		e.buf = append(e.buf, 2, 0)
		e.scripts = append(e.scripts, script{len(e.buf) - 1, n})
	default:
		e.buf = append(e.buf, 3)
		e.buf = binary.AppendUvarint(e.buf, n)
	}
}

// time writes an instant as its distance from now, and a duration as it is, both
// rounded by step.
func (e *encoder) time(d time.Duration) {
	switch {
	case d == core.Forever:
		e.buf = append(e.buf, 0xff, 0xff)
	case d >= firstInstant/2:
		e.buf = append(e.buf, 0xfe)
		e.step(d - e.now)
	default:
		e.step(d)
	}
}

// step writes a length of time as its order of magnitude. A time that is past is
// rounded to the lengths in past, with which the core compares.
func (e *encoder) step(d time.Duration) {
	if d < 0 {
		i, _ := slices.BinarySearch(past[:], -d)
		e.buf = append(e.buf, 0x80|byte(i))
		return
	}
	if d > 0 {
		d = max(d, ms)
	}
	e.buf = append(e.buf, byte(bits.Len64(uint64(d))))
}

var past = [...]time.Duration{10 * ms, 100 * ms, 1000 * ms, 5000 * ms}

// An encoding writes a value at p.
type encoding func(e *encoder, p unsafe.Pointer)

var (
	encodings     = map[reflect.Type]*encoding{}
	encodeManager = *encodingOf(reflect.TypeFor[manager]())
)

func encodingOf(t reflect.Type) *encoding { return madeOnce(encodings, t, newEncoding) }

// Fields that a digest leaves out or selects by name. If a name no longer exists,
// TestExplorer_WhatADigestLeavesOutIsThere fails.
var (
	// leftOut are fields of types of the core: memory that is only reused, and
	// values that the world has itself.
	leftOut = []string{"Machine.cfg", "Machine.jitter", "Machine.pace", "Machine.now", "Machine.due", "Machine.freeOps", "Machine.freeNames"}
	// gauges are the figures of Stats that are part of a state. The others only
	// count what has happened.
	gauges = []string{"Names", "Waiting", "Held", "Watched", "Subscriptions"}
	// memory are fields of the explorer's own that only checks read.
	memory = []string{"manager.label", "manager.record"}
)

func isLeftOut(t reflect.Type, field string) bool {
	name := t.Name() + "." + field
	switch {
	case t == reflect.TypeFor[core.Stats]():
		return !slices.Contains(gauges, field)
	case strings.HasPrefix(t.PkgPath(), corePath):
		return slices.Contains(leftOut, name)
	}
	return slices.Contains(memory, name)
}

// A renewalMap is the core's map of leases to be renewed. With one name it has one
// item at most.
type renewalMap interface {
	Len() int
	Next() (time.Duration, bool)
}

type scheduled interface{ Scheduled() bool }

func newEncoding(t reflect.Type) encoding {
	switch pointer := reflect.PointerTo(t); {
	case t == reflect.TypeFor[time.Duration]():
		return func(e *encoder, p unsafe.Pointer) { e.time(*(*time.Duration)(p)) }
	case t.Kind() == reflect.Struct && pointer.Implements(reflect.TypeFor[renewalMap]()):
		return func(e *encoder, p unsafe.Pointer) {
			m := reflect.NewAt(t, p).Interface().(renewalMap)
			at, _ := m.Next()
			e.int(int64(m.Len()))
			e.time(at)
		}
	case t.Kind() == reflect.Struct && pointer.Implements(reflect.TypeFor[scheduled]()):
		return func(e *encoder, p unsafe.Pointer) { e.bool(reflect.NewAt(t, p).Interface().(scheduled).Scheduled()) }
	}
	switch t.Kind() {
	case reflect.Bool:
		return func(e *encoder, p unsafe.Pointer) { e.bool(*(*bool)(p)) }
	case reflect.Uint64:
		return func(e *encoder, p unsafe.Pointer) { e.uint64(*(*uint64)(p)) }
	case reflect.Int64:
		return func(e *encoder, p unsafe.Pointer) { e.int(*(*int64)(p)) }
	case reflect.Int:
		return func(e *encoder, p unsafe.Pointer) { e.int(int64(*(*int)(p))) }
	case reflect.Int32:
		return func(e *encoder, p unsafe.Pointer) { e.int(int64(*(*int32)(p))) }
	case reflect.Uint:
		return func(e *encoder, p unsafe.Pointer) { e.int(int64(*(*uint)(p))) }
	case reflect.Uint16:
		return func(e *encoder, p unsafe.Pointer) { e.int(int64(*(*uint16)(p))) }
	case reflect.Uint32:
		return func(e *encoder, p unsafe.Pointer) { e.int(int64(*(*uint32)(p))) }
	case reflect.Uint8:
		return func(e *encoder, p unsafe.Pointer) { e.buf = append(e.buf, *(*uint8)(p)) }
	case reflect.String:
		return func(e *encoder, p unsafe.Pointer) {
			s := *(*string)(p)
			e.int(int64(len(s)))
			e.buf = append(e.buf, s...)
		}
	case reflect.Pointer:
		return encodePointer(t)
	case reflect.Slice:
		return encodeSlice(t)
	case reflect.Map:
		return encodeMap(t)
	case reflect.Interface:
		return encodeInterface(t)
	case reflect.Struct:
		return encodeStruct(t)
	case reflect.Array:
		elem := encodingOf(t.Elem())
		return func(e *encoder, p unsafe.Pointer) {
			for i := range t.Len() {
				(*elem)(e, unsafe.Add(p, uintptr(i)*t.Elem().Size()))
			}
		}
	}
	panic(fmt.Sprintf("explore: a %v can't be encoded", t))
}

func encodePointer(t reflect.Type) encoding {
	if t == reflect.TypeFor[*core.Hold]() { // a part of its first request
		request := encodingOf(reflect.TypeFor[*core.Request]())
		return func(e *encoder, p unsafe.Pointer) {
			var first *core.Request
			if h := *(**core.Hold)(p); h != nil {
				first = h.Request
			}
			(*request)(e, unsafe.Pointer(&first))
		}
	}
	elem := encodingOf(t.Elem())
	return func(e *encoder, p unsafe.Pointer) {
		to := *(*unsafe.Pointer)(p)
		if to == nil || to == untouched {
			e.buf = append(e.buf, 0)
			return
		}
		if i := slices.Index(e.seen, to); i >= 0 {
			e.buf = append(e.buf, 1, byte(i))
			return
		}
		e.seen = append(e.seen, to)
		e.buf = append(e.buf, 2)
		(*elem)(e, to)
	}
}

func encodeSlice(t reflect.Type) encoding {
	elem, size := encodingOf(t.Elem()), t.Elem().Size()
	return func(e *encoder, p unsafe.Pointer) {
		v := reflect.NewAt(t, p).Elem()
		n := v.Len()
		e.int(int64(n))
		first := v.UnsafePointer()
		for i := range n {
			(*elem)(e, unsafe.Add(first, uintptr(i)*size))
		}
	}
}

// encodeMap writes a map in the order of its keys. Keys that are pointers have no
// order, but in a world with one name no map has two of them.
func encodeMap(t reflect.Type) encoding {
	key, elem := encodingOf(t.Key()), encodingOf(t.Elem())
	return func(e *encoder, p unsafe.Pointer) {
		v := reflect.NewAt(t, p).Elem()
		e.int(int64(v.Len()))
		if v.Len() == 0 {
			return
		}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int {
			switch t.Key().Kind() {
			case reflect.String:
				return strings.Compare(a.String(), b.String())
			case reflect.Uint64:
				return cmp.Compare(a.Uint(), b.Uint())
			}
			panic(fmt.Sprintf("explore: the keys of a %v have no order", t))
		})
		for _, k := range keys {
			at, to := reflect.New(t.Key()), reflect.New(t.Elem())
			at.Elem().Set(k)
			to.Elem().Set(v.MapIndex(k))
			(*key)(e, at.UnsafePointer())
			(*elem)(e, to.UnsafePointer())
		}
	}
}

func encodeInterface(t reflect.Type) encoding {
	return func(e *encoder, p unsafe.Pointer) {
		v := reflect.NewAt(t, p).Elem()
		if v.IsNil() {
			e.buf = append(e.buf, 0)
			return
		}
		e.buf = append(e.buf, 1)
		switch x := v.Interface().(type) {
		case error:
			e.buf = append(e.buf, x.Error()...)
		case int:
			e.int(int64(x))
		default:
			in := reflect.New(v.Elem().Type())
			in.Elem().Set(v.Elem())
			e.buf = append(e.buf, in.Type().Elem().String()...)
			(*encodingOf(in.Type().Elem()))(e, in.UnsafePointer())
		}
		e.buf = append(e.buf, 0)
	}
}

func encodeStruct(t reflect.Type) encoding {
	type field struct {
		at uintptr
		to *encoding
	}
	var fields []field
	for i := range t.NumField() {
		if f := t.Field(i); !isLeftOut(t, f.Name) {
			fields = append(fields, field{f.Offset, encodingOf(f.Type)})
		}
	}
	return func(e *encoder, p unsafe.Pointer) {
		for i := range fields {
			(*fields[i].to)(e, unsafe.Add(p, fields[i].at))
		}
	}
}

// sum is a hash of two words that is the same in each run.
func sum(b []byte) digest {
	x, y := uint64(len(b))*0x9e3779b97f4a7c15, uint64(0x243f6a8885a308d3)
	for len(b) > 0 {
		var word uint64
		if len(b) >= 8 {
			word, b = binary.LittleEndian.Uint64(b), b[8:]
		} else {
			for i, c := range b {
				word |= uint64(c) << (8 * i)
			}
			b = nil
		}
		x, y = mix(x^word, 0xe7037ed1a0b428db), mix(y^word, 0x8ebc6af09c88c6e3)^x
	}
	return digest{mix(x, y^0x589965cc75374cc3), mix(y, x^0x1d8e4e27c47d124f)}
}

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xa0761d6478bd642f, b)
	return hi ^ lo
}

// number returns the number of a holder in the record, if it is one of the
// manager's.
func (m *manager) number(field string) (n uint64, mine bool) {
	rest, mine := strings.CutPrefix(field, m.label+":")
	if !mine {
		return 0, false
	}
	n, err := strconv.ParseUint(rest, 10, 64)
	return n, err == nil
}
