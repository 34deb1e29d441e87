//go:build unix

package soak

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const supported = true

// The signals that stop a process and let it go on.
const (
	signalStop = syscall.SIGSTOP
	signalCont = syscall.SIGCONT
)

// mapFile maps a file that is to be shared by processes. The memory stays until the process ends.
func mapFile(path string, size int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func unmap(b []byte) { _ = unix.Munmap(b) }
