package explore

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// corePath is the path of package core, whose unexported types are copied and encoded.
var corePath = reflect.TypeFor[core.Machine]().PkgPath()

// clone returns a deep copy of a world. It follows every pointer, also in unexported
// fields of the core. Pointers that were equal are equal in the copy.
func clone(w *world) *world {
	var c copying
	to := new(world)
	*to = *w
	fixWorld(&c, unsafe.Pointer(to))
	return to
}

// shared are the types of pointers that are copied as they are, because their targets
// never change.
var shared = map[reflect.Type]bool{reflect.TypeFor[*Scene](): true}

// A copying is one run of clone.
type copying struct{ done []copied }

type copied struct{ from, to unsafe.Pointer }

// A fixer turns a shallow copy of a value at p into a deep one.
type fixer func(c *copying, p unsafe.Pointer)

var (
	fixers   = map[reflect.Type]*fixer{}
	fixWorld = *fixerOf(reflect.TypeFor[world]())
)

// fixerOf returns the fixer of a type. It points to nil if a shallow copy of a
// value is a deep one.
func fixerOf(t reflect.Type) *fixer { return madeOnce(fixers, t, newFixer) }

// madeOnce returns the fixer or encoding of a type, and makes it at the first call. It
// stores the pointer before it calls make, because a type may refer to itself.
func madeOnce[F any](known map[reflect.Type]*F, t reflect.Type, make func(reflect.Type) F) *F {
	if f := known[t]; f != nil {
		return f
	}
	f := new(F)
	known[t] = f
	*f = make(t)
	return f
}

func newFixer(t reflect.Type) fixer {
	switch t.Kind() {
	case reflect.Pointer:
		if !shared[t] {
			return fixPointer(t)
		}
	case reflect.Slice:
		return fixSlice(t)
	case reflect.Map:
		return fixMap(t)
	case reflect.Interface:
		return fixInterface(t)
	case reflect.Struct:
		return fixStruct(t)
	case reflect.Array:
		elem := fixerOf(t.Elem())
		if *elem == nil && !refers(t.Elem()) {
			return nil
		}
		return func(c *copying, p unsafe.Pointer) {
			for i := range t.Len() {
				if *elem != nil {
					(*elem)(c, unsafe.Add(p, uintptr(i)*t.Elem().Size()))
				}
			}
		}
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return func(_ *copying, p unsafe.Pointer) {
			if !reflect.NewAt(t, p).Elem().IsNil() {
				panic(fmt.Sprintf("explore: a %v can't be copied", t))
			}
		}
	}
	return nil
}

// refers reports whether a type needs a fixer. If that is still nil, it is being made.
func refers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer:
		return !shared[t]
	case reflect.Slice, reflect.Map, reflect.Interface:
		return true
	}
	return false
}

// untouched points to the value that all machines share and none writes.
var untouched = reflect.ValueOf(core.Common()).UnsafePointer()

// inside are the types of the core whose values are parts of larger values, each with
// its field that points to the whole.
var inside = map[string]string{"Hold": "Request", "entry": "of"}

// fixInside returns the fixer of a pointer to a part of a value. field is the part's
// field that points to the whole, or is nil while the core keeps the whole for later
// use. A request that was lost may point into such a whole.
func fixInside(part reflect.Type, field reflect.StructField) fixer {
	whole := fixerOf(field.Type)
	var place uintptr
	for _, f := range reflect.VisibleFields(field.Type.Elem()) {
		if f.Type == part {
			place = f.Offset
		}
	}
	return func(c *copying, p unsafe.Pointer) {
		at := (*unsafe.Pointer)(p)
		if *at == nil {
			return
		}
		from := *(*unsafe.Pointer)(unsafe.Add(*at, field.Offset))
		if from == nil {
			from = unsafe.Add(*at, -int(place))
		}
		distance := uintptr(*at) - uintptr(from)
		(*whole)(c, unsafe.Pointer(&from))
		*at = unsafe.Add(from, distance)
	}
}

func fixPointer(t reflect.Type) fixer {
	if name, ok := inside[t.Elem().Name()]; ok && t.Elem().PkgPath() == corePath {
		field, ok := t.Elem().FieldByName(name)
		if !ok {
			panic(fmt.Sprintf("explore: %v has no field %s", t, name))
		}
		return fixInside(t.Elem(), field)
	}
	elem := fixerOf(t.Elem())
	return func(c *copying, p unsafe.Pointer) {
		at := (*unsafe.Pointer)(p)
		from := *at
		if from == nil || from == untouched {
			return
		}
		for i := range c.done {
			if c.done[i].from == from {
				*at = c.done[i].to
				return
			}
		}
		to := reflect.New(t.Elem())
		to.Elem().Set(reflect.NewAt(t.Elem(), from).Elem())
		*at = to.UnsafePointer()
		c.done = append(c.done, copied{from, *at})
		if *elem != nil {
			(*elem)(c, *at)
		}
	}
}

func fixSlice(t reflect.Type) fixer {
	elem, size := fixerOf(t.Elem()), t.Elem().Size()
	return func(c *copying, p unsafe.Pointer) {
		from := reflect.NewAt(t, p).Elem()
		n := from.Len()
		if n == 0 {
			from.SetZero()
			return
		}
		to := reflect.MakeSlice(t, n, n)
		reflect.Copy(to, from)
		from.Set(to)
		if *elem != nil {
			first := to.UnsafePointer()
			for i := range n {
				(*elem)(c, unsafe.Add(first, uintptr(i)*size))
			}
		}
	}
}

func fixMap(t reflect.Type) fixer {
	key, elem := fixerOf(t.Key()), fixerOf(t.Elem())
	return func(c *copying, p unsafe.Pointer) {
		from := reflect.NewAt(t, p).Elem()
		if from.IsNil() {
			return
		}
		to := reflect.MakeMapWithSize(t, from.Len())
		if from.Len() > 0 {
			for it := from.MapRange(); it.Next(); {
				k, v := reflect.New(t.Key()), reflect.New(t.Elem())
				k.Elem().Set(it.Key())
				v.Elem().Set(it.Value())
				if *key != nil {
					(*key)(c, k.UnsafePointer())
				}
				if *elem != nil {
					(*elem)(c, v.UnsafePointer())
				}
				to.SetMapIndex(k.Elem(), v.Elem())
			}
		}
		from.Set(to)
	}
}

// fixInterface copies pointers to types of the core. Other values of an interface,
// such as errors and numbers, do not change.
func fixInterface(t reflect.Type) fixer {
	return func(c *copying, p unsafe.Pointer) {
		v := reflect.NewAt(t, p).Elem()
		if v.IsNil() || !ofCore(v.Elem().Type()) {
			return
		}
		in := reflect.New(v.Elem().Type())
		in.Elem().Set(v.Elem())
		(*fixerOf(in.Type().Elem()))(c, in.UnsafePointer())
		v.Set(in.Elem())
	}
}

// ofCore reports whether a type is a pointer to a type of the core that is not
// an error.
func ofCore(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && strings.HasPrefix(t.Elem().PkgPath(), corePath) && !t.Implements(reflect.TypeFor[error]())
}

func fixStruct(t reflect.Type) fixer {
	type field struct {
		at  uintptr
		fix *fixer
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		if fix := fixerOf(f.Type); *fix != nil || refers(f.Type) {
			fields = append(fields, field{f.Offset, fix})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return func(c *copying, p unsafe.Pointer) {
		for i := range fields {
			if fix := *fields[i].fix; fix != nil {
				fix(c, unsafe.Add(p, fields[i].at))
			}
		}
	}
}
