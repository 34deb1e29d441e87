package script_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fairScriptTests have the state before and after a script. A member of the queue has the milliseconds until its
// deadline behind it. The record lives for 20 seconds.
var fairScriptTests = []struct {
	what                 string
	record, queue, noted string
	script               string
	line                 fairLine
	reply, then          string
	told                 string // the ends of the channels, each with a space behind it
}{
	{what: "a wait counts from the deadline before", record: "c:1:f", queue: "b:1:f~50000 j:1~90000", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 1, Before: 1, Number: 1, Joins: []uint64{1}},
		reply: "[0 20000 1 0]", then: `["c:1:f" "1"]20000[b:1:f~50000 j:1~90000 a:1:f~90000] [@a=1 j:1=40000 sum=40000]`},
	{what: "a wait that is longer than before", record: "c:1:f", queue: "b:1:f~50000 j:1~90000", noted: "j:1=20000 sum=20000 @b=1", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 1, Before: 1, Number: 1, Joins: []uint64{1}},
		reply: "[0 20000 1 0]", then: `["c:1:f" "1"]20000[b:1:f~50000 j:1~90000 a:1:f~90000] [@a=1 @b=1 j:1=40000 sum=40000]`},
	{what: "a wait that seems shorter", record: "c:1:f", queue: "b:1:f~50000 j:1~90000", noted: "j:1=80000 sum=80000 @b=1", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 1, Before: 1, Number: 1, Joins: []uint64{1}},
		reply: "[0 20000 1 0]", then: `["c:1:f" "1"]20000[b:1:f~50000 j:1~90000 a:1:f~130000] [@a=1 @b=1 j:1=80000 sum=80000]`},
	{what: "those of Redisson move with the place before them", record: "c:1:f", queue: "a:1:f~20000 j:1~90000 b:1:f~200000 j:2~230000",
		noted: "j:1=70000 j:2=30000 sum=100000 @a=1 @b=1", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 2, Before: 1, Number: 1, Refresh: true, Places: 1},
		reply: "[0 20000 1 1]", then: `["c:1:f" "1"]20000[a:1:f~50000 j:1~120000 b:1:f~200000 j:2~230000] [@a=2 @b=1 j:1=70000 j:2=30000 sum=100000]`},
	{what: "the waits of those that have gone", record: "c:1:f", queue: "b:1:f~50000 a:1:f~60000", noted: "j:9=70000 sum=70000 @a=1", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 2, Before: 1, Number: 1, Refresh: true, Places: 1},
		reply: "[0 20000 0 1]", then: `["c:1:f" "1"]20000[b:1:f~50000 a:1:f~50000] [@a=2 sum=0]`},
	{what: "places that are over behind others", record: "c:1:f", queue: "b:1:f~50000 a:1:f~50000 a:3:f~50000", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 2, Before: 3, Number: 3, Refresh: true, Places: 1},
		reply: "[0 20000 0 1]", then: `["c:1:f" "1"]20000[b:1:f~50000 a:3:f~50000] [@a=2]`},
	{what: "the wait of one that is over", record: "c:1:f", queue: "j:1~-10000 b:1:f~50000", noted: "j:1=40000 sum=40000 @b=1", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 1, Before: 1, Number: 1, Joins: []uint64{1}},
		reply: "[0 20000 1 0]", then: `["c:1:f" "1"]20000[b:1:f~50000 a:1:f~90000] [@a=1 @b=1 sum=40000]`},
	{what: "a refresh tells the first", queue: "b:1:f~50000 a:1:f~50000", noted: "@a=1", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 2, Before: 1, Number: 1, Refresh: true},
		reply: "[0 50000 0 0]", then: `[]-2[b:1:f~50000 a:1:f~50000] [@a=2]`, told: "b "},
	{what: "a copy does not shorten a life", record: "a:1:f", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 1, Before: 1, Number: 1},
		reply: "[1 0 0 0]", then: `["a:1:f" "1"]20000[] []`},
	{what: "a copy that is late takes nothing", queue: "a:1:f~50000", noted: "@a=9", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 2, Before: 1, Number: 1},
		reply: "[0 -1 0 0]", then: `[]-2[a:1:f~50000] [@a=9]`},

	{what: "from one to the next", record: "a:1:f", script: "fair_transfer",
		line:  fairLine{Manager: "a", ID: 2, Before: 2, Number: 2, Others: []uint64{1}},
		reply: "[1 0 0 0]", then: `["a:2:f" "1"]10000[] []`},
	{what: "of another manager", record: "b:1:f", script: "fair_transfer",
		line:  fairLine{Manager: "a", ID: 2, Before: 2, Number: 2, Others: []uint64{1}},
		reply: "nil", then: `["b:1:f" "1"]20000[] []`},
	{what: "a copy does not give way", record: "a:2:f", queue: "b:1:f~50000", script: "fair_transfer",
		line:  fairLine{Manager: "a", ID: 2, Before: 2, Number: 2, Others: []uint64{1}, Pass: true},
		reply: "[1 0 0 0]", then: `["a:2:f" "1"]20000[b:1:f~50000] [@a=2]`},
	{what: "gives way, and the next has no place", record: "a:1:f", queue: "b:1:f~50000", script: "fair_transfer",
		line:  fairLine{Manager: "a", ID: 2, Before: 2, Number: 2, Others: []uint64{1}, Pass: true},
		reply: "[0 50000 0 1]", then: `[]-2[b:1:f~50000] [@a=2]`, told: "b "},

	{what: "one of Redisson behind a place of another manager", record: "a:1:f", queue: "b:1:f~50000 j:1~90000", script: "fair_release",
		line:  fairLine{Manager: "a", ID: 2, Before: 2, Others: []uint64{1}},
		reply: "[1]", then: `[]-2[b:1:f~50000 j:1~90000] [@a=2 j:1=40000 sum=40000]`, told: "j:1 b "},
	{what: "the next is of the same manager", record: "a:1:f", queue: "a:2:f~50000 j:1~90000", script: "fair_release",
		line:  fairLine{Manager: "a", ID: 2, Before: 2, Others: []uint64{1}},
		reply: "[1]", then: `[]-2[a:2:f~50000 j:1~90000] [@a=2 j:1=40000 sum=40000]`},
	{what: "of another manager", record: "b:1:f", queue: "b:2:f~50000", script: "fair_release",
		line:  fairLine{Manager: "a", ID: 2, Before: 2, Others: []uint64{1}},
		reply: "[0]", then: `["b:1:f" "1"]20000[b:2:f~50000] [@a=2]`},
	{what: "a copy that is late does not join", record: "c:1:f", queue: "b:1:f~50000", noted: "@a=9", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 2, Before: 1, Number: 1, Joins: []uint64{1}},
		reply: "[0 20000 0 1]", then: `["c:1:f" "1"]20000[b:1:f~50000] [@a=9]`},
	{what: "behind one of Redisson", record: "c:1:f", queue: "j:1~40000 a:1:f~60000", noted: "j:1=40000 sum=40000 @a=1", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 2, Before: 1, Number: 1, Refresh: true},
		reply: "[0 20000 1 0]", then: `["c:1:f" "1"]20000[j:1~40000 a:1:f~90000] [@a=2 j:1=40000 sum=40000]`},
	{what: "nothing is before the first place any more", record: "c:1:f", queue: "a:1:f~200000 j:1~240000", script: "fair_acquire",
		line:  fairLine{Manager: "b", ID: 1, Before: 1, Number: 1},
		reply: "[0 20000 1 1]", then: `["c:1:f" "1"]20000[a:1:f~50000 j:1~90000] [@b=1 j:1=40000 sum=40000]`},
	{what: "places in another order", record: "c:1:f", queue: "a:3:f~50000 b:1:f~50000 a:1:f~50000", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 2, Before: 1, Number: 1, Refresh: true},
		reply: "[0 20000 0 0]", then: `["c:1:f" "1"]20000[a:1:f~50000 b:1:f~50000 a:3:f~50000] [@a=2]`},
	{what: "the first", queue: "a:1:f~50000 a:2:f~50000 b:1:f~50000 a:3:f~50000", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 2, Before: 1, Number: 1},
		reply: "[1 2 0 0]", then: `["a:1:f" "1"]10000[a:2:f~50000 b:1:f~50000 a:3:f~50000] [@a=2]`},
	{what: "a first place that is over", record: "c:1:f", queue: "a:1:f~50000 b:1:f~50000", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 2, Before: 2, Number: 2},
		reply: "[0 20000 0 1]", then: `["c:1:f" "1"]20000[b:1:f~50000] [@a=2]`},
	{what: "no place", queue: "b:1:f~50000", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 1, Before: 1, Number: 1},
		reply: "[0 50000 0 1]", then: `[]-2[b:1:f~50000] [@a=1]`, told: "b "},
	{what: "the record of a try without an answer", record: "a:5:f", queue: "b:1:f~50000", script: "fair_acquire",
		line:  fairLine{Manager: "a", ID: 1, Before: 6, Number: 6, Others: []uint64{5}, Joins: []uint64{6}},
		reply: "[0 50000 0 0]", then: `[]-2[b:1:f~50000 a:6:f~50000] [@a=1]`, told: "b "},
	{what: "a place leaves", record: "c:1:f", queue: "b:1:f~50000 a:1:f~50000", script: "fair_release",
		line:  fairLine{Manager: "a", ID: 2, Before: 1, Leave: []uint64{1}},
		reply: "[0]", then: `["c:1:f" "1"]20000[b:1:f~50000] [@a=2]`},
	{what: "the record has ended", queue: "b:1:f~50000", script: "fair_release",
		line:  fairLine{Manager: "a", ID: 2, Before: 2, Others: []uint64{1}},
		reply: "[0]", then: `[]-2[b:1:f~50000] [@a=2]`, told: "b "},
}

