package explore

import (
	"bytes"
	"flag"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/thorough"
)

// The most states of each scene with the race detector, and if the tests are not thorough.
const (
	few   = 3000
	quick = 12000
)

// enough is how many states a run of all scenes has at least, without the race detector.
const enough = 100_000

// The flags change the bounds of the scenes. See doc.go.
var (
	states = flag.Int("states", 0, "the most states of each scene; 0 means as many as the scene says")
	depth  = flag.Int("depth", 0, "the most choices in a path; 0 means as many as the scene says")
	nfault = flag.Int("faults", -1, "the most faults in a path; -1 means as many as the scene says")
	detour = flag.Int("detours", -1, "the most detours in a path; 0 means no bound, -1 as many as the scene says")
	path   = flag.String("path", "", "make these choices, and print all events")
)

func TestScenes(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(300)) // few worlds live long
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(2 << 30))
	ran, total := 0, 0
	for _, s := range Scenes() {
		t.Run(s.Name, func(t *testing.T) {
			switch {
			case slow:
				s.Bounds.States = few
			case !thorough.On() && *path == "":
				s.Bounds.States = quick
			}
			if *states > 0 {
				s.Bounds.States = *states
			}
			if *depth > 0 {
				s.Bounds.Depth = *depth
			}
			if *nfault >= 0 {
				s.Bounds.Faults = *nfault
			}
			if *detour >= 0 {
				s.Bounds.Detours = *detour
			}
			if *path != "" {
				var b bytes.Buffer
				v, err := Replay(s, strings.Fields(*path), &b)
				t.Logf("%s%v %v", b.String(), v, err)
				return
			}
			began := time.Now()
			r := Explore(s)
			ran, total = ran+1, total+r.States
			took := time.Since(began)
			t.Logf("%v; %v; %v, %.0f states/s", &r, &s.Bounds, took.Round(time.Millisecond), float64(r.States)/took.Seconds())
			if r.Violation != nil {
				var b bytes.Buffer
				_, _ = Replay(s, r.Path, &b)
				t.Errorf("%s: VIOLATED %v\n%s\nreplay: go test ./lockmgr/internal/explore -v -run 'Scenes/%s' -faults %d -detours %d -path '%s'",
					s.Name, r.Violation, b.String(), s.Name, s.Bounds.Faults, s.Bounds.Detours, strings.Join(r.Path, " "))
			}
		})
	}
	// -run and the flags may leave some of it out.
	if bounded := *states > 0 || *depth > 0 || *nfault >= 0 || *detour >= 0; ran == len(Scenes()) && !slow && !bounded && total < enough {
		t.Errorf("%d states of all scenes, want %d", total, enough)
	}
}
