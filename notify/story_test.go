package notify

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actor"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var rewrite = flag.Bool("rewrite", false, "write what happens into testdata instead of comparing it")

// TestStories plays the files in testdata: a line is a step, and the lines with ">" under it are
// all that came of it once everything was quiet again, in alphabetical order. Steps are:
//
//	watch W CHANNEL      Hub.Watch, W being its name from here on
//	next W [AFTER]       W.Next, after the last wake-up that the story has shown
//	cancel W             cancels what next W returned last
//	hold W               W.Next with a callback that holds up the hub until release
//	release
//	close W, stop        Watch.Close, Hub.Stop
//	many N, closemany    watches of N channels, named by number; closes them
//	stats, err
//	sleep DURATION
//
// A step can also be a report of a connection, the newest one or that with a number:
//
//	[N:] up | confirm CHANNEL... | confirmall | message CHANNEL | gone CHANNEL | answer
//	     | refuse TEXT | end TEXT
//
// Run with -rewrite to record the outcome anew, and look at every difference.
func TestStories(t *testing.T) {
	files := redistest.Must(filepath.Glob("testdata/*.txt"))(t)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			want := redistest.Must(os.ReadFile(file))(t)
			var got []byte
			synctest.Test(t, func(t *testing.T) { got = play(t, want) })
			if *rewrite {
				require.NoError(t, os.WriteFile(file, got, 0o644))
				return
			}
			require.Equal(t, string(want), string(got))
		})
	}
}

// play runs a story and returns it with what really happened.
func play(t *testing.T, text []byte) []byte {
	s := &story{
		t:       t,
		watches: make(map[string]*Watch),
		seen:    make(map[string]uint64),
		cancels: make(map[string]func() bool),
	}
	s.hub = &Hub{}
	s.core = newCore(s.hub, s, Options{
		RetryMin:       10 * time.Millisecond,
		RetryMax:       80 * time.Millisecond,
		DialTimeout:    time.Second,
		CommandTimeout: time.Second,
		IdleTimeout:    time.Minute,
		OnState:        func(st State) { s.log("state %v", st) },
	})
	s.hub.actor = actor.Start[input](s.core)
	var out bytes.Buffer
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, ">") {
			continue
		}
		fmt.Fprintln(&out, line)
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			s.step(fields)
			synctest.Wait()
			for _, l := range s.flush() {
				fmt.Fprintln(&out, ">", l)
			}
		}
	}
	// A story may end in the middle of things. The hub must be able to.
	s.hub.Stop()
	for _, l := range s.links {
		l.feed.ended(errHungUp)
	}
	<-s.hub.Done()
	return out.Bytes()
}

type story struct {
	t       *testing.T
	hub     *Hub
	core    *core // of the hub's goroutine, so to be read in a quiet moment only
	watches map[string]*Watch
	cancels map[string]func() bool
	held    chan struct{}
	crowd   []*Watch

	mu    sync.Mutex
	lines []string
	seen  map[string]uint64
	links []*scripted
}

// scripted is a link that does nothing by itself.
type scripted struct {
	*story
	n    int
	feed *feed
	last []string // channels of the last command
}

func (s *story) dial(f *feed) link {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &scripted{story: s, n: len(s.links) + 1, feed: f}
	s.links = append(s.links, l)
	s.lines = append(s.lines, fmt.Sprintf("%d dial", l.n))
	return l
}

func (l *scripted) subscribe(names []string)   { l.sent("SUBSCRIBE", names) }
func (l *scripted) unsubscribe(names []string) { l.sent("UNSUBSCRIBE", names) }
func (l *scripted) hangUp()                    { l.log("%d hang up", l.n) }

func (l *scripted) sent(command string, names []string) {
	l.last = names
	// Which of several comes first is left to chance where nobody minds.
	names = slices.Sorted(slices.Values(names))
	if len(names) > 8 {
		names = []string{fmt.Sprintf("(%d)", len(names))}
	}
	l.log("%d %s %s", l.n, command, strings.Join(names, " "))
}

