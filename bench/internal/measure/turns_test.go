package measure

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Names of mixes are separated by commas.
func TestMixes(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range mixes() {
		require.False(t, seen[m.String()], m)
		seen[m.String()] = true
		require.NotContains(t, m.String(), ",")
	}
}

func TestGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gaps{}
		after := func(d time.Duration, f func()) { time.Sleep(d); f() }
		g.asks()
		after(50, g.granted) // a first grant after 50
		after(100, g.asks)   // nobody waits for 100
		after(70, g.asks)
		after(10, g.granted) // 80 since the first of the two asked
		after(60, g.granted)
		require.Equal(t, turnReport{Grants: 3, Gap: 80}, g.report())

		g.asks()
		time.Sleep(30 * time.Nanosecond)
		g.reset()
		time.Sleep(20 * time.Nanosecond)
		require.Equal(t, turnReport{Gap: 20}, g.report(), "one that still waits")
		g.fail(errors.New("broken"))
		require.Equal(t, "broken", g.report().Problem)
	})
}

func TestTurnFigures(t *testing.T) {
	b := &bench{values: map[string]float64{}}
	b.turnFigures([]int{30, 10, 40}, 20, []turnReport{{Grants: 5, Gap: time.Millisecond}, {Grants: 2, Gap: time.Second}, {Grants: 3}}, cost{took: 2 * time.Second})
	require.Equal(t, map[string]float64{
		"first": 37.5, "least": 12.5, "most": 50, "firstgrants": 50, "firstgap": 1, "gap": 1000, "taken": 80, "grants": 5, "commands": 0,
	}, b.values)
}

// A relay keeps the order of bytes and delays each way.
func TestRelay(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	const delay = 20 * time.Millisecond
	l, err := listen(echo.Addr().String(), delay)
	require.NoError(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	began := time.Now()
	for _, word := range []string{"one ", "two ", "three"} {
		_, err = c.Write([]byte(word))
		require.NoError(t, err)
	}
	back := make([]byte, len("one two three"))
	_, err = io.ReadFull(c, back)
	require.NoError(t, err)
	require.Equal(t, "one two three", string(back))
	require.GreaterOrEqual(t, time.Since(began), 2*delay)

	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	_, err = c.Read(back)
	require.ErrorIs(t, err, io.EOF, "an end is passed on, too")
}
