package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A row is what is shown of a lock. Its JSON form is what --json prints.
type row struct {
	Name string `json:"name"`
	// NameBytes is the name if that is no UTF-8; Name has U+FFFD in place of some bytes then.
	NameBytes []byte   `json:"name_base64,omitempty"`
	Kind      string   `json:"kind"`
	Mode      string   `json:"mode,omitempty"`
	Holders   []holder `json:"holders"` // at most some thousand
	Count     int      `json:"holder_count"`
	// TTL is the remaining life of the record in milliseconds; negative if it has no end.
	TTL int64 `json:"ttl_ms"`
	// Waiting is how many processes wait, or for a fair lock how many requests; negative if the
	// server does not say.
	Waiting int64 `json:"waiting"`
	// Free and Limit are those of permits.
	Free  *int `json:"free,omitempty"`
	Limit *int `json:"limit,omitempty"`
	// Token is the last fencing token given. Only show knows it.
	Token int64 `json:"token,omitempty"`
}

type holder struct {
	Owner      string     `json:"owner"`
	OwnerBytes []byte     `json:"owner_base64,omitempty"` // as NameBytes
	Program    string     `json:"program,omitempty"`
	Host       string     `json:"host,omitempty"`
	PID        int        `json:"pid,omitempty"`
	Since      *time.Time `json:"since,omitempty"`
	Note       string     `json:"note,omitempty"`
	Kept       bool       `json:"kept,omitempty"` // it has ended, and --keep or KeepFor keeps the lock
	Ended      *time.Time `json:"ended,omitempty"`
}

// rowOf returns the row of a lock.
func rowOf(info lockmgr.Info) row {
	r := row{
		Name: info.Name, NameBytes: bytesOf(info.Name), Kind: info.Kind, Mode: info.Mode, Holders: []holder{},
		TTL: millis(info.TTL), Waiting: info.Waiting, Token: info.Token,
	}
	for _, h := range info.Holders {
		row := holderOf(h.Owner, h.Process, h.Since, h.Note)
		if row.Kept = h.Kept(); !h.Ended.IsZero() {
			row.Ended = &h.Ended
		}
		r.Holders = append(r.Holders, row)
	}
	r.Count = info.HolderCount
	if len(info.Queue) > 0 {
		r.Waiting = int64(len(info.Queue))
	}
	if p := info.Permits; p != nil {
		r.Free, r.Limit = &p.Free, &p.Limit
		for _, t := range p.Taken {
			r.Holders = append(r.Holders, holderOf(t.ID, t.Process, t.Since, t.Note))
		}
		r.Count = max(len(p.Taken), p.Limit-p.Free)
	}
	return r
}

func holderOf(owner string, p lockmgr.Process, since time.Time, note string) holder {
	h := holder{Owner: owner, OwnerBytes: bytesOf(owner), Program: p.Program, Host: p.Host, PID: p.PID, Note: note}
	if !since.IsZero() {
		h.Since = &since
	}
	return h
}

// ids returns the IDs of the holders. The record of a lock may have none: the empty ID is that of
// no holder.
func (r *row) ids() []string {
	if len(r.Holders) == 0 {
		return []string{""}
	}
	ids := make([]string, len(r.Holders))
	for i, h := range r.Holders {
		ids[i] = h.Owner
	}
	return ids
}

// narrow removes all holders from the row but those with the given IDs. narrow returns the IDs that
// no holder in the row has. The TTL stays that of the record, or of the permit that lasts longest.
func (r *row) narrow(ids []string) (unknown []string) {
	unknown = slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return slices.ContainsFunc(r.Holders, func(h holder) bool { return h.Owner == id })
	})
	r.Holders = slices.DeleteFunc(r.Holders, func(h holder) bool { return !slices.Contains(ids, h.Owner) })
	r.Count = len(r.Holders)
	return unknown
}

func millis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

// Words of the outputs. ended begins what is said of a holder that has ended.
const (
	heldBy = "held by"
	keptBy = "kept by"
	ended  = ", ended "
)

// words returns how a holder has the lock, and which process the holder is, or the ID if that is
// not known. All outputs say it so.
func (h *holder) words() (how, who string) {
	who = shown(h.Owner)
	if p := (lockmgr.Process{Program: h.Program, Host: h.Host, PID: h.PID}).String(); p != "" {
		who = said(p)
	}
	if !h.Kept {
		return heldBy, who
	}
	if h.Ended != nil {
		who += ended + age(time.Since(*h.Ended)) + " ago"
		if h.Since != nil {
			who += " after " + age(h.Ended.Sub(*h.Since))
		}
	}
	return keptBy, who
}

