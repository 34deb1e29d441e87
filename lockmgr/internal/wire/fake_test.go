package wire

import (
	"context"
	"time"

	"github.com/redis/rueidis"
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

func getOf(names ...string) []Command { return []Command{{Args: []string{"GET"}, Keys: names}} }

func execOn(s Server, commands []Command) []Answer {
	answers := make([]Answer, len(commands))
	d := &Deadline{parent: context.Background(), timeout: time.Minute}
	defer d.finish()
	s.Exec(d, commands, answers)
	return answers
}
