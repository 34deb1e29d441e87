package thorough

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOr(t *testing.T) {
	t.Setenv(Variable, "")
	require.Equal(t, 2, Or(2, 5))
	t.Setenv(Variable, "1")
	require.Equal(t, 5, Or(2, 5))
}
