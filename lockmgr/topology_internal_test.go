package lockmgr

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A saying is a server that answers commands by their words, and others with
// an error.
type saying map[string]answer

func (s saying) exec(_ *deadline, commands []command, answers []answer) {
	for i, c := range commands {
		a, ok := s[strings.Join(c.args, " ")]
		if !ok {
			a = answer{kind: answerError, ran: core.No, err: ErrPermission}
		}
		answers[i] = a
	}
}

func mode(m string) answer {
	text := func(s string) answer { return answer{kind: answerText, text: s} }
	return answer{kind: answerArray, array: []answer{text("server"), text("redis"), text("mode"), text(m), text("modules"), {kind: answerArray}}}
}

func TestWhatAServerIsPartOf(t *testing.T) {
	info := func(s string) answer { return answer{kind: answerText, text: "cluster_state:ok\r\n" + s + "\r\n"} }
	for name, test := range map[string]struct {
		server saying
		warn   bool
		err    error
	}{
		"a server of its own":       {saying{"HELLO": mode("standalone")}, false, nil},
		"one that does not say":     {saying{}, false, nil},
		"a Sentinel":                {saying{"HELLO": mode("sentinel")}, false, ErrTopology},
		"a cluster of one":          {saying{"HELLO": mode("cluster"), "CLUSTER INFO": info("cluster_size:1")}, true, nil},
		"a cluster without slots":   {saying{"HELLO": mode("cluster"), "CLUSTER INFO": info("cluster_size:0")}, true, nil},
		"a cluster of three":        {saying{"HELLO": mode("cluster"), "CLUSTER INFO": info("cluster_size:3")}, false, ErrTopology},
		"a cluster of unknown size": {saying{"HELLO": mode("cluster")}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Manager{exec: newExecutor(&identity{}, test.server, time.Minute, func() time.Duration { return 0 }, func(core.Event) {}, nil)}
			defer m.exec.close()
			warning, err := m.topology(t.Context())
			require.ErrorIs(t, err, test.err)
			require.Equal(t, test.warn, warning != "")
		})
	}
}
