package core

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write what the stories now come to into testdata")

// TestStories replays testdata/*.txt. A story is about one machine. The story plays its server and
// its callers. A paragraph has some events, a line of dashes, and the effects of the events:
//
//	# why
//	5ms lock 1 n as=9 lease=2s wait=1s once fenced read
//	reply n ok token=3 subscribers=1
//	lockset 2 a+b:read+c:write
//	lock 3 n permits=2 limit=5
//	reply n/1 ok
//	message a+b:read+c:write item=2
//	message n ours
//	reply a+b:read+c:write refused item=1 ttl=9s
//	lock 4 f fair
//	reply f ok front=4 mixed missing
//	reply f gaveway ttl=9s
//	message f place=4
//	message f grant=4 sent=9s elapsed=5ms life=2s
//	----
//	[the effects, then the phase of each name that is known and the next alarm]
//
// A line may begin with the time since the story began. Without one, the time is that of the line
// before. "next" sends a Tick at the instant that Next returns. Of a name with several entries, n
// is the first entry and n/1 the second. The key of a set has its items with a plus between them.
// Without item=, a subscription is confirmed or has a gap on the channels of all items.
//
// A script of a fair lock shows the places that join and leave, and the least number that waits.
// refresh is how many places there should be, and is shown if they are refreshed.
//
// Run with -rewrite to record the present effects, and commit them only if you understand why they
// changed.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			got := replay(t, string(want))
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
				return
			}
			require.Equal(t, string(want), got)
		})
	}
	require.Equal(t, details{special: noSpecial{}}, noDetails, "what all machines share is never written")
}

// replay returns a story with its present effects.
func replay(t *testing.T, text string) string {
	s := &story{t: t, requests: map[string]*Request{}, last: map[string]Event{}, ops: map[string]Reply{}}
	var out []string
	for par := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		told, _, _ := strings.Cut(par, "\n----")
		out = append(out, told)
		s.out = nil
		events := 0
		for line := range strings.SplitSeq(told, "\n") {
			if line != "" && !strings.HasPrefix(line, "#") {
				s.line(line)
				events++
			}
		}
		if events > 0 {
			out = append(out, "----")
			out = append(out, s.out...)
			out = append(out, s.state())
		}
		out = append(out, "")
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n") + "\n"
}

type story struct {
	t        *testing.T
	m        *Machine
	now      time.Duration
	names    []string
	requests map[string]*Request
	ops      map[string]Reply // by name: the script in flight
	last     map[string]Event // by name: the last answer
	out      []string
}

