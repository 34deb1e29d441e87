package soak

import (
	"unsafe"

	"github.com/holdfast-go/holdfast/bench/internal/check"
)

// registers are the resources that the locks protect, one for each name, in memory that all
// processes share.
type registers struct {
	memory []byte
	list   []check.Register
}

// openRegisters maps the file of the registers, and makes it if need be.
func openRegisters(path string, names int) (*registers, error) {
	memory, err := mapFile(path, names*int(unsafe.Sizeof(check.Register{})))
	if err != nil {
		return nil, err
	}
	// A mapping begins at a page, so the words in it are aligned.
	return &registers{memory, unsafe.Slice((*check.Register)(unsafe.Pointer(&memory[0])), names)}, nil
}

func (r *registers) close() { unmap(r.memory) }
