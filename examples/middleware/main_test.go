package main

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }
