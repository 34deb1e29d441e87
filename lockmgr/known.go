package lockmgr

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/clean"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A processCache has records of managers' processes. Each record is read from the server once.
type processCache struct {
	m       *Manager
	records map[string]*processRecord // by their keys; nil: there is no record that can be read
	own     string                    // the key of this manager's record
}

func (m *Manager) newProcessCache() *processCache {
	return &processCache{m: m, records: make(map[string]*processRecord), own: wire.ProcessKey(m.id.uuid)}
}

// taken returns taken permits, with Process, Since and Note as far as known. taken returns the
// error of ctx, or ErrClosed.
func (k *processCache) taken(ctx context.Context, name string, permits []wire.TakenPermit) (all []TakenPermit, err error) {
	keys := make([]string, min(len(permits), mostNamed))
	for i := range keys {
		keys[i], _ = permits[i].Hold()
	}
	if err := k.find(ctx, name, keys); err != nil {
		return nil, err
	}
	for i := range permits {
		t := &permits[i]
		told := TakenPermit{ID: t.Text(), TTL: t.TTL, Ours: t.Of(k.m.id.uuid)}
		key, number := t.Hold()
		told.Process, told.Since, told.Note = k.of(key, number)
		all = append(all, told)
	}
	return all, nil
}

// find gets the records with the given keys, unless in the cache already. find ignores empty keys.
// The record of this manager comes from the manager's goroutine, and not from the server, and has
// the holds of a name, or of all names if name is "".
func (k *processCache) find(ctx context.Context, name string, keys []string) error {
	if slices.Contains(keys, k.own) && k.records[k.own] == nil {
		uses, err := k.m.survey(ctx, name)
		if err != nil {
			return err
		}
		k.addOwn(uses)
	}
	return k.read(ctx, keys)
}

// addOwn puts the manager's own record into the cache.
func (k *processCache) addOwn(uses []use) {
	now, wall := k.m.now(), time.Now()
	record := &processRecord{Process: k.m.options.Process, Holds: make(map[string]holdRecord)}
	for _, u := range uses {
		if !u.Held {
			continue
		}
		number := strconv.FormatUint(u.Recorded, 10)
		since := wall.Add(u.since - now).UnixMilli()
		if old, ok := record.Holds[number]; !ok || old.Note == "" && noteOf(u.Request) != "" {
			record.Holds[number] = holdRecord{since, noteOf(u.Request)}
		}
	}
	k.records[k.own] = record
}

// read reads the records that the cache does not have yet. An unreadable record counts as missing.
func (k *processCache) read(ctx context.Context, keys []string) error {
	asked := make(map[string]*futures.Future[wire.Answer])
	for _, key := range keys {
		if _, ok := k.records[key]; ok || key == "" || asked[key] != nil {
			continue
		}
		f, err := k.m.send("", wire.GetProcess(key, mostRecord+1))
		if err != nil {
			return err
		}
		asked[key] = f
	}
	for key, f := range asked {
		a, err := f.Await(ctx)
		if err != nil {
			return err
		}
		k.records[key] = readProcess(a.Text)
	}
	return nil
}

// mostRecord bounds the bytes of a record. mostNamed bounds the holders of a lock, and the permits,
// whose records are read. Anybody who can write the keys may have written the records.
const (
	mostRecord = 1 << 20
	mostNamed  = 64
)

// readProcess parses a record that another process wrote. readProcess returns nil if the text is no
// record.
func readProcess(text string) *processRecord {
	r := new(processRecord)
	if len(text) > mostRecord || json.Unmarshal([]byte(text), r) != nil {
		return nil
	}
	r.Process.clean()
	return r
}

func (p *Process) clean() {
	p.Program, p.Host = clean.Text(p.Program, MaxProcessBytes), clean.Text(p.Host, MaxProcessBytes)
}

// readKept fills in what the record that KeepFor leaves says of its hold.
func (h *Holder) readKept(text string) {
	var r keptRecord
	if !h.Kept() || json.Unmarshal([]byte(text), &r) != nil {
		return
	}
	if h.Ended = timeOf(r.Ended); !h.Ended.IsZero() {
		r.Process.clean()
		h.Count, h.Process, h.Since, h.Note = 1, r.Process, timeOf(r.Since), clean.Text(r.Note, MaxNoteBytes)
	}
}

// timeOf returns the time that another process wrote, or zero: no hold was granted or ended at zero
// or in the future. Clocks differ by less than an hour.
func timeOf(ms int64) (t time.Time) {
	if at := time.UnixMilli(ms); ms > 0 && time.Until(at) < time.Hour {
		t = at
	}
	return t
}

// of returns the known facts of a hold: the process, the time of the grant, and the note.
func (k *processCache) of(key, number string) (p Process, since time.Time, note string) {
	record := k.records[key]
	if record == nil {
		return p, since, note
	}
	if told, ok := record.Holds[number]; ok {
		note, since = clean.Text(told.Note, MaxNoteBytes), timeOf(told.Since)
	}
	return record.Process, since, note
}