// kept reports whether nobody holds the lock any more, and --keep or KeepFor keeps the name.
func (r *row) kept() bool { return len(r.Holders) > 0 && r.Holders[0].Kept }

// idle reports whether nobody holds the lock.
func (r *row) idle() bool { return len(r.Holders) == 0 || r.kept() }

// keptUntil returns the end of KeepFor as a text.
func (r *row) keptUntil() string {
	if r.TTL < 0 {
		return "kept without end"
	}
	return "kept until " + time.Now().Add(time.Duration(r.TTL)*time.Millisecond).Format(time.DateTime)
}

// heldOrKept returns who has the lock, for an error.
func (r *row) heldOrKept() string {
	const most = 3
	var texts []string
	for _, h := range r.Holders[:min(most, len(r.Holders))] {
		how, who := h.words()
		if h.Kept {
			how = r.keptUntil() + " by"
		} else if h.Since != nil {
			who += ", for " + age(h.held(time.Now()))
		}
		if h.Note != "" {
			who += ": " + said(h.Note)
		}
		texts = append(texts, how+" "+who)
	}
	if n := r.Count - len(texts); n > 0 {
		texts = append(texts, fmt.Sprintf("%d more", n))
	}
	return strings.Join(texts, "; ")
}

// holders returns who has the lock, in few words.
func (r *row) holders() string {
	if len(r.Holders) == 0 {
		return "-"
	}
	how, text := r.Holders[0].words()
	if how != heldBy {
		text = how + " " + text
	}
	if n := r.Count - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// note returns the first note of the holders.
func (r *row) note() string {
	for _, h := range r.Holders {
		if h.Note != "" {
			return said(h.Note)
		}
	}
	return ""
}

// held returns for how long the lock is held, or was until its holder ended; zero if that is not
// known.
func (r *row) held(now time.Time) time.Duration {
	var longest time.Duration
	for _, h := range r.Holders {
		if h.Since != nil {
			longest = max(longest, h.held(now), 1)
		}
	}
	return longest
}

// held is that of a holder whose Since is known.
func (h *holder) held(now time.Time) time.Duration {
	if h.Ended != nil {
		now = *h.Ended
	}
	return now.Sub(*h.Since)
}

// kind returns the kind with what belongs to it.
func (r *row) kind() string {
	switch {
	case r.Mode == "read", r.Mode == "write":
		return r.Mode
	case r.Limit != nil:
		return fmt.Sprintf("permits %d/%d", *r.Limit-*r.Free, *r.Limit)
	}
	return r.Kind
}

func (r *row) ttl() string {
	switch {
	case r.TTL < 0:
		return "no end"
	case r.Limit != nil && r.Count == 0:
		return "-"
	}
	return age(time.Duration(r.TTL) * time.Millisecond)
}

// renewal bounds the time until a holder that lives renews the lock next: the third of the lease. A
// TTL is two thirds of it at least, whenever one looks.
func (r *row) renewal() time.Duration {
	return (time.Duration(r.TTL)*time.Millisecond/2 + time.Second - 1).Truncate(time.Second)
}

func (r *row) waiting() string {
	if r.Waiting < 0 {
		return "?"
	}
	return strconv.FormatInt(r.Waiting, 10)
}

// age returns a time as a person reads it: 3s, 2m5s, 4h10m, 3d.
func age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// scan returns the locks whose names begin with prefix, by name. Permits with a limit of 0 are
// found if the prefix is their name.
func scan(ctx context.Context, m *lockmgr.Manager, prefix string) ([]row, error) {
	rows := []row{}
	for info, err := range m.Scan(ctx, prefix) {
		if err != nil {
			return nil, failed(err)
		}
		rows = append(rows, rowOf(info))
	}
	// The key of permits that nobody has is a plain number, like keys of other programs. So Scan
	// skips it. An error means that the prefix is no name, or that the user may not read the key.
	if r, _, err := look(ctx, m, prefix); err == nil && r.Limit != nil && *r.Limit == 0 && r.Count == 0 {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.Name, b.Name) })
	return rows, nil
}

// look returns one lock. Permits are found by the type of their key.
func look(ctx context.Context, m *lockmgr.Manager, name string) (row, bool, error) {
	info, err := m.Inspect(ctx, name)
	if isWrongType(err) {
		var p lockmgr.PermitsInfo
		if p, err = m.Permits(name, 1).Inspect(ctx); err == nil {
			info = lockmgr.Info{Name: p.Name, Kind: "permits", Locked: p.Exists, Permits: &p, Waiting: p.Waiting}
			if n := len(p.Taken); n > 0 {
				info.TTL = p.Taken[n-1].TTL // the last to expire
			}
		}
	}
	return rowOf(info), info.Locked, failed(err)
}
