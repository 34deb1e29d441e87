package lockmgr

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// Zero means the default, and a negative value is refused or means "off".
func TestOptions_ZeroAndNegative(t *testing.T) {
	off := map[string]bool{"Linger": true}
	fields := reflect.TypeFor[Options]()
	for i := range fields.NumField() {
		field := fields.Field(i)
		if !field.IsExported() || !reflect.Zero(field.Type).CanInt() {
			continue
		}
		t.Run(field.Name, func(t *testing.T) {
			o, err := Options{}.complete()
			require.NoError(t, err)
			require.Positive(t, reflect.ValueOf(o).Field(i).Int(), "the default")

			o = Options{}
			reflect.ValueOf(&o).Elem().Field(i).SetInt(-1)
			o, err = o.complete()
			if off[field.Name] {
				require.NoError(t, err)
				require.Zero(t, reflect.ValueOf(o).Field(i).Int())
			} else {
				require.ErrorIs(t, err, ErrInvalidOption)
				require.ErrorContains(t, err, "Options."+field.Name+" is -1")
			}
		})
	}
}
