package goredis

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// Options are the option types of go-redis that [Dial] and [ClientOption] take.
type Options interface {
	*redis.Options | *redis.ClusterOptions | *redis.FailoverOptions | *redis.UniversalOptions
}

// Dial connects to the servers that a go-redis client with opt would use, and returns a manager
// that owns its connections. It does not change opt.
//
// Dial blocks and fails as [lockmgr.Dial] does. It also fails with an error that matches
// lockmgr.ErrInvalidOption if [ClientOption] refuses opt.
func Dial[O Options](opt O, options lockmgr.Options) (*lockmgr.Manager, error) {
	client, err := ClientOption(opt)
	if err != nil {
		return nil, err
	}
	return lockmgr.Dial(client, options)
}

// ClientOption translates the options of a go-redis client into those that [lockmgr.Dial] takes, so
// that a caller can change them before. It does no I/O and does not change opt.
//
// The error names each field that can't be translated, and matches lockmgr.ErrInvalidOption. The
// package comment says what becomes of each field.
func ClientOption[O Options](opt O) (rueidis.ClientOption, error) {
	client, problems := translateAny(any(opt))
	if len(problems) > 0 {
		return rueidis.ClientOption{}, fmt.Errorf("goredis: %w: %w", lockmgr.ErrInvalidOption, errors.Join(problems...))
	}
	return client, nil
}

func translateAny(opt any) (rueidis.ClientOption, []error) {
	switch o := opt.(type) {
	case *redis.Options:
		if o != nil {
			return single(o)
		}
	case *redis.ClusterOptions:
		if o != nil {
			return cluster(o)
		}
	case *redis.FailoverOptions:
		if o != nil {
			return failover(o)
		}
	case *redis.UniversalOptions:
		if o != nil {
			return universal(o)
		}
	}
	return rueidis.ClientOption{}, []error{errors.New("the options are nil")}
}
