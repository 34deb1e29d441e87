package redisson

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestVersion_IsThatOfThePom(t *testing.T) {
	pom, err := sources.ReadFile("pom.xml")
	require.NoError(t, err)
	require.Contains(t, string(pom), "<redisson.version>"+Version+"<")
}

func TestJavaVersion(t *testing.T) {
	for said, want := range map[string]string{
		`openjdk version "17.0.15" 2025-04-15`: "17.0.15",
		`java version "21" 2023-09-19 LTS`:     "21",
		`openjdk version "1.8.0_412"`:          "",
		`openjdk version "11.0.2" 2019-01-15`:  "",
		`sh: java: not found`:                  "",
	} {
		got, err := parseVersion(said)
		require.Equal(t, want, got, said)
		require.Equal(t, want == "", err != nil, said)
	}
}

// tools makes PATH a folder with the given scripts.
func tools(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755))
	}
	t.Setenv("PATH", dir+":/bin:/usr/bin")
	if len(scripts) == 0 {
		t.Setenv("PATH", dir)
	}
}

const java17 = "echo 'openjdk version \"17.0.1\"' >&2\n"

// Each missing part is named.
func TestBuild_WithoutItsTools(t *testing.T) {
	tools(t, nil)
	_, err := Build(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "no java")

	tools(t, map[string]string{"java": "echo 'openjdk version \"11.0.1\"' >&2\n"})
	_, err = Build(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "too old")

	cache := t.TempDir()
	tools(t, map[string]string{"java": java17, "mvn": "echo '[ERROR] no network'; exit 1\n"})
	_, err = Build(t.Context(), cache)
	require.ErrorContains(t, err, "no network")
	left, err := os.ReadDir(cache)
	require.NoError(t, err)
	require.Empty(t, left, "a failed build leaves nothing")
}

// What was built is used again.
func TestBuild_Once(t *testing.T) {
	cache, count := t.TempDir(), filepath.Join(t.TempDir(), "count")
	tools(t, map[string]string{"java": java17, "mvn": "echo built >> '" + count + "'; test -f pom.xml && test -d src\n"})
	first, err := Build(t.Context(), cache)
	require.NoError(t, err)
	second, err := Build(t.Context(), cache)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Equal(t, "17.0.1", first.Version)
	require.Contains(t, first.ClassPath, cache)
	text, err := os.ReadFile(count)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), "built"))
}