func (s *story) line(line string) {
	words := strings.Fields(line)
	if d, err := time.ParseDuration(words[0]); err == nil {
		require.GreaterOrEqual(s.t, d, s.now, line)
		s.now, words = d, words[1:]
	}
	arg := map[string]string{}
	var plain []string
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			arg[k] = v
		} else {
			plain = append(plain, w)
			arg[w] = "true"
		}
	}
	duration := func(key string, otherwise time.Duration) time.Duration {
		if arg[key] == "" {
			return otherwise
		}
		d, err := time.ParseDuration(arg[key])
		require.NoError(s.t, err, line)
		return d
	}
	count := func(key string, otherwise int64) int64 {
		if arg[key] == "" {
			return otherwise
		}
		n, err := strconv.ParseInt(arg[key], 10, 64)
		require.NoError(s.t, err, line)
		return n
	}
	switch plain[0] {
	case "machine":
		s.m = New(Config{
			Lease: duration("lease", 3*time.Second), Margin: 10 * time.Millisecond, RetryTime: duration("retry", time.Second),
			SuspectTime: duration("suspect", 500*time.Millisecond), PassCount: int(count("pass", 3)), PassTime: duration("passtime", time.Second),
			ShareEvery: duration("share", 0),
			BlindPause: 50 * time.Millisecond, FarPause: 200 * time.Millisecond,
			BackTime: duration("back", 20*time.Millisecond), RecordEvery: duration("record", 0), TrustSubscribers: arg["untrusted"] == "",
			Linger: duration("linger", 0), PollMax: duration("poll", 10*time.Second), PollBlind: duration("blind", time.Second), PollSoon: duration("soon", time.Second),
			GatherAfter: duration("gatherafter", 0), GatherTime: duration("gathertime", 0), PlaceTime: duration("place", 40*time.Second),
			GrantLease: duration("told", 0), GrantSecret: arg["told"],
			MaxLocks: int(count("maxlocks", 10)), Seed: 1, Sharded: arg["sharded"] != "",
		})
	case "lock", "lockset":
		r := &Request{Name: plain[2], Asked: s.now, Ends: Forever, Lease: duration("lease", 0), Once: arg["once"] != "", Fenced: arg["fenced"] != ""}
		if arg["maxhold"] != "" || arg["keep"] != "" || arg["takeover"] != "" {
			r.Terms = &Terms{MaxHold: duration("maxhold", 0), KeepFor: duration("keep", 0), TakeOver: arg["takeover"]}
		}
		r.ID = uint64(count("id", 0))
		if r.ID == 0 {
			id, err := strconv.ParseUint(plain[1], 10, 64)
			require.NoError(s.t, err)
			r.ID = id
		}
		if arg["read"] != "" || arg["write"] != "" {
			if r.Kind = ReadWrite; arg["read"] != "" {
				r.Side = Shared
			}
		}
		if arg["as"] != "" {
			r.As(uint64(count("as", 0)))
		}
		if arg["wait"] != "" {
			r.Ends = s.now + duration("wait", 0)
		}
		s.requests[plain[1]] = r
		s.know(r.Name)
		if plain[0] == "lockset" {
			r.Kind = Several
			s.step(LockSet{r, itemsOf(r.Name)})
			return
		}
		if arg["fair"] != "" {
			r.Kind = Fair
		}
		if arg["permits"] != "" {
			r.Kind = Permits
			s.step(LockPermits{r, uint16(count("permits", 0)), count("limit", 10)})
			return
		}
		s.step(Lock{r})
	case "cancel":
		s.step(Cancel{s.requests[plain[1]]})
	case "unlock":
		if arg["untaken"] != "" {
			s.step(Untaken{Request: s.requests[plain[1]]})
			return
		}
		s.step(Unlock{Request: s.requests[plain[1]]})
	case "reply":
		r, ok := s.ops[plain[1]]
		require.True(s.t, ok, "no script in flight: %s", line)
		delete(s.ops, plain[1])
		switch plain[2] {
		case "ok":
			r.Ran, r.OK = Yes, true
		case "refused", "lost":
			r.Ran = Yes
		case "gaveway":
			r.Ran, r.GaveWay = Yes, true
		case "maybe":
			r.Ran, r.Err = Maybe, errors.New("timeout")
		case "no":
			r.Ran, r.Err = No, errors.New("LOADING")
		default:
			s.t.Fatalf("what? %s", line)
		}
		r.Final, r.OnlyThis, r.OtherKind = arg["final"] != "", arg["alone"] != "", arg["otherkind"] != ""
		r.Kept, r.Shard = arg["kept"] != "", uint8(count("shard", 0))
		r.TTL, r.Subscribers, r.Token = duration("ttl", 0), count("subscribers", 0), count("token", 0)
		r.WriterWaits, r.HandedOn, r.Joined = arg["writer"] != "", arg["served"] != "", arg["joined"] != ""
		r.Front, r.Mixed, r.Missing = uint64(count("front", 0)), arg["mixed"] != "", arg["missing"] != ""
		if r.Op.Kind == Permits {
			r.Partly, r.Gathered, r.Limit = arg["partly"] != "", arg["gathered"] != "", count("limit", 0)
		}
		if r.Op.Items != nil {
			r.Item, r.Partly = int(count("item", 0)), arg["partly"] != ""
			if r.Item > 0 && r.Op.Gather > 0 && !r.OtherKind {
				r.Got = r.Item - 1
				r.Gathered = r.Got > 0
			}
			for range r.Op.Tokens * int64(len(r.Op.Items)) {
				r.Tokens = append(r.Tokens, r.Token+int64(len(r.Tokens)))
			}
		}
		s.answer(plain[1], &Replies{[]Reply{r}})
	case "again": // the last answer, a second time
		s.step(s.last[plain[1]])
	case "confirmed", "message", "gap":
		wake := Wake{Name: plain[1], Item: int(count("item", 0)), Place: uint64(count("place", 0)), Subscribed: plain[0] != "gap", Confirmed: plain[0] == "confirmed", Message: plain[0] == "message", More: arg["more"] != "", Ours: arg["ours"] != "", Served: arg["served"] != ""}
		wake.Grant = Grant{Number: uint64(count("grant", 0)), Sent: duration("sent", 0), Elapsed: duration("elapsed", 0), Lease: duration("life", 0), Token: count("token", 0)}
		n := s.m.known(wake.Name, isSet(wake.Name))
		both := n != nil && n.position() != nil && wake.Confirmed && arg["place"] == "" // channels of a name with a line
		first, last := wake.Item, wake.Item
		if isSet(wake.Name) && wake.Item == 0 {
			first, last = 1, len(itemsOf(wake.Name))
		}
		for wake.Item = first; wake.Item <= last; wake.Item++ {
			if own := wake; both {
				own.Place = OwnPlace
				s.step(own)
			}
			s.step(wake)
		}
	case "prolong":
		s.step(&Prolongation{Request: s.requests[plain[1]], Lease: duration("lease", 0), Tag: plain[1]})
	case "verify":
		s.step(Verify{plain[1]})
	case "sent": // the operation in flight for a name waits at a shard
		r, ok := s.ops[plain[1]]
		require.True(s.t, ok, "no script in flight: %s", line)
		r.Op.Shard = uint8(count("shard", 0))
		s.step(&Sent{[]*Op{r.Op}})
	case "queued": // and now at another one
		r, ok := s.ops[plain[1]]
		require.True(s.t, ok, "no script in flight: %s", line)
		s.step(Queued{Name: plain[1], Set: isSet(plain[1]), ID: r.ID, Shard: uint8(count("shard", 0))})
	case "gone":
		s.step(ShardGone{uint8(count("shard", 0))})
	case "close":
		s.step(Close{})
	case "abort":
		s.step(Abort{})
	case "next":
		require.NotEqual(s.t, Forever, s.m.Next(), "nothing is due: %s", line)
		s.now = max(s.now, s.m.Next())
		s.out = append(s.out, fmt.Sprintf("(%v)", s.now))
		s.step(Tick{})
	default:
		s.t.Fatalf("what? %s", line)
	}
}

