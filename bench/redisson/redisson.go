package redisson

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Version is the version that is measured. It is also that of pom.xml.
const Version = "4.7.0"

// Main is the class to run.
const Main = "holdfast.bench.Bench"

const (
	leastJava    = 17
	buildTimeout = 4 * time.Minute
)

//go:embed pom.xml src
var sources embed.FS

// A Program is what Build has built.
type Program struct {
	Java      string // the binary
	Version   string // of Java, as it says
	ClassPath string
}

// Build finds a JVM and returns the program, which it builds if need be. cache is a folder to build
// in; empty means the user's. The error says what is missing.
func Build(ctx context.Context, cache string) (*Program, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, errors.New("there is no java on PATH")
	}
	p := &Program{Java: java}
	if p.Version, err = javaVersion(ctx, java); err != nil {
		return nil, err
	}
	if cache == "" {
		if cache, err = os.UserCacheDir(); err != nil {
			return nil, err
		}
		cache = filepath.Join(cache, "holdfast-bench")
	}
	sum, err := sourceSum()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(cache, "redisson-"+Version+"-"+sum)
	p.ClassPath = filepath.Join(folder, "target", "classes") + string(os.PathListSeparator) + filepath.Join(folder, "target", "lib", "*")
	if _, err := os.Stat(folder); err == nil {
		return p, nil
	}
	return p, build(ctx, cache, folder)
}

// build builds into a folder beside the one that is wanted, and renames it in the end.
func build(ctx context.Context, cache, folder string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return errors.New("there is no mvn (Maven) on PATH")
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, sources); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	var said string
	for _, mode := range []string{"-o", "-U"} { // offline, and if that fails with the repositories
		if said, err = run(ctx, dir, mvn, "-B", "-q", mode, "-Dredisson.version="+Version, "process-classes"); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("maven has failed: %w: %s", err, firstError(said))
	}
	if err := os.Rename(dir, folder); err != nil {
		if _, missing := os.Stat(folder); missing == nil {
			return nil // somebody else was faster
		}
		return err
	}
	return nil
}

// run runs a command to its end, or to that of ctx, and returns what it has printed.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second // its children hold the same pipe
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// firstError returns the first line that Maven marks as an error.
func firstError(said string) string {
	for line := range strings.Lines(said) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "[ERROR] "); ok {
			return text
		}
	}
	return strings.TrimSpace(said)
}

var versionLine = regexp.MustCompile(`version "((?:1\.)?(\d+)[^"]*)"`)

// javaVersion returns the version of a JVM, or an error if it is too old.
func javaVersion(ctx context.Context, java string) (string, error) {
	said, err := run(ctx, "", java, "-version")
	if err != nil {
		return "", fmt.Errorf("java -version: %w", err)
	}
	return parseVersion(said)
}

func parseVersion(said string) (string, error) {
	m := versionLine.FindStringSubmatch(said)
	if m == nil {
		return "", fmt.Errorf("java -version says %q", said)
	}
	if major, err := strconv.Atoi(m[2]); err != nil || major < leastJava {
		return "", fmt.Errorf("java %s is too old, it must be %d or newer", m[1], leastJava)
	}
	return m[1], nil
}

// sourceSum returns a hash of all that the program is built from.
func sourceSum() (string, error) {
	h := sha256.New()
	err := fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:16], err
}
