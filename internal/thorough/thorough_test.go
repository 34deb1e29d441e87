package thorough

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChoose(t *testing.T) {
	t.Setenv(Variable, "")
	require.Equal(t, 2, Choose(2, 5))
	t.Setenv(Variable, "1")
	require.Equal(t, 5, Choose(2, 5))
}
