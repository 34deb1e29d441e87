package redistest

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadReply(t *testing.T) {
	for name, c := range map[string]struct {
		in, out, err string
	}{
		"simple string":    {"+OK\r\n", "OK", ""},
		"integer":          {":-2\r\n", "-2", ""},
		"error":            {"-NOPERM no\r\n", "", "NOPERM no"},
		"bulk":             {"$4\r\na\r\nb\r\n", "a\r\nb", ""},
		"empty bulk":       {"$0\r\n\r\n", "", ""},
		"null":             {"$-1\r\n", "", ""},
		"array":            {"*2\r\n$1\r\na\r\n:7\r\n", "a\n7", ""},
		"array in array":   {"*2\r\n*2\r\n:1\r\n:2\r\n:3\r\n", "1\n2\n3", ""},
		"error in array":   {"*2\r\n-ERR no\r\n:7\r\n", "\n7", "ERR no"},
		"null array":       {"*-1\r\n", "", ""},
		"cut off":          {"$4\r\nab", "", io.ErrUnexpectedEOF.Error()},
		"empty line":       {"\r\n", "", "empty reply line"},
		"not RESP2":        {"%1\r\n", "", "unexpected reply"},
		"not a bulk's len": {"$x\r\n", "", "invalid syntax"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := readReply(bufio.NewReader(strings.NewReader(c.in)))
			require.Equal(t, c.out, out)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
			}
		})
	}
}

func TestParseCommandStats(t *testing.T) {
	require.Equal(t,
		map[string]int{"evalsha": 12, "client|kill": 1},
		parseCommandStats("# Commandstats\r\n"+
			"cmdstat_evalsha:calls=12,usec=3,usec_per_call=0.25,rejected_calls=0,failed_calls=0\r\n"+
			"cmdstat_client|kill:calls=1,usec=9\r\n"))
}
