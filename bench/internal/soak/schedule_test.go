package soak

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSchedule_RepeatedByItsSeed(t *testing.T) {
	faults, err := ParseFaults("all,breaking", false)
	require.NoError(t, err)
	of := func(seed uint64) []Fault {
		return Schedule(seed, time.Minute, 100*time.Millisecond, time.Second, 4, faults)
	}
	require.Equal(t, of(7), of(7))
	require.NotEqual(t, of(7), of(8))
}

func TestSchedule_KeepsItsRules(t *testing.T) {
	faults, err := ParseFaults("all", false)
	require.NoError(t, err)
	const length, lease, procs = 10 * time.Minute, time.Second, 4
	schedule := Schedule(3, length, 100*time.Millisecond, lease, procs, faults)
	require.Greater(t, len(schedule), 1000)
	free := map[int]time.Duration{}
	kindsSeen, slots := map[string]bool{}, map[int]bool{}
	for i, f := range schedule {
		k, ok := kindOf(f.Kind)
		require.True(t, ok)
		require.False(t, k.breaking)
		require.Equal(t, k.server, f.Slot == -1)
		require.Equal(t, k.most > 0, f.For > 0)
		require.LessOrEqual(t, f.For, time.Duration(k.most*float64(lease))+time.Millisecond)
		require.LessOrEqual(t, f.At+f.For, time.Duration(faultShare*float64(length))+time.Millisecond, "it has ended in time")
		require.GreaterOrEqual(t, f.At, free[f.Slot], "one at a time")
		free[f.Slot] = f.At + f.For
		require.True(t, i == 0 || f.At >= schedule[i-1].At)
		kindsSeen[f.Kind], slots[f.Slot] = true, true
	}
	require.Len(t, kindsSeen, len(faults), "every kind has its turn")
	require.Len(t, slots, procs+1)
}

func TestParseFaults(t *testing.T) {
	parse := func(text string) []string {
		out, err := ParseFaults(text, false)
		require.NoError(t, err)
		return out
	}
	require.Empty(t, parse("none"))
	require.Equal(t, []string{"kill", "freeze"}, parse("freeze, kill,kill"))
	all, breaking := parse("all"), parse("breaking")
	require.Contains(t, all, "restart")
	require.Contains(t, breaking, "forget")
	for _, f := range breaking {
		require.NotContains(t, all, f, "what voids the promises has to be asked for")
		require.True(t, (&Config{Faults: []string{f}}).breaking())
	}
	require.False(t, (&Config{Faults: all}).breaking())
	ofOne := 0
	for _, k := range kinds {
		if k.concerns(false) {
			ofOne++
		}
	}
	require.Len(t, slices.Concat(all, breaking), ofOne)
	_, err := ParseFaults("all,earthquake", false)
	require.ErrorContains(t, err, "earthquake")
	require.ErrorContains(t, err, "killpubsub", "it says which there are")
}

var valid = Config{Duration: time.Minute, Procs: 4, Workers: 32, Names: 8, Lease: time.Second, Every: 400 * time.Millisecond}

func TestConfig_IsChecked(t *testing.T) {
	require.NoError(t, valid.check())
	for name, change := range map[string]func(*Config){
		"procs":    func(c *Config) { c.Procs = 0 },
		"workers":  func(c *Config) { c.Workers = maxWorkers + 1 },
		"names":    func(c *Config) { c.Names = maxNames + 1 },
		"duration": func(c *Config) { c.Duration = -1 },
		"every":    func(c *Config) { c.Every = -1 },
		"lease":    func(c *Config) { c.Lease = minLease - 1 },
		"faults":   func(c *Config) { c.Faults = []string{"earthquake"} },
		"client":   func(c *Config) { c.Client = "holdfast" },
	} {
		c := valid
		change(&c)
		_, err := Run(t.Context(), c)
		require.Error(t, err, name)
	}
}