func (s *story) know(name string) {
	if slices.Contains(s.names, name) {
		return
	}
	s.names = append(s.names, name)
}

func (s *story) answer(name string, ev Event) {
	s.last[name] = ev
	s.step(ev)
}

func (s *story) step(ev Event) {
	for _, e := range s.m.Step(s.now, ev, nil) {
		s.out = append(s.out, s.describe(e))
	}
}

func (s *story) describe(e Effect) string {
	switch e := e.(type) {
	case Run:
		o := e.Op
		key := o.Name
		if at := o.entry.extraPos; at > 0 {
			key += fmt.Sprintf("/%d", at)
		}
		s.ops[key] = Reply{Op: o, ID: o.ID}
		d := fmt.Sprintf("run %v %s", o.Verb, key)
		if o.Kind == Permits {
			d += fmt.Sprintf(" permits=%d", o.Permits)
			if o.Most != o.Permits {
				d += fmt.Sprintf(" most=%d", o.Most)
			}
		}
		if o.Number != 0 {
			d += fmt.Sprintf(" owner=%s lease=%v", number(o.Number), o.Lease)
		}
		if len(o.OtherNumbers) > 0 {
			d += " others=" + numbers(o.OtherNumbers)
		}
		if o.Kind == ReadWrite && o.Side == Shared {
			d += " shared"
		}
		if o.Tokens > 0 {
			d += fmt.Sprintf(" tokens=%d", o.Tokens)
		}
		if o.Lined && o.Kind != Permits {
			d += " lined"
		}
		if (o.Kind == Permits || o.Lined) && o.Verb == VerbAcquire && o.Waits == 0 {
			d += " once"
		}
		if o.Leaves {
			d += " leaves"
		}
		if o.Reserve != 0 {
			d += fmt.Sprintf(" reserve=%v", o.Reserve)
		}
		if o.Gather != 0 {
			d += fmt.Sprintf(" gather=%v", o.Gather)
		}
		if o.TakeOver != "" {
			d += " takeover=" + o.TakeOver
		}
		if o.StandsAt != 0 && o.Verb == VerbAcquire {
			d += fmt.Sprintf(" stands-at=%d", o.StandsAt)
		}
		if o.Kind == Fair && o.PlaceOp != nil {
			d += o.PlaceOp.describe()
		}
		return d
	case Tokens:
		return fmt.Sprintf("tokens %d: %v", e.Request.ID, e.Tokens)
	case Granted:
		d := fmt.Sprintf("granted %d until %v", e.Request.ID, e.Request.Hold.Until)
		if e.Request.Hold.Token != 0 {
			d += fmt.Sprintf(" token=%d", e.Request.Hold.Token)
		}
		if e.Request.Hold.Request != e.Request {
			d += fmt.Sprintf(" (re-enters %d)", e.Request.Hold.Request.ID)
		}
		return d
	case Failed:
		return fmt.Sprintf("failed %d: %v", e.Request.ID, e.Err)
	case Extended:
		return fmt.Sprintf("extended %d until %v", e.Hold.Request.ID, e.Hold.Until)
	case Lost:
		return fmt.Sprintf("lost %d: %v", e.Hold.Request.ID, e.Err)
	case Unlocked:
		if e.Err != nil {
			return fmt.Sprintf("unlocked %d: %v", e.Request.ID, e.Err)
		}
		return fmt.Sprintf("unlocked %d", e.Request.ID)
	case Prolonged:
		return fmt.Sprintf("prolonged %v: %v", e.Prolongation.Tag, e.Err)
	case Subscribe:
		return "subscribe " + e.Name + atPlace(e.Place)
	case Unsubscribe:
		return "unsubscribe " + e.Name + atPlace(e.Place)
	case Closed:
		return "closed"
	}
	return fmt.Sprintf("%T", e)
}

