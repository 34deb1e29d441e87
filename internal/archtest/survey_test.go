package archtest

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// repoOf is a repository of one file.
func repoOf(name, src string) fstest.MapFS {
	return fstest.MapFS{name: {Data: []byte(src)}}
}

// importing is a file that imports the given path.
func importing(path string) string {
	return "package p\n\nimport _ \"" + path + "\"\n"
}

func TestSurvey_FindsEachBrokenRule(t *testing.T) {
	for _, c := range []struct {
		name, file, src, want string
	}{
		{"rueidis in a second file", "lockmgr/manager.go", importing(rueidis), "imports rueidis"},
		{"a part of rueidis", "notify/feed.go", importing(rueidis + "/pkg/cmds"), "imports rueidis"},
		{"rueidis in the kernel", "actor/loop.go", importing(rueidis), "imports rueidis"},
		{"rueidis in the core", "lockmgr/internal/core/lock.go", importing(rueidis), "imports rueidis"},
		{"a file of the same name elsewhere", "renewal/redis.go", importing(rueidis), "imports rueidis"},
		{"testify in the library", "futures/future.go", importing(testify + "/require"), "outside a test"},
		{"Lua in the library", "lockmgr/redis.go", importing(lua), "outside a test"},
		{"miniredis in the library", "lockmgr/redis.go", importing(miniredis), "outside a test"},
		{"testify in an example", "examples/quickstart/main.go", importing(testify + "/require"), "outside a test"},
		{"testing in the library", "lockmgr/lock.go", importing("testing"), "imports testing"},
		{"actor imports ours", "actor/loop.go", importing(module + "/futures"), "may import [] of ours"},
		{"futures imports ours", "futures/future.go", importing(module + "/actor"), "may import [] of ours"},
		{"renewal imports ours", "renewal/wheel.go", importing(module + "/futures"), "may import [] of ours"},
		{"notify imports upwards", "notify/feed.go", importing(module + "/lockmgr"), "imports lockmgr"},
		{"notify imports sideways", "notify/feed.go", importing(module + "/renewal"), "imports renewal"},
		{"a folder below follows its parent", "notify/internal/x/x.go", importing(module + "/renewal"), "imports renewal"},
		{"the core imports upwards", "lockmgr/internal/core/lock.go", importing(module + "/notify"), "imports notify"},
		{"the library imports test support", "lockmgr/lock.go", importing(module + "/internal/redistest"), "imports internal/redistest"},
		{"what the library imports imports testing", "internal/clean/a.go", importing("testing"), "imports testing"},
		{"what the library imports imports test support", "internal/clean/a.go", importing(module + "/internal/leakcheck"), "may import [] of ours"},
		{"lockmgr imports its simulation", "lockmgr/lock.go", importing(module + "/lockmgr/internal/turns"), "it is for tests"},
		{"a new package imports test support", "metrics/metrics.go", importing(module + "/internal/leakcheck"), "it is for tests"},
		{"the library imports its root", "actor/loop.go", importing(module), "may import [] of ours"},
		{"a new package imports lockmgr", "metrics/metrics.go", importing(module + "/lockmgr"), "imports point one way"},
		{"test support imports lockmgr", "internal/x/x.go", importing(module + "/lockmgr"), "imports point one way"},

		{"context in the core", "lockmgr/internal/core/a.go", importing("context"), "imports context"},
		{"sync in the core", "lockmgr/internal/core/a.go", importing("sync"), "imports sync"},
		{"atomics in the core", "lockmgr/internal/core/a.go", importing("sync/atomic"), "imports sync/atomic"},
		{"net in the core", "lockmgr/internal/core/a.go", importing("net"), "imports net"},
		{"os in the core", "lockmgr/internal/core/a.go", importing("os"), "imports os"},
		{"math/rand in the core", "lockmgr/internal/core/a.go", importing("math/rand/v2"), "imports math/rand/v2"},
		{"crypto/rand in the core", "lockmgr/internal/core/a.go", importing("crypto/rand"), "imports crypto/rand"},
		{"uuid in the core", "lockmgr/internal/core/a.go", importing("github.com/google/uuid"), "no module of others"},
		{"sync in renewal", "renewal/a.go", importing("sync"), "imports sync"},
		{"go statement", "lockmgr/internal/core/a.go", "package p\nfunc f() { go f() }", "a go statement"},
		{"channel type", "lockmgr/internal/core/a.go", "package p\nvar c chan int", "a channel type"},
		{"channel receive", "lockmgr/internal/core/a.go", "package p\nfunc f() { <-c }", "a channel receive"},
		{"channel send", "lockmgr/internal/core/a.go", "package p\nfunc f() { c <- 1 }", "a channel send"},
		{"select", "lockmgr/internal/core/a.go", "package p\nfunc f() { select {} }", "a select statement"},
		{"the clock", "lockmgr/internal/core/a.go", "package p\nimport \"time\"\nvar t = time.Now()", "line 3 has time.Now"},
		{"a timer", "renewal/a.go", "package p\nimport \"time\"\nvar t = time.After(time.Second)", "time.After"},
		{"the clock as a value", "renewal/a.go", "package p\nimport \"time\"\nvar now = time.Now", "time.Now"},
		{"the clock under another name", "lockmgr/internal/core/a.go", "package p\nimport t \"time\"\nvar x = t.Since(y)", "time.Since"},
		{"the clock with a dot", "lockmgr/internal/core/a.go", "package p\nimport . \"time\"\nvar x = Now()", "with a dot"},

		{"init", "lockmgr/lock.go", "package p\nfunc init() {}", "init function"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := survey(repoOf(c.file, c.src))
			require.NoError(t, err)
			// Some files break a general rule and purity at once.
			require.Contains(t, strings.Join(r.violations, "\n"), c.want)
			for _, v := range r.violations {
				require.Contains(t, v, c.file+": ")
			}
		})
	}
}

