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

// A URL in which a password is not escaped is refused, and nothing of it is repeated. The client
// would dial a part of the password.
func TestDialURL_RefusesWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "host", "host:6379", "http://h", "redis:", "redis://", "redis:///", "redis:host:6379", "redis://:6379", "redis://me:s3cret@", "redis://@:1",
		"redis://:1234#s3cret@host", "redis://me:12#s3cret@host", "redis://:#s3cret@host", "redis://host#s3cret", "redis://host:6379/0#",
		"redis://:1234/s3cret@host", "redis://me:12/s3cret@host", "redis://me:12/3@host", "redis://:12/3@host",
		"redis://:1234?s3cret@host", "redis://me:12?s3cret@host", "redis://me:12?s3cret=1@host", "redis://me:12?@host", "redis://me:12/3?s3cret@host",
		"redis://me:s3%cret@host", "redis://me:s3%@host", "redis://me:s3 cret@host", "redis://me:s3[cret@host", `redis://me:s3\cret@host`, "redis://me:s3\ncret@host",
		"redis://me:s3cret@host:port", "redis://me:s3cret@host:", "redis://me:s3cret@host:0", "redis://me:s3cret@host:65536", "redis://me:s3cret@host:-1",
		"redis://me:s3@cret@host", "redis://me@x:s3cret@host", "redis://me:s3cret@h1:1,h2:2", "redis://me:s3cret@h1,h2", "redis://me:s3cret@h1:1,me:s3cret@h2:2", "redis://me:s3cret@h1;h2", "redis://me:s3cret@ho st",
		"redis://me:s3cret@host/x", "redis://me:s3cret@host/-1", "redis://me:s3cret@host/+1", "redis://me:s3cret@host/1/2", "redis://me:s3cret@host/99999999999",
		"redis://me:s3cret@host?db=x", "redis://me:s3cret@host?db=-1", "redis://me:s3cret@host/1?db=2", "redis://me:s3cret@host?master=main", "redis://me:s3cret@host?a;b",
		"redis://me:s3cret@host?addr=h2", "redis://me:s3cret@host?addr=", "redis://me:s3cret@host?addr=:6379", "redis://me:s3cret@host?addr=me:s3cret@h2:6379", "redis://me:s3cret@host?addr=h2:x",
		"unix://path/to", "unix://", "unix:", "unix:///tmp/s3cret#x",
		"redis://::1", "redis://me:s3cret@::1:6379", "redis://fe80::1:6379", "redis://2001:db8::12:6379/1", // the client would take the port for a part of the address
		"redis://me:s3cret@host?db=1&db=2", "redis://host?master_set=a&master_set=b", "redis://host?dial_timeout=1s&dial_timeout=1s", "unix:///tmp/redis.sock?db=1&db=1",
		"unix:///tmp/redis.sock?addr=h:1", "unix:///tmp/redis.sock?master_set=a",
		"redis://host?skip_verify=true", "valkey://host?skip_verify=", "unix:///tmp/redis.sock?skip_verify=1",
		"redis://host?protocol=4", "redis://host?protocol=", "redis://host?dial_timeout=-5s", "redis://host?write_timeout=-1s",
	} {
		err := checkURL(url)
		require.ErrorIs(t, err, ErrInvalidOption, url)
		for _, part := range []string{"s3", "cret", "1234", "me:12"} {
			require.NotContains(t, err.Error(), part, url)
		}
	}
	for _, url := range []string{"redis://:1234#s3cret@host", "redis://me:s3cret@127.0.0.1:1?dial_timeout=s3cret", "rediss://me:s3cret@127.0.0.1:1?skip_verify=s3cret"} {
		_, err := DialURL(url, Options{})
		require.ErrorIs(t, err, ErrInvalidOption, url)
		require.NotContains(t, err.Error(), "s3cret", url)
	}
}

// The error tells what is wrong.
func TestDialURL_SaysWhy(t *testing.T) {
	for url, why := range map[string]string{
		"127.0.0.1:6379": "begins with none of redis://", "localhost:6379": "begins with none of redis://", "": "begins with none of redis://",
		"redis://host:99999": "the port is not from 1 to 65535", "redis://host:x": "it is no URL", "redis://me:p#w@host": "it has a #",
		"redis://host?db=1&db=2": "a parameter twice", "redis://host?skip_verify=true": "skip_verify without TLS",
	} {
		_, err := DialURL(url, Options{})
		require.ErrorContains(t, err, why, url)
		require.ErrorContains(t, err, "/ is written as %2F", url)
	}
}

func TestDialURL_Accepts(t *testing.T) {
	for _, url := range []string{
		"redis://host", "redis://host:6379", "redis://host/0", "redis://host:6379/15", "rediss://me:s3cret@host:6380/1", "valkey://host", "valkeys://host",
		"redis://:s3cret@host", "redis://me@host", "redis://me:p%2Fw%23x%40y%3Az@host", "redis://me:a:b@host", "redis://me:~!$&'()*+,;=@host",
		"redis://127.0.0.1:1", "redis://[::1]", "redis://[::1]:6379/2", "redis://[fe80::1%25eth0]:6379", "redis://my_host.example-1.org.:6379", "redis://höst",
		"redis://h1:1?addr=h2:2&addr=[::1]:3", "redis://h:26379?master_set=main&db=3", "redis://h?dial_timeout=1s&write_timeout=2s&protocol=2&client_cache=0&max_retries=0&client_name=x",
		"rediss://h?skip_verify=true", "redis://me:s3cret@h?client_name=a@b", "unix:///tmp/redis.sock", "unix:///tmp/redis.sock?db=2",
	} {
		require.NoError(t, checkURL(url), url)
	}
}
