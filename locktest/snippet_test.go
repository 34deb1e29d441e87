package locktest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The snippet of the pages is the test that runs.
func TestSnippet_IsTheTestThatRuns(t *testing.T) {
	test, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, want, found := strings.Cut(string(test), "func TestJob")
	require.True(t, found)
	want = strings.TrimSpace("func TestJob" + want)

	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	blocks := strings.Split(string(page), "```")
	require.Len(t, blocks, 3, "one snippet")
	require.Equal(t, want, strings.TrimSpace(strings.TrimPrefix(blocks[1], "go\n")))

	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	commented := "//\t" + strings.ReplaceAll(want, "\n", "\n//\t")
	require.Contains(t, string(doc), commented)
	require.LessOrEqual(t, strings.Count(string(page), "\n"), 40)
}
