package model_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/model"
)

const ms = time.Millisecond

func at(d time.Duration) *model.Server { return &model.Server{Now: d} }

func TestAcquire_TakesAFreeLockAndRefusesOthers(t *testing.T) {
	s := at(0)
	a, err := s.Acquire("n", "t", 100, 0, "a:1")
	require.NoError(t, err)
	require.Equal(t, model.Acquired{OK: true}, a)

	s.Now = 40 * ms
	a, err = s.Acquire("n", "t", 100, 0, "b:1")
	require.NoError(t, err)
	require.Equal(t, model.Acquired{TTL: 60}, a)
}

func TestAcquire_ANewOwnerSetsTheLifeAndACopyDoesNotShortenIt(t *testing.T) {
	s := at(0)
	_, err := s.Acquire("n", "t", 100, 2, "a:1")
	require.NoError(t, err)
	a, err := s.Acquire("n", "t", 50, 2, "a:2", "a:1")
	require.NoError(t, err)
	require.Equal(t, model.Acquired{OK: true, Token: "4"}, a)

	in, err := s.Inspect("n", "c", "t")
	require.NoError(t, err)
	require.Equal(t, model.Inspection{TTL: 50, Token: "4", Holders: []model.Field{{Name: "a:2", Value: "1"}}}, in)

	_, err = s.Acquire("n", "t", 20, 0, "a:2", "a:1")
	require.NoError(t, err)
	in, err = s.Inspect("n", "c", "t")
	require.NoError(t, err)
	require.EqualValues(t, 50, in.TTL)
}

func TestRecord_StaysForItsLastMillisecond(t *testing.T) {
	s := at(ms / 2)
	_, err := s.Acquire("n", "t", 100, 0, "a:1")
	require.NoError(t, err)
	s.Now = 101*ms - 1
	require.Equal(t, 1, s.Len())
	s.Now = 101 * ms
	require.Equal(t, 0, s.Len())
}

func TestTransfer_NeverCreates(t *testing.T) {
	s := at(0)
	r, err := s.Transfer("n", "c", "t", 100, 1, "a:2", "a:1")
	require.NoError(t, err)
	require.Equal(t, model.Transferred{}, r)
	require.Equal(t, 0, s.Len(), "and takes no token")

	_, err = s.Acquire("n", "t", 100, 0, "a:1")
	require.NoError(t, err)
	s.Subscribe("c", 7)
	r, err = s.Transfer("n", "c", "t", 500, 1, "a:2", "a:1")
	require.NoError(t, err)
	require.Equal(t, model.Transferred{OK: true, Subscribers: 1, Token: "1"}, r)
	holders, until := s.Fields("n")
	require.Equal(t, []model.Field{{Name: "a:2", Value: "1"}}, holders)
	require.Equal(t, 500*ms, until)
}

func TestRenew_FindsWhatIsLost(t *testing.T) {
	s := at(0)
	for _, n := range []string{"x", "y", "z"} {
		_, err := s.Acquire(n, "t", 100, 0, "a:1")
		require.NoError(t, err)
	}
	s.SetHash("y", 100, model.Field{Name: "b:1", Value: "1"})
	s.SetOther("z", 0)
	require.True(t, s.Persist("x"))
	lost, err := s.Renew(300, []string{"x", "y", "z", "none"}, []string{"a:1", "a:1", "a:1", "a:1"})
	require.NoError(t, err)
	require.Equal(t, []int{2, 3, 4}, lost)
	_, until := s.Fields("x")
	require.Equal(t, 300*ms, until, "a record without an end gets one back")
}

func TestRelease_DeletesThenTells(t *testing.T) {
	var told []int
	s := at(0)
	s.Deliver = func(sub int, channel, payload string) {
		require.Equal(t, "c", channel)
		require.Equal(t, "0", payload)
		require.Equal(t, 0, s.Len())
		told = append(told, sub)
	}
	s.Subscribe("c", 2)
	s.Subscribe("c", 1)
	s.Subscribe("c", 2)
	_, err := s.Acquire("n", "t", 100, 0, "a:1")
	require.NoError(t, err)

	r, err := s.Release("n", "c", "a:9")
	require.NoError(t, err)
	require.Equal(t, model.Released{}, r)
	require.Empty(t, told)

	r, err = s.Release("n", "c", "a:9", "a:1")
	require.NoError(t, err)
	require.Equal(t, model.Released{OK: true, Subscribers: 2}, r)
	require.Equal(t, []int{2, 1}, told)

	forced, err := s.Force("n", "c", "a:1")
	require.NoError(t, err)
	require.Zero(t, forced)
	require.Len(t, told, 2)
}

func TestRefusals(t *testing.T) {
	s := at(0)
	s.OOM = true
	_, err := s.Acquire("n", "t", 100, 0, "a:1")
	require.ErrorIs(t, err, model.ErrOOM)
	require.Equal(t, 0, s.Len())

	s.OOM = false
	_, err = s.Acquire("n", "t", 100, 0, "a:1")
	require.NoError(t, err)
	s.OOM, s.PublishErr = true, model.ErrOOM
	r, err := s.Release("n", "c", "a:1")
	require.NoError(t, err, "a release needs no memory")
	require.Equal(t, model.Released{OK: true, PublishErr: model.ErrOOM}, r)

	s = at(0)
	s.SetString("n", "x", 0)
	_, err = s.Acquire("n", "t", 100, 0, "a:1")
	require.ErrorIs(t, err, model.ErrWrongType)
	_, err = s.Release("n", "c", "a:1")
	require.ErrorIs(t, err, model.ErrWrongType)
	_, err = s.Acquire("m", "n", 100, 1, "a:1")
	require.ErrorIs(t, err, model.ErrNotInteger)
	s.SetString("n", "9223372036854775807", 0)
	_, err = s.Acquire("m", "n", 100, 1, "a:1")
	require.ErrorIs(t, err, model.ErrOverflow)
}
