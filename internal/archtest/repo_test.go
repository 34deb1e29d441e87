package archtest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests of a package run in its folder.
const root = "../.."

func TestRepository_KeepsItsRules(t *testing.T) {
	r, err := survey(os.DirFS(root))
	require.NoError(t, err)
	mod, err := os.ReadFile(root + "/go.mod")
	require.NoError(t, err)
	require.Positive(t, r.requires("go.mod", string(mod)), "no requirement found in go.mod")
	// Where nothing is read, nothing is found.
	require.Positive(t, r.files["internal/archtest"], "this package's own file was not read")
	for _, v := range r.violations {
		t.Error(v)
	}
}

// A rule about a folder that is not there holds for nothing.
func TestRules_FoldersExist(t *testing.T) {
	r, err := survey(os.DirFS(root))
	require.NoError(t, err)
	for dir := range packages {
		if r.files[dir] == 0 {
			t.Errorf("%s has no Go files: has it moved? Then its rules must follow", dir)
		}
	}
	for _, dir := range pure {
		require.Contains(t, packages, dir)
	}
	for _, name := range rueidisFiles {
		_, err := os.Stat(root + "/" + name)
		require.NoError(t, err, "a file that has a permission to import rueidis")
	}
}
