package model

import (
	"maps"
	"reflect"
	"slices"
)

// Data is a copy of some keys of a Server.
type Data struct{ keys map[string]*value }

// Copy returns a copy of the keys that of accepts.
func (s *Server) Copy(of func(key string) bool) Data {
	d := Data{keys: map[string]*value{}}
	for key, v := range s.keys {
		if of(key) {
			d.keys[key] = v.clone()
		}
	}
	return d
}

// Differs reports whether a copy and the server differ in the keys that of accepts. Keys that have
// expired count as gone.
func (s *Server) Differs(d Data, of func(key string) bool) bool {
	live := func(keys map[string]*value) map[string]*value {
		out := maps.Clone(keys)
		maps.DeleteFunc(out, func(key string, v *value) bool { return !of(key) || s.ms() > v.end })
		return out
	}
	return !reflect.DeepEqual(live(s.keys), live(d.keys))
}

// Restore replaces the keys that of accepts by those of a copy.
func (s *Server) Restore(d Data, of func(key string) bool) {
	maps.DeleteFunc(s.keys, func(key string, _ *value) bool { return of(key) })
	for key, v := range d.keys {
		if of(key) {
			s.put(key, v.clone())
		}
	}
}

func (v *value) clone() *value {
	c := *v
	c.hash, c.members, c.list = slices.Clone(v.hash), slices.Clone(v.members), slices.Clone(v.list)
	return &c
}
