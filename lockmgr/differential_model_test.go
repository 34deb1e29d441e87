package lockmgr_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/model"
)

// modelWorld is a world that runs steps on the model.
type modelWorld struct {
	model.Server
	messages map[int][]string
}

func newModelWorld() *modelWorld {
	w := &modelWorld{messages: map[int][]string{}}
	w.Deliver = func(subscriber int, channel, payload string) {
		w.messages[subscriber] = append(w.messages[subscriber], channel+" "+payload)
	}
	return w
}

func (w *modelWorld) name() string { return "model" }

func (w *modelWorld) do(t testing.TB, p step) string {
	var name, channel, counter string
	if len(p.names) > 0 {
		name, channel, counter = p.names[0], channelName(p.names[0]), counterName(p.names[0])
	}
	switch p.op {
	case "acquire":
		r, err := w.Acquire(name, counter, p.nums[0], p.nums[1], p.args...)
		switch {
		case err != nil:
			return failure(err.Error())
		case !r.OK:
			return fmt.Sprint(r.TTL)
		case p.nums[1] == 0:
			return "nil"
		}
		return strconv.Quote(r.Token)
	case "acquire_many":
		return w.oneByOne(t, p, "acquire", append(p.nums, 0))
	case "release_many":
		return w.oneByOne(t, p, "release", nil)
	case "transfer":
		r, err := w.Transfer(name, channel, counter, p.nums[0], p.nums[1], p.args...)
		switch {
		case err != nil:
			return failure(err.Error())
		case !r.OK:
			return "nil"
		case p.nums[1] == 0:
			return fmt.Sprint(r.Subscribers)
		}
		return fmt.Sprintf("[%d %q]", r.Subscribers, r.Token)
	case "renew":
		lost, err := w.Renew(p.nums[0], p.names, p.args)
		if err != nil {
			return failure(err.Error())
		}
		return fmt.Sprint(lost)
	case "release":
		r, err := w.Release(name, channel, p.args...)
		switch {
		case err != nil:
			return failure(err.Error())
		case !r.OK:
			return "nil"
		case r.PublishErr != nil:
			return "released, nobody told"
		}
		return fmt.Sprint(r.Subscribers)
	case "force":
		n, err := w.Force(name, channel, p.args...)
		if err != nil {
			return failure(err.Error())
		}
		return fmt.Sprint(n)
	case "inspect":
		return w.inspect(name, channel, counter)
	case "pass":
		w.Now += time.Duration(p.nums[0]) * time.Millisecond
	case "subscribe", "unsubscribe":
		n, err := strconv.Atoi(p.args[0])
		require.NoError(t, err)
		if p.op == "subscribe" {
			w.Subscribe(channel, n)
		} else {
			w.Unsubscribe(channel, n)
		}
	case "oom":
		w.OOM = p.nums[0] == 1
	case "publish-denied":
		w.PublishErr = errIf(p.nums[0])
	case "numsub-denied":
		w.NumSubErr = errIf(p.nums[0])
	default:
		w.admin(t, p, name, channel, counter)
	}
	return ""
}

// oneByOne runs a script once for each lock: the reply that a script for many locks
// must give.
func (w *modelWorld) oneByOne(t testing.TB, p step, op string, nums []int64) string {
	var out []string
	for i, name := range p.names {
		out = append(out, w.do(t, step{op, []string{name}, nums, p.args[i : i+1]}))
	}
	return fmt.Sprintf("%q", out)
}

func errIf(denied int64) error {
	if denied == 1 {
		return respErr("NOPERM")
	}
	return nil
}

type respErr string

func (e respErr) Error() string { return string(e) }

func (w *modelWorld) admin(t testing.TB, p step, name, channel, counter string) {
	switch p.op {
	case "del":
		w.Del(name)
	case "delcounter":
		w.Del(counter)
	case "persist":
		w.Persist(name)
	case "flush":
		w.Flush()
	case "expire":
		w.Expire(name, p.nums[0])
	case "hash":
		var fields []model.Field
		for f := range slices.Chunk(p.args, 2) {
			fields = append(fields, model.Field{Name: f[0], Value: f[1]})
		}
		w.SetHash(name, p.nums[0], fields...)
	case "string":
		w.SetString(name, "x", p.nums[0])
	case "list":
		w.SetOther(name, p.nums[0])
	case "counter":
		w.SetString(counter, p.args[0], 0)
	case "counterhash":
		w.SetHash(counter, 0, model.Field{Name: "x", Value: "1"})
	case "message":
		_, err := w.Publish(channel, p.args[0])
		if err != nil { // the administrator is another user, who may publish
			was := w.PublishErr
			w.PublishErr = nil
			_, err = w.Publish(channel, p.args[0])
			w.PublishErr = was
		}
		require.NoError(t, err)
	default:
		t.Fatalf("no such step: %v", p)
	}
}

func (w *modelWorld) inspect(name, channel, counter string) string {
	in, err := w.Inspect(name, channel, counter)
	if err != nil {
		return failure(err.Error())
	}
	out := []string{fmt.Sprint(in.TTL), fmt.Sprint(in.Subscribers), "nil"}
	if in.Token != "" {
		out[2] = strconv.Quote(in.Token)
	}
	var fields []string
	for _, f := range in.Holders {
		fields = append(fields, fmt.Sprintf("%q %q", f.Name, f.Value))
	}
	return "[" + strings.Join(append(out, sorted(fields)...), " ") + "]"
}

// sorted sorts the fields of a hash, because servers differ in their order.
func sorted(fields []string) []string {
	slices.Sort(fields)
	return fields
}

func (w *modelWorld) data(testing.TB) []string {
	var out []string
	for _, name := range diffNames {
		line := name + ":"
		if in, err := w.Inspect(name, "", ""); err != nil {
			line += " " + failure(err.Error())
		} else {
			var fields []string
			for _, f := range in.Holders {
				fields = append(fields, f.Name+"="+f.Value)
			}
			line += fmt.Sprint(sorted(fields), " for ", in.TTL)
		}
		in, err := w.Inspect("", "", counterName(name))
		token := in.Token
		if err != nil {
			token = failure(err.Error())
		}
		out = append(out, line, "tokens: "+token)
	}
	return append(out, fmt.Sprint("keys: ", w.Len()))
}

func (w *modelWorld) heard(t testing.TB, subscriber string) []string {
	n, err := strconv.Atoi(subscriber)
	require.NoError(t, err)
	out := w.messages[n]
	delete(w.messages, n)
	return out
}

// failure is the part of an error that all worlds agree on.
func failure(text string) string {
	for _, known := range []string{"WRONGTYPE", "OOM", "not an integer", "would overflow"} {
		if strings.Contains(text, known) {
			return "failed: " + known
		}
	}
	return "failed: " + text
}
