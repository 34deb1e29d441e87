package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A script that finds a key missing, as its slot is being moved, fails before the script writes the
// record. The server serves other locks, as does a cluster that does not serve a slot. A cluster
// that is down serves nobody. Only a release of several locks may have released some of them.
func TestFailure_OfAClusterInTrouble(t *testing.T) {
	t.Parallel()
	const moving = "ERR Script attempted to access a non local key in a cluster node script: f00, on @user_script:1."
	for text, onlyThis := range map[string]bool{
		moving: true,
		"ERR Unable to execute command 'exists' in script because undeclared keys were accessed during rehashing of the slot script: f00, on @user_script:1.": true,
		"TRYAGAIN Multiple keys request during rehashing of slot":        true,
		"CLUSTERDOWN Hash slot not served":                               true,
		"CLUSTERDOWN The cluster is down":                                false,
		"CLUSTERDOWN The cluster is down and only accepts read commands": false,
		"ERR Script attempted to execute a write command while the cluster is down and readonly script: f00, on @user_script:1.": false,
		"ERR Script attempted to access keys while cluster is down":                                                              false,
	} {
		f := serverFailure(textError(text), text)
		require.Equal(t, Unavailable, f.Kind, text)
		require.Equal(t, core.No, f.Ran, text)
		require.False(t, f.Final, text)
		require.Equal(t, onlyThis, !f.Unanswered(), text)
		require.True(t, !strings.HasPrefix(text, "CLUSTERDOWN") || onlyThis == strings.Contains(f.Hint, "slot"), text)
		var r core.Reply
		a := f.Answer()
		decode(&core.Op{Verb: core.VerbTransfer}, &a, &r, fail)
		require.Equal(t, onlyThis, r.OnlyThis, text)
		require.Equal(t, core.No, r.Ran, text)
	}
	text := moving + " (others were released)"
	f := serverFailure(textError(text), text)
	require.Equal(t, core.Maybe, f.Ran)
	require.True(t, f.OnlyThis)
}
