package holdfastprom

import (
	"strconv"
	"strings"
	"sync"
)

// The classes that this package makes.
const (
	// AllClass is the class of every lock if Options.Class is nil.
	AllClass = "all"
	// OtherClass is the class of names without a class of their own: see BeforeColon and
	// Options.MaxClasses.
	OtherClass = "other"
)

// maxClassBytes is the longest class that BeforeColon returns.
const maxClassBytes = 64

// BeforeColon returns the part of a name before its first colon: "orders" for "orders:42". It
// returns OtherClass if there is no colon, or if that part is empty or longer than 64 bytes. A set
// has the class of its first name. It is meant for Options.Class.
func BeforeColon(name string) string {
	class, _, found := strings.Cut(firstName(name), ":")
	if !found || class == "" || len(class) > maxClassBytes {
		return OtherClass
	}
	return class
}

// firstName returns the first name of a set, whose names an event has in quotes. It returns another
// name as it is.
func firstName(name string) string {
	if !strings.HasPrefix(name, `"`) {
		return name
	}
	quoted, err := strconv.QuotedPrefix(name)
	if err != nil {
		return name
	}
	first, err := strconv.Unquote(quoted)
	if err != nil {
		return name
	}
	return first
}

// classes finds what belongs to the class of a name. It keeps at most limit classes.
type classes[T any] struct {
	class func(name string) string
	limit int
	make  func(class string) T

	mu    sync.Mutex
	known map[string]T
	other T // of the classes beyond limit
	full  bool
}

// of returns what belongs to the class of a name.
func (c *classes[T]) of(name string) T {
	class := AllClass
	if c.class != nil {
		class = c.class(name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.known[class]; ok {
		return v
	}
	if len(c.known) < c.limit {
		class = strings.Clone(class) // a part of a long name must not keep the rest
		v := c.make(strings.ToValidUTF8(class, "\uFFFD"))
		c.known[class] = v
		return v
	}
	if !c.full {
		c.full, c.other = true, c.make(OtherClass)
	}
	return c.other
}
