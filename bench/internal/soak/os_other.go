//go:build !unix

package soak

import (
	"errors"
	"os"
)

const supported = false

var (
	signalStop os.Signal = os.Interrupt
	signalCont os.Signal = os.Interrupt
)

func mapFile(string, int) ([]byte, error) { return nil, errors.ErrUnsupported }
func unmap([]byte)                        {}
