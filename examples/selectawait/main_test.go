package main

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel(8)
	leakcheck.Main(m)
}