func TestScripts_Fair(t *testing.T) {
	onBoth(t, func(t *testing.T, s *scriptServer) {
		k := fairKeys
		var channels []string
		for _, who := range []string{"a", "b", "j:1"} {
			channels = append(channels, k.Channel+":"+who)
		}
		e := listen(t, s, channels...)
		for _, tt := range fairScriptTests {
			t.Run(tt.script+"/"+tt.what, func(t *testing.T) {
				s.prepare(t, "")
				if tt.record != "" {
					s.do(t, "HSET", k.Lock, tt.record, "1")
					s.do(t, "PEXPIRE", k.Lock, "20000")
				}
				for _, place := range strings.Fields(tt.queue) {
					member, left, _ := strings.Cut(place, "~")
					ms := must(strconv.ParseInt(left, 10, 64))(t)
					s.do(t, "RPUSH", k.Queue, member)
					s.do(t, "ZADD", k.Deadlines, strconv.FormatInt(s.now(t)+ms, 10), member)
				}
				for _, note := range strings.Fields(tt.noted) {
					field, value, _ := strings.Cut(note, "=")
					s.do(t, "HSET", k.Waits, field, value)
					s.do(t, "PEXPIRE", k.Waits, strconv.Itoa(fairLife))
				}
				tt.line.LifeMs = fairLife
				require.Equal(t, tt.reply, s.runFair(t, s.wire, tt.script, tt.line, 10000, 0))
				require.Equal(t, tt.then, s.fair(t))
				told := ""
				for _, m := range e.heard(t) {
					told += strings.TrimSuffix(strings.TrimPrefix(m, k.Channel+":"), "0")
				}
				require.Equal(t, tt.told, told)
			})
		}
	})
}