func (s *story) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *story) flush() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.lines
	s.lines = nil
	slices.Sort(lines)
	return lines
}

func (s *story) step(words []string) {
	if n, ok := strings.CutSuffix(words[0], ":"); ok {
		i := redistest.Must(strconv.Atoi(n))(s.t)
		s.links[i-1].report(words[1:])
		return
	}
	text := strings.Join(words[1:], " ")
	switch words[0] {
	case "watch":
		s.watches[words[1]] = s.hub.Watch(words[2])
	case "next":
		s.next(words[1:])
	case "cancel":
		s.log("cancelled %v", s.cancels[words[1]]())
	case "hold":
		held := make(chan struct{})
		s.held = held
		f := s.watches[words[1]].Next(s.seen[words[1]])
		f.OnDone(func(Wake, error) { <-held })
	case "release":
		close(s.held)
	case "close":
		s.watches[words[1]].Close()
	case "many":
		n := redistest.Must(strconv.Atoi(text))(s.t)
		for i := range n {
			s.crowd = append(s.crowd, s.hub.Watch(fmt.Sprintf("%04d", i)))
		}
	case "closemany":
		for _, w := range s.crowd {
			w.Close()
		}
		s.crowd = nil
	case "stop":
		s.hub.Stop()
		go func() { <-s.hub.Done(); s.log("done") }()
	case "stats":
		st := s.hub.Stats()
		s.log("%v watches=%d channels=%d (kept %d) confirmed=%d refused=%d",
			st.State, st.Watches, st.Channels, len(s.core.conn.channels), st.Confirmed, st.Refused)
		s.log("connects=%d losses=%d messages=%d coalesced=%d strays=%d wakes=%d",
			st.Connects, st.Losses, st.Messages, st.Coalesced, st.Strays, st.Wakes)
	case "err":
		s.log("err %v", s.hub.Err())
	case "sleep":
		d := redistest.Must(time.ParseDuration(text))(s.t)
		time.Sleep(d)
	default:
		require.NotEmpty(s.t, s.links, "no step or no connection for it: %q", words)
		s.links[len(s.links)-1].report(words)
	}
}

func (l *scripted) report(words []string) {
	f := l.feed
	text := strings.Join(words[1:], " ")
	switch words[0] {
	case "up":
		f.up()
	case "confirm":
		for _, name := range words[1:] {
			f.confirmed(name)
		}
	case "confirmall":
		for _, name := range l.last {
			f.confirmed(name)
		}
	case "message":
		f.message(words[1], "")
	case "gone":
		f.gone(words[1])
	case "answer":
		f.answered(nil)
	case "refuse":
		f.answered(errors.New(text))
	case "end":
		f.ended(errors.New(text))
	default:
		l.t.Fatalf("no such step: %q", words)
	}
}

func (s *story) next(args []string) {
	name := args[0]
	s.mu.Lock()
	after := s.seen[name]
	s.mu.Unlock()
	if len(args) > 1 {
		n := redistest.Must(strconv.ParseUint(args[1], 10, 64))(s.t)
		after = n
	}
	f := s.watches[name].Next(after)
	s.cancels[name] = f.Cancel
	f.OnDone(func(w Wake, err error) {
		if err != nil {
			s.log("%s: %v", name, err)
			return
		}
		s.mu.Lock()
		s.seen[name] = max(s.seen[name], w.Seq)
		s.mu.Unlock()
		s.log("%s: %s", name, w.text())
	})
}

// text is a wake-up in one line.
func (w Wake) text() string {
	s := fmt.Sprintf("#%d %v", w.Seq, w.Reason)
	if w.More {
		s += " and more"
	}
	if !w.Subscribed {
		s += ", not subscribed"
	}
	if w.Err != nil {
		s += fmt.Sprintf(" (%v)", w.Err)
	}
	return s
}
