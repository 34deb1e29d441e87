package cluster

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A fakeClient answers each command with an error.
type fakeClient struct {
	rueidis.Client
	do    func() error
	nodes func() map[string]rueidis.Client
}

func newFakeClient() *fakeClient {
	c, _ := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:0"}, ForceSingleClient: true, DisableCache: true})
	return &fakeClient{Client: c} // for its Builder; no server has port 0
}

func (c *fakeClient) Nodes() map[string]rueidis.Client { return c.nodes() }

func (c *fakeClient) Do(context.Context, rueidis.Completed) rueidis.RedisResult {
	return rueidis.NewErrorResult(c.do())
}

func getOf(names ...string) []wire.Command {
	return []wire.Command{{Args: []string{"GET"}, Keys: names}}
}

func execOn(s wire.Server, commands []wire.Command) []wire.Answer {
	answers := make([]wire.Answer, len(commands))
	d := wire.NewDeadline(context.Background(), time.Minute)
	defer d.Close()
	s.Exec(d, commands, answers)
	return answers
}

const manager = "00112233-4455-6677-8899-aabbccddeeff"

// released returns the release of a lock.
func released(name string, owner uint64) *core.Op {
	return &core.Op{Verb: core.VerbRelease, Name: name, OtherNumbers: []uint64{owner}}
}