func TestSurvey_WhatIsAllowed(t *testing.T) {
	for _, c := range []struct{ name, file, src string }{
		{"rueidis where it belongs", "lockmgr/redis.go", importing(rueidis)},
		{"rueidis in an example", "examples/quickstart/main.go", importing(rueidis)},
		{"rueidis in a benchmark", "bench/peers/main.go", importing(rueidis)},
		{"rueidis in a test", "actor/loop_test.go", importing(rueidis)},
		{"testify in a test", "actor/loop_test.go", importing(testify + "/require")},
		{"miniredis in an example", "examples/internal/server/server.go", importing(miniredis)},
		{"miniredis in a benchmark", "bench/internal/server/server.go", importing(miniredis)},
		{"miniredis in test support", "internal/redistest/mini.go", importing(miniredis)},
		{"Lua in the server of the simulations", "internal/luaserver/engine.go", importing(lua)},
		{"testing in test support", "internal/redistest/mini.go", importing("testing")},
		{"testing in the simulation", "lockmgr/internal/turns/world.go", importing("testing")},
		{"test support in test support", "lockmgr/internal/turns/world.go", importing(module + "/internal/luaserver")},
		{"lockmgr in a program", "bench/main.go", importing(module + "/lockmgr")},
		{"lockmgr in a test", "notify/feed_test.go", importing(module + "/lockmgr")},
		{"notify imports the kernel", "notify/feed.go", importing(module + "/actor")},
		{"lockmgr imports its core", "lockmgr/lock.go", importing(module + "/lockmgr/internal/core")},
		{"a folder of lockmgr imports the core", "lockmgr/internal/turns/world.go", importing(module + "/lockmgr/internal/core")},
		{"the core imports renewal", "lockmgr/internal/core/a.go", importing(module + "/renewal")},
		{"durations in the core", "lockmgr/internal/core/a.go", "package p\nimport \"time\"\nvar d time.Duration = time.Second"},
		{"a field called Now", "lockmgr/internal/core/a.go", "package p\nvar x = m.Now"},
		{"a method called init", "lockmgr/a.go", "package p\nfunc (T) init() {}"},
		{"a module whose name begins like ours", "actor/a.go", importing(module + "-tools/x")},
		{"what the go command leaves out", "actor/testdata/x.go", importing(rueidis)},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := survey(repoOf(c.file, c.src))
			require.NoError(t, err)
			require.Empty(t, r.violations)
		})
	}
}

func TestSurvey_FileThatDoesNotParseIsAnError(t *testing.T) {
	_, err := survey(repoOf("actor/a.go", "package"))
	require.Error(t, err)
}

func TestRequirements(t *testing.T) {
	const text = `module ` + module + `

go 1.26.0

require github.com/google/uuid v1.6.0 // for owners

require (
	github.com/redis/rueidis v1.0.79
	golang.org/x/sys v0.47.0 // indirect
)

replace golang.org/x/text => ../text
`
	var r report
	require.Equal(t, 3, r.requires("go.mod", text))
	require.Empty(t, r.violations)

	for _, line := range []string{
		"require go.uber.org/goleak v1.3.0",
		"require (\n\tgo.uber.org/goleak v1.3.0\n)",
		"require (\n\tgo.uber.org/goleak v1.3.0 // direct\n)",
	} {
		var r report
		require.Equal(t, 1, r.requires("go.mod", line))
		require.Len(t, r.violations, 1)
		require.Contains(t, r.violations[0], "go.mod: requires go.uber.org/goleak")
	}
}