// number formats a holder's number, so that it is not mistaken for a request's ID.
func number(n uint64) string { return fmt.Sprintf("#%d", n) }

func numbers(all []uint64) string {
	var out []string
	for _, n := range all {
		out = append(out, number(n))
	}
	return strings.Join(out, ",")
}

// atPlace formats the place of a subscription to the channel of a place.
func atPlace(n uint64) string {
	if n == 0 {
		return ""
	}
	return " place=" + number(n)
}

// describe formats what a script does to the places of a fair lock.
func (x *PlaceOp) describe() (d string) {
	if len(x.Join) > 0 {
		d += " join=" + numbers(x.Join)
	}
	if len(x.Leave) > 0 {
		d += " leave=" + numbers(x.Leave)
	}
	d += " before=" + number(x.Before)
	if x.Refresh {
		d += fmt.Sprintf(" refresh=%d", x.Count)
	}
	if x.Pass {
		d += " pass"
	}
	if x.Once {
		d += " once"
	}
	if x.Secret != "" {
		d += fmt.Sprintf(" told=%v", x.GrantLease)
		if x.Fenced {
			d += " fenced"
		}
		if x.Tell {
			d += " tell"
		}
	}
	return d
}

func (p phase) String() string {
	return [...]string{"idle", "asking", "waiting", "held", "passing", "releasing"}[p]
}

func (s *story) state() string {
	var b []string
	for _, name := range s.names {
		if n := s.m.known(name, isSet(name)); n != nil {
			for e := range n.entries {
				d := e.phase.String()
				if e.extraPos > 0 {
					b[len(b)-1] += " + " + d
				} else {
					b = append(b, name+" "+d)
				}
				if e.flight != 0 {
					b[len(b)-1] += ", " + e.flightVerb.String() + " in flight"
				}
			}
		}
	}
	if len(b) == 0 {
		b = append(b, "nothing known")
	}
	if next := s.m.Next(); next != Forever {
		b = append(b, "next "+next.String())
	}
	return "= " + strings.Join(b, "; ")
}
