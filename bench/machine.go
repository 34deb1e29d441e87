package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// machine returns the properties on which figures depend. None of them identifies the machine.
// loads is the file of load averages.
func machine(loads string) result.Machine {
	m := result.Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(),
		GOMAXPROCS: runtime.GOMAXPROCS(0), Go: runtime.Version(),
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if text, err := os.ReadFile(loads); err == nil {
		if f := strings.Fields(string(text)); len(f) >= 3 {
			m.Load = strings.Join(f[:3], " ")
		}
	}
	return m
}

// cores says how many cores there are, and how busy they were if that is known.
func cores(m result.Machine) string {
	text := fmt.Sprintf("%d cores", m.Cores)
	if m.Load != "" {
		text += " with a load of " + m.Load
	}
	return text
}

// versions returns the versions of the modules that are compared.
func versions() map[string]string {
	out := map[string]string{"github.com/holdfast-go/holdfast": "this checkout"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	for _, d := range info.Deps {
		switch d.Path {
		case "github.com/redis/rueidis", "github.com/go-redsync/redsync/v4", "github.com/bsm/redislock",
			"github.com/redis/go-redis/v9":
			out[d.Path] = d.Version
		}
	}
	return out
}
