//go:build !unix

package soak

import (
	"errors"
	"os"
	"time"
)

const supported = false

var (
	signalStop os.Signal = os.Interrupt
	signalCont os.Signal = os.Interrupt
)

func clock() int64                        { return time.Now().UnixNano() }
func mapFile(string, int) ([]byte, error) { return nil, errors.ErrUnsupported }
func unmap([]byte)                        {}
