package turns

import (
	"fmt"
	"strings"
	"time"
)

// A Result is what the meter measured.
type Result struct {
	Clients []Share
	// Time is how long the case took.
	Time time.Duration
	// Taken is how long there was a record. Idle is how long there was none while somebody waited.
	Taken, Idle time.Duration
	Grants      int
	Commands    int
	// FirstHalf is, for a drain, how many grants of the first half each client got.
	FirstHalf []int
}

// A Share is the part of one client.
type Share struct {
	Name string
	// Had is how long the client had the record, and Turns is how often it got the record from
	// another client, or from nobody.
	Had    time.Duration
	Turns  int
	Grants int
	// Gap is the longest time that it waited without a grant.
	Gap      time.Duration
	Commands int
}

// Part returns the part of Taken for which a client had the record, from 0 to 1.
func (r *Result) Part(client int) float64 {
	return ratio(float64(r.Clients[client].Had), float64(r.Taken))
}

// GrantPart returns the part of all grants that a client got, from 0 to 1.
func (r *Result) GrantPart(client int) float64 {
	return ratio(float64(r.Clients[client].Grants), float64(r.Grants))
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

type meter struct {
	w       *world
	clients []metered
	origin  time.Duration

	holder  int // the client that has the record; len(clients): the stranger of a drain; -1: nobody
	waiting int // callers of all clients
	last    time.Duration
	taken   time.Duration
	idle    time.Duration

	inside int   // callers that hold the lock
	grants []int // the client of each grant, in order; of a drain only
	total  int
	left   int // callers of a drain that have not unlocked
}

type metered struct {
	Share
	waiting int
	since   time.Duration // when it was last granted the lock, or began to wait
}

func (m *meter) init(w *world, clients []Client) {
	m.w, m.holder = w, -1
	for _, c := range clients {
		m.clients = append(m.clients, metered{Share: Share{Name: c.Name}})
		m.left += c.Callers
	}
}

// reset starts the measurement again.
func (m *meter) reset() {
	m.account()
	m.origin, m.taken, m.idle = m.w.now, 0, 0
	for i := range m.clients {
		c := &m.clients[i]
		c.Had, c.Turns, c.Commands, c.since = 0, 0, 0, m.w.now
	}
}

func (m *meter) name(client int) string {
	if client >= 0 && client < len(m.clients) {
		return m.clients[client].Name
	}
	return "*"
}

// account adds the time since the last change to the present holder, or to idle.
func (m *meter) account() {
	d := m.w.now - m.last
	m.last = m.w.now
	switch {
	case m.holder >= 0:
		m.taken += d
		if m.holder < len(m.clients) {
			m.clients[m.holder].Had += d
		}
	case m.waiting > 0:
		m.idle += d
	}
}

// record notes which client has the record from now on.
func (m *meter) record(holder int) {
	if holder != m.holder {
		m.account()
		if m.holder = holder; holder >= 0 && holder < len(m.clients) {
			m.clients[holder].Turns++
		}
	}
}

func (m *meter) command(client int) { m.clients[client].Commands++ }

func (m *meter) asks(client int) {
	m.account()
	m.waiting++
	c := &m.clients[client]
	if c.waiting++; c.waiting == 1 {
		c.since = m.w.now
	}
}

func (m *meter) granted(client int) {
	m.account()
	m.waiting--
	c := &m.clients[client]
	c.waiting--
	c.Gap = max(c.Gap, m.w.now-c.since)
	c.since = m.w.now
	c.Grants++
	m.total++
	if m.inside++; m.inside > 1 {
		panic(fmt.Sprintf("%s is granted a lock that another caller holds", c.Name))
	}
	if m.w.cfg.Drain {
		m.grants = append(m.grants, client)
	}
}

// leaves notes that a caller begins to unlock.
func (m *meter) leaves() { m.inside-- }

func (m *meter) unlocked() {
	m.left--
	if m.w.cfg.Drain && m.left == 0 {
		m.w.stop = true
	}
}

func (m *meter) result() Result {
	m.account()
	r := Result{Time: m.w.now - m.origin, Taken: m.taken, Idle: m.idle, Grants: m.total}
	for i := range m.clients {
		c := &m.clients[i]
		if c.waiting > 0 {
			c.Gap = max(c.Gap, m.w.now-c.since)
		}
		r.Clients = append(r.Clients, c.Share)
		r.Commands += c.Commands
	}
	if m.w.cfg.Drain {
		r.FirstHalf = make([]int, len(m.clients))
		for _, c := range m.grants[:len(m.grants)/2] {
			r.FirstHalf[c]++
		}
	}
	return r
}

// Head is the heading of the lines that String returns.
const Head = "client    record  turns  grants          longest gap  commands"

func (r Result) String() string {
	var s strings.Builder
	for i, c := range r.Clients {
		fmt.Fprintf(&s, "%-9s %5.1f%%  %5d  %7d %5.1f%%  %9.1fms  %8d", c.Name, 100*r.Part(i), c.Turns, c.Grants, 100*r.GrantPart(i), float64(c.Gap)/1e6, c.Commands)
		if r.FirstHalf != nil {
			fmt.Fprintf(&s, "  first half %d", r.FirstHalf[i])
		}
		s.WriteByte('\n')
	}
	fmt.Fprintf(&s, "%v, taken %.1f%%, free while wanted %.1f%%, %.0f grants/s", r.Time.Round(time.Microsecond), 100*ratio(float64(r.Taken), float64(r.Time)),
		100*ratio(float64(r.Idle), float64(r.Time)), ratio(float64(r.Grants), r.Time.Seconds()))
	return s.String()
}
