package script_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var digits = regexp.MustCompile(`\d+`)

// A script for many locks does for each what the script for one does, whatever was done before. The
// locks a1, b1 and c1 get one call for all of them, and a2, b2 and c2 a call each.
func TestScript_ManyLikeOne(t *testing.T) {
	const names = "abc"
	onBoth(t, func(t *testing.T, s *scriptServer) {
		var channels []string
		for _, n := range strings.Split(names, "") {
			channels = append(channels, channelName(n+"1"), channelName(n+"2"))
		}
		e, seen := listen(t, s, channels...), map[string]int{}
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 5))
			s.prepare(t, "")
			var trace []string
			for range 60 {
				script, lease := []string{"acquire", "release", "other"}[r.IntN(3)], strconv.Itoa(10000*(1+r.IntN(3)))
				if script == "other" { // the record of a name becomes another one
					key, how := names[r.IntN(3):][:1], r.IntN(5)
					trace = append(trace, fmt.Sprint(key, " becomes ", how))
					for _, key := range []string{key + "1", key + "2"} {
						s.do(t, "DEL", key)
						switch how {
						case 0:
							s.do(t, "SET", key, "x")
						case 1:
							s.do(t, "HSET", key, "mode", "read", "you:1", "1")
						case 2:
							s.do(t, "HSET", key, "you:1:f", "1")
						case 3:
							s.do(t, "HSET", key, "you:1", "1")
							s.do(t, "PEXPIRE", key, "50000")
						}
					}
					continue
				}
				var keys, owners, want, twins []string
				for i, n := range r.Perm(3)[:1+r.IntN(3)] {
					key, owner := names[n:][:1], "me:"+strconv.Itoa(1+r.IntN(2))
					keys, owners = append(keys, key+"1"), append(owners, owner)
					twins = append(twins, key+"2")
					args := map[string][]string{"acquire": {lease, "0", owner}, "release": {owner}}[script]
					want = append(want, s.eval(t, s.wire, script, twins[i:], args))
				}
				saidOfOne := e.heard(t)
				args := owners
				if script == "acquire" {
					args = append([]string{lease}, owners...)
				}
				trace = append(trace, fmt.Sprint(script, keys, args))
				told := fmt.Sprintf("seed %d\n%s", seed, strings.Join(trace, "\n"))
				all := s.evalRaw(t, s.wire, script+"_many", keys, args).([]any)
				require.Len(t, all, len(keys), told)
				for i := range all {
					got := s.show(all[i])
					if strings.HasPrefix(got, "!") { // miniredis says it in other words
						require.True(t, strings.HasPrefix(want[i], "!"), told)
						got = "error"
					} else {
						require.Equal(t, want[i], got, told)
					}
					seen[script+" "+digits.ReplaceAllString(got, "N")]++
				}
				var saidOfMany []string
				for _, m := range e.heard(t) {
					saidOfMany = append(saidOfMany, strings.Replace(m, "1}", "2}", 1))
				}
				require.Equal(t, saidOfOne, saidOfMany, told)
				state := s.state(t)
				for _, key := range keys {
					require.Equal(t, state[key[:1]+"2"], state[key], told)
				}
			}
		}
		for _, form := range []string{"acquire nil", "acquire N", "acquire [-N]", "acquire error", "release nil", "release N", "release error"} {
			require.NotZero(t, seen[form], "%s among %v", form, seen)
		}
	})
}
