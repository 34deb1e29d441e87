package clientgo

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/readme"
)

func TestReadme_CodeIsInTheExample(t *testing.T) { readme.Check(t) }
