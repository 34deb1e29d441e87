package holdfastprom

import (
	"slices"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// Tee returns an observer that passes each event to all observers, in their order. It leaves out
// those that are nil. The function that it returns blocks until all observers have returned.
func Tee(observers ...func(lockmgr.Event)) func(lockmgr.Event) {
	observers = slices.DeleteFunc(slices.Clone(observers), func(f func(lockmgr.Event)) bool { return f == nil })
	return func(e lockmgr.Event) {
		for _, observe := range observers {
			observe(e)
		}
	}
}
