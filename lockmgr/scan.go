package lockmgr

import (
	"cmp"
	"context"
	"iter"
	"strings"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// Scan finds the locks of the server whose names begin with prefix, also locks of other processes
// and of Redisson. Scan reads each lock as [Manager.Inspect] does, except for the Token. A lock
// without a record is not found: a free lock, a fair lock for which somebody waits while nobody
// holds the lock, and permits if no permit is taken. Other hashes are passed over.
//
// Scan walks over all keys of the server by SCAN, in a cluster over the keys of each master in
// turn. Scan does not block the server: each command is for about 1,000 keys. Each page of keys
// takes some two round trips. A lock present during the whole walk is found, and given once, unless
// its slot moves or another server takes over meanwhile. The order is random. An error ends the
// walk: of the server, of ctx, or ErrClosed. The user needs +scan, and what Inspect needs.
func (m *Manager) Scan(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		s := &scan{m: m, ctx: ctx, prefix: cmp.Or(m.prefixed(prefix), m.options.Prefix), known: m.newProcessCache(), seen: make(map[string]bool)}
		err := ctx.Err()
		if err != nil {
			err = contextError(ctx)
		} else {
			err = s.run(yield)
		}
		if err != nil && !s.stopped {
			yield(Info{}, err)
		}
	}
}

// A scan is one call of Scan.
type scan struct {
	m       *Manager
	ctx     context.Context
	prefix  string
	known   *processCache
	seen    map[string]bool // names that were yielded
	stopped bool            // by the caller
}

func (s *scan) run(yield func(Info, error) bool) error {
	masters := s.m.lanes.Masters()
	if masters == nil {
		masters = []string{""}
	}
	for _, master := range masters {
		if err := s.walk(master, "hash", escaped(s.prefix)+"*", s.records, yield); err != nil || s.stopped {
			return err
		}
		if err := s.walk(master, "zset", wire.TakenPattern, s.permits, yield); err != nil || s.stopped {
			return err
		}
	}
	return nil
}

// walk walks over the keys of a master that match a pattern and have a type, and yields what read
// makes of each page.
func (s *scan) walk(master, keyType, pattern string, read func(keys []string) ([]Info, error), yield func(Info, error) bool) error {
	for cursor := "0"; ; {
		answers, err := s.ask(master, wire.Scan(cursor, pattern, keyType))
		if err = cmp.Or(err, failed(answers...)); err != nil {
			return err
		}
		next, keys, ok := wire.ReadScan(&answers[0])
		if !ok {
			return serverError(answers[0].Unexpected())
		}
		infos, err := read(keys)
		if err != nil {
			return err
		}
		for _, info := range infos {
			if s.seen[info.Name] {
				continue
			}
			s.seen[info.Name] = true
			if !yield(info, nil) {
				s.stopped = true
				return nil
			}
		}
		if cursor = next; cursor == "0" {
			return nil
		}
	}
}

// records reads the keys of hashes that are records of locks.
func (s *scan) records(keys []string) (infos []Info, err error) {
	var names []string
	var looks []wire.Command
	for _, key := range keys {
		if checkName(key) == nil && !s.seen[key] {
			names, looks = append(names, key), append(looks, wire.Inspect(key, false))
		}
	}
	answers, err := s.ask("", looks...)
	if err = cmp.Or(err, failed(answers...)); err != nil {
		return nil, err
	}
	for i, name := range names {
		info, err := readInfo(name, &answers[i])
		if err != nil || len(info.Holders) == 0 || info.isStrange() {
			continue // another hash, or one that came meanwhile
		}
		infos = append(infos, info)
	}
	return infos, s.known.fillIn(s.ctx, "", infos...)
}

// permits reads the keys of sets of permits that are taken. A key may be of either of two names.
// While a slot is being moved, a master refuses the name without permits, which lacks a key: that
// is no error if the other name is found.
func (s *scan) permits(keys []string) (infos []Info, err error) {
	var names, of []string
	var looks []wire.Command
	found := make(map[string]bool) // keys
	for _, key := range keys {
		for _, name := range takenNames(key) {
			if s.seen[name] {
				found[key] = true
			} else if strings.HasPrefix(name, s.prefix) && checkName(name) == nil {
				names, of, looks = append(names, name), append(of, key), append(looks, wire.InspectPermits(name))
			}
		}
	}
	answers, err := s.ask("", looks...)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		state, ok := wire.ReadPermits(&answers[i])
		if !ok || !state.Exists || len(state.Permits) == 0 {
			continue
		}
		found[of[i]] = true
		taken, err := s.known.taken(s.ctx, "", state.Permits)
		if err != nil {
			return nil, err
		}
		permits := permitsInfo(name, &state)
		permits.Taken = taken
		infos = append(infos, Info{Name: name, Kind: wire.KindName(core.Permits), Locked: true, Permits: &permits, TTL: taken[len(taken)-1].TTL, Waiting: state.Waiting})
	}
	for i, key := range of {
		if err := failed(answers[i]); err != nil && !found[key] {
			return nil, err
		}
	}
	return infos, nil
}

// takenNames returns the names of permits whose set of taken permits may be at a key.
func takenNames(key string) []string {
	before, ok := wire.NameOfTaken(key)
	if !ok || !strings.Contains(before, "{") {
		return nil
	}
	names := []string{before}
	if inner, ok := strings.CutPrefix(before, "{"); ok {
		if inner, ok := strings.CutSuffix(inner, "}"); ok && !strings.ContainsAny(inner, "{}") {
			names = append(names, inner)
		}
	}
	return names
}

// ask sends commands to a master or, if master is empty, to the masters of their keys, and returns
// the answers.
func (s *scan) ask(master string, commands ...wire.Command) ([]wire.Answer, error) {
	waits := make([]*futures.Future[wire.Answer], len(commands))
	for i, c := range commands {
		f, err := s.m.send(master, c)
		if err != nil {
			return nil, err
		}
		waits[i] = f
	}
	answers := make([]wire.Answer, len(commands))
	for i, f := range waits {
		a, err := f.Await(s.ctx)
		if err != nil {
			return nil, err
		}
		answers[i] = a
	}
	return answers, nil
}

// failed returns the first failure of answers as an error. A key of another type is none.
func failed(answers ...wire.Answer) error {
	for _, a := range answers {
		if f := a.Failure; f != nil && f.Kind != wire.WrongType {
			return serverError(f)
		}
	}
	return nil
}

// escaped returns a text as a pattern that matches only itself.
func escaped(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
