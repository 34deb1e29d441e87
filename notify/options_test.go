package notify

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// Zero is a default, and a negative value is refused or means "off".
func TestOptions_ZeroAndNegative(t *testing.T) {
	off := map[string]bool{"IdleTimeout": true}
	durations := reflect.TypeFor[Options]()
	for i := range durations.NumField() {
		field := durations.Field(i)
		if field.Type != reflect.TypeFor[time.Duration]() {
			continue
		}
		t.Run(field.Name, func(t *testing.T) {
			require.NotZero(t, reflect.ValueOf(Options{}.withDefaults()).Field(i).Int())

			var o Options
			reflect.ValueOf(&o).Elem().Field(i).SetInt(-1)
			if err := o.check(); off[field.Name] {
				require.NoError(t, err)
				require.Negative(t, reflect.ValueOf(o.withDefaults()).Field(i).Int())
			} else {
				require.ErrorIs(t, err, ErrInvalidOption)
				require.ErrorContains(t, err, field.Name)
				_, err = New(closedClient{}, o)
				require.ErrorIs(t, err, ErrInvalidOption)
			}
		})
	}
	_, err := New(nil, Options{})
	require.ErrorIs(t, err, ErrInvalidOption)
}

// closedClient stands for a client that is never used.
type closedClient struct{ rueidis.Client }

// The longest pauses work: no multiple of them overflows.
func TestBackoff_LongestPauses(t *testing.T) {
	o := Options{RetryMin: math.MaxInt64, RetryMax: math.MaxInt64}.withDefaults()
	for _, b := range []backoff{newBackoff(o.RetryMin, o.RetryMax), newBackoff(o.RetryMax, rarely*o.RetryMax)} {
		for range 10 {
			require.GreaterOrEqual(t, b.next(), longest/2)
		}
	}
}
