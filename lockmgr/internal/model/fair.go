package model

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Fair is the keys of one fair lock. Channel is the first part of its channels.
type Fair struct {
	Lock, Queue, Deadlines, Waits, Channel, Counter string
}

// A Line is what a script of a fair lock does to the queue.
type Line struct {
	Manager      string
	ID           uint64 // of the script
	LifeMs       int64
	Before       uint64
	Refresh      bool
	Places       int
	Pass         bool
	Number       uint64 // the new holder
	Others       []uint64
	Joins, Leave []uint64

	refreshes bool // Refresh, as the script was sent
	late      bool // it is older than a script of its manager that has run
}

// A Placed is the reply of a script that takes a fair lock.
type Placed struct {
	OK        bool
	OtherKind bool
	GaveWay   bool
	TTL       int64
	Front     uint64
	Mixed     bool
	Missing   bool
	Token     string
}

// PlaceID returns the member of the queue that is place n of a manager.
func PlaceID(manager string, n uint64) string {
	return manager + ":" + strconv.FormatUint(n, 10) + ":f"
}

// known reports whether a member is of this library.
func known(member string) bool { return strings.HasSuffix(member, ":f") }

// numberOf returns the number of a place of a manager, or 0.
func (x *Line) numberOf(member string) uint64 {
	rest, ok := strings.CutPrefix(member, x.Manager+":")
	if !ok || !known(member) {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSuffix(rest, ":f"), 10, 64)
	if PlaceID(x.Manager, n) != member || n >= 1e15 {
		return 0
	}
	return n
}

// Queued returns those that wait for a fair lock, the first is next.
func (s *Server) Queued(f Fair) []string {
	if v := s.get(f.Queue); v != nil && v.kind == list {
		return v.list
	}
	return nil
}

func (s *Server) head(f Fair) string {
	if q := s.Queued(f); len(q) > 0 {
		return q[0]
	}
	return ""
}

func (s *Server) push(key, member string) {
	v := s.get(key)
	if v == nil {
		v = &value{kind: list, end: forever}
		s.put(key, v)
	}
	v.list = append(v.list, member)
}

// removePlace removes a member from the queue and its deadline, and reports whether there was
// a deadline.
func (s *Server) removePlace(f Fair, member string) bool {
	_, there := s.Deadline(f, member)
	s.zrem(f.Deadlines, []Member{{Name: member}})
	if v := s.get(f.Queue); v != nil && v.kind == list {
		if i := slices.Index(v.list, member); i >= 0 {
			v.list = slices.Delete(v.list, i, i+1)
		}
		if len(v.list) == 0 {
			delete(s.keys, f.Queue)
		}
	}
	return there
}

// Deadline returns the deadline of a member in milliseconds, and whether it has one.
func (s *Server) Deadline(f Fair, member string) (int64, bool) {
	v, _ := s.getSet(f.Deadlines)
	if i := v.member(member); i >= 0 {
		return v.members[i].Score, true
	}
	return 0, false
}

// noted returns a number that the scripts have noted.
func (s *Server) noted(f Fair, field string) (int64, bool) {
	v, _ := s.getHash(f.Waits)
	if v == nil {
		return 0, false
	}
	if i := v.field(field); i >= 0 {
		n, _ := strconv.ParseInt(v.hash[i].Value, 10, 64)
		return n, true
	}
	return 0, false
}

// keep keeps what the scripts have noted for as long as a place lasts.
func (s *Server) keep(f Fair, x *Line) { s.pexpire(f.Waits, x.LifeMs) }

func (s *Server) note(f Fair, x *Line) {
	q := s.Queued(f)
	first := len(q)
	for first > 0 && (s.get(f.Waits) == nil || !known(q[first-1])) {
		first--
	}
	more := int64(0)
	for i := first; i < len(q); i++ {
		member := q[i]
		if known(member) {
			continue
		}
		last, has := int64(0), false
		if i > 0 {
			last, has = s.Deadline(f, q[i-1])
			if !has && !known(q[i-1]) {
				last, has = s.ms(), true
			}
		}
		till, is := s.Deadline(f, member)
		if !is {
			till = s.ms()
		}
		old, noted := s.noted(f, member)
		wait := max(0, till-last)
		switch {
		case !has && noted:
			wait = old
		case !has:
			wait = max(defaultWait, till-s.ms())
		case i == first:
			wait = max(old, wait)
		}
		if !noted || wait != old {
			_ = s.hset(f.Waits, member, strconv.FormatInt(wait, 10))
			more += wait - old
		}
	}
	if more != 0 {
		_ = s.hset(f.Waits, "sum", strconv.FormatInt(max(0, s.ahead(f)+more), 10))
		s.keep(f, x)
	}
}

// defaultWait is the wait of a client of Redisson whose own can't be read, in milliseconds.
const defaultWait = 300000

// move moves the deadline of a member, if it has one.
func (s *Server) move(f Fair, member string, by int64) {
	if till, has := s.Deadline(f, member); has {
		s.zadd(f.Deadlines, Member{member, till + by})
	}
}

func (s *Server) ahead(f Fair) int64 {
	n, _ := s.noted(f, "sum")
	return n
}

// begin finds out whether a script is older than one of its manager that has run.
func (s *Server) begin(f Fair, x *Line) {
	seen, _ := s.noted(f, "@"+x.Manager)
	x.refreshes = x.Refresh
	if uint64(seen) > x.ID {
		x.late, x.Joins, x.Refresh = true, nil, false
	}
}

func (s *Server) remember(f Fair, x *Line) {
	if !x.late && s.head(f) != "" {
		_ = s.hset(f.Waits, "@"+x.Manager, strconv.FormatUint(x.ID, 10))
		s.keep(f, x)
	}
}

func (s *Server) clean(f Fair, x *Line) {
	for first := s.head(f); first != ""; first = s.head(f) {
		till, has := s.Deadline(f, first)
		if n := x.numberOf(first); has && till > s.ms() && (n == 0 || n >= x.Before) {
			break
		}
		s.removePlace(f, first)
		if !known(first) {
			_ = s.hdel(f.Waits, []string{first})
		}
	}
	for _, n := range x.Leave {
		if _, has := s.Deadline(f, PlaceID(x.Manager, n)); has {
			s.removePlace(f, PlaceID(x.Manager, n))
		}
	}
	first := s.head(f)
	if first == "" {
		s.del(f.Waits)
		s.del(f.Deadlines)
		return
	}
	till, has := s.Deadline(f, first)
	if over := till - s.ms() - x.LifeMs; known(first) && has && over > 0 {
		s.move(f, first, -over)
		for _, member := range s.Queued(f)[1:] {
			if known(member) {
				break
			}
			s.move(f, member, -over)
		}
	}
}

func (s *Server) join(f Fair, x *Line, except string) error {
	there := slices.Clone(s.Queued(f))
	for _, n := range x.Joins {
		member := PlaceID(x.Manager, n)
		if member == except {
			continue
		}
		_, has := s.Deadline(f, member)
		if s.OOM {
			return ErrOOM
		}
		if !has {
			s.zadd(f.Deadlines, Member{member, s.ms() + s.ahead(f) + x.LifeMs})
		}
		if x.Refresh && !slices.Contains(there, member) || !x.Refresh && !has {
			s.push(f.Queue, member)
		}
	}
	s.remember(f, x)
	return nil
}

func (s *Server) refresh(f Fair, x *Line, mine string) (missing bool) {
	if !x.Refresh {
		return false
	}
	for _, member := range slices.Clone(s.Queued(f)) {
		if n := x.numberOf(member); n != 0 && n < x.Before {
			s.removePlace(f, member)
		}
	}
	sum, places, by, all := int64(0), 0, int64(0), s.ahead(f)
	var at []int
	var ours []uint64
	var till []int64
	for i, member := range s.Queued(f) {
		if n := x.numberOf(member); n != 0 {
			if old, has := s.Deadline(f, member); all > 0 {
				if by = 0; has {
					by = s.ms() + sum + x.LifeMs - old
				}
			}
			at, ours, till = append(at, i), append(ours, n), append(till, s.ms()+sum+x.LifeMs)
		} else if !known(member) {
			wait, is := s.noted(f, member)
			if !is {
				wait = defaultWait
			}
			sum += wait
			s.move(f, member, by)
		} else {
			by = 0
		}
	}
	slices.Sort(ours)
	if !slices.Contains(s.Queued(f), mine) {
		s.zrem(f.Deadlines, []Member{{Name: mine}})
	}
	for i, n := range ours {
		member := PlaceID(x.Manager, n)
		s.get(f.Queue).list[at[i]] = member
		s.zadd(f.Deadlines, Member{member, till[i]})
		if member != mine {
			places++
		}
	}
	for _, field := range s.fields(f.Waits) {
		if field.Name != "sum" && field.Name[0] != '@' && !slices.Contains(s.Queued(f), field.Name) {
			_ = s.hdel(f.Waits, []string{field.Name})
		}
	}
	if was, is := s.noted(f, "sum"); is && was != sum {
		_ = s.hset(f.Waits, "sum", strconv.FormatInt(sum, 10))
	}
	s.keep(f, x)
	return places < x.Places
}

// expireQueue is the function expire of the scripts.
func (s *Server) expireQueue(f Fair, x *Line) {
	if first := s.head(f); first != "" {
		ttl := int64(1e12)
		if known(first) && s.ahead(f) == 0 {
			ttl = x.LifeMs
		}
		s.pexpire(f.Deadlines, ttl)
		s.pexpire(f.Queue, ttl)
	}
}

func (s *Server) front(f Fair, x *Line) (last uint64) {
	for i, member := range s.Queued(f) {
		n := x.numberOf(member)
		if n == 0 || i == 64 {
			break
		}
		last = n
	}
	return last
}

func (s *Server) mixed(f Fair) bool {
	if s.ahead(f) > 0 {
		return true
	}
	field := s.holder(f.Lock)
	return field != "" && !known(field)
}

// holder returns the field of a record that has one, or "".
func (s *Server) holder(lock string) string {
	if fields := s.fields(lock); len(fields) > 0 {
		return fields[0].Name
	}
	return ""
}

// plainRecord matches a field of a record of this library that is no fair lock.
var plainRecord = regexp.MustCompile(`^[0-9a-f]+-[0-9a-f]+-8[0-9a-f]+-[0-9a-f]+-[0-9a-f]+:`)

func plain(field string) bool { return !known(field) && plainRecord.MatchString(field) }

// tell wakes the first in the queue unless it is the manager's.
func (s *Server) tell(f Fair, x *Line) error {
	first := s.head(f)
	if first == "" || x.numberOf(first) != 0 {
		return nil
	}
	if known(first) {
		q := s.Queued(f)
		for _, member := range q[1:min(len(q), 64)] {
			if !known(member) {
				_, _ = s.publish(s.channelOf(f, member), "0")
				break
			}
		}
	}
	_, err := s.publish(s.channelOf(f, first), "0")
	return err
}

// channelOf returns the channel on which a member of the queue is told.
func (s *Server) channelOf(f Fair, member string) string {
	if rest, ok := strings.CutSuffix(member, ":f"); ok {
		if manager := strings.TrimRight(rest, "0123456789"); manager != rest && strings.HasSuffix(manager, ":") {
			member = strings.TrimSuffix(manager, ":")
		}
	}
	return f.Channel + ":" + member
}

func (s *Server) untilFree(f Fair) int64 {
	till, has := s.Deadline(f, s.head(f))
	if !has {
		return 0
	}
	return max(0, till-s.ms())
}

func (x *Line) others() (out []string) {
	for _, n := range x.Others {
		out = append(out, PlaceID(x.Manager, n))
	}
	return out
}

// installPlace is the function install of the scripts.
func (s *Server) installPlace(f Fair, x *Line, leaseMs, tokens int64) (string, error) {
	mine := PlaceID(x.Manager, x.Number)
	least := s.leastLife(f.Lock, mine)
	last, err := s.install(f.Lock, f.Counter, tokens, mine)
	if err != nil {
		return "", err
	}
	s.pexpire(f.Lock, max(least, leaseMs))
	if err := s.hdel(f.Lock, x.others()); err != nil {
		return "", err
	}
	if _, has := s.Deadline(f, mine); has {
		s.removePlace(f, mine)
		if s.head(f) == "" {
			s.del(f.Waits)
			s.del(f.Deadlines)
		}
	}
	return last, nil
}

// AcquireFair takes a lock whose queue is empty or headed by the new holder.
func (s *Server) AcquireFair(f Fair, x Line, leaseMs, tokens int64) (Placed, error) {
	s.begin(f, &x)
	mine := PlaceID(x.Manager, x.Number)
	first, ttl := s.head(f), int64(-1)
	ours, taken, stray := false, false, false
	if s.get(f.Lock) != nil {
		ttl = s.pttl(f.Lock)
		if mode, err := s.mode(f.Lock); err != nil || mode != "" {
			return Placed{OtherKind: true, TTL: ttl}, err
		}
		ours, _ = s.hexists(f.Lock, mine)
		carries, _ := s.carriesOne(f.Lock, x.others())
		stray = !ours && !x.late && carries
		taken = !ours && !stray
		if taken && plain(s.holder(f.Lock)) {
			return Placed{OtherKind: true, TTL: ttl}, nil
		}
	}
	s.note(f, &x)
	s.clean(f, &x)
	empty, except := s.head(f) == "", ""
	if ours || empty && !taken {
		except = mine
	}
	if err := s.join(f, &x, except); err != nil {
		return Placed{}, err
	}
	missing := s.refresh(f, &x, mine)
	s.expireQueue(f, &x)
	next := s.head(f)
	if ours || !taken && !x.late && (empty || next == mine) {
		token, err := s.installPlace(f, &x, leaseMs, tokens)
		if err != nil {
			return Placed{}, err
		}
		return Placed{OK: true, Front: s.front(f, &x), Mixed: s.mixed(f), Missing: missing, Token: token}, nil
	}
	if _, has := s.Deadline(f, mine); !has {
		missing = true
	}
	if !taken && !x.late {
		if stray {
			s.del(f.Lock)
		}
		if stray || next != first || missing || len(x.Others) > 0 || x.refreshes {
			_ = s.tell(f, &x)
		}
		ttl = s.untilFree(f)
	}
	return Placed{TTL: ttl, Mixed: s.mixed(f), Missing: missing}, nil
}

// TransferFair records a new holder, or gives the lock back. A Placed that is neither OK nor
// GaveWay means that the record is not the manager's.
func (s *Server) TransferFair(f Fair, x Line, leaseMs, tokens int64) (Placed, error) {
	s.begin(f, &x)
	mine := PlaceID(x.Manager, x.Number)
	recorded, err := s.hexists(f.Lock, mine)
	carries, _ := s.carriesOne(f.Lock, x.others())
	if err != nil || !recorded && !carries {
		return Placed{}, err
	}
	s.note(f, &x)
	s.clean(f, &x)
	empty, except := s.head(f) == "", ""
	if recorded || empty {
		except = mine
	}
	if err := s.join(f, &x, except); err != nil {
		return Placed{}, err
	}
	missing := s.refresh(f, &x, mine)
	s.expireQueue(f, &x)
	if x.Pass && !recorded && !empty && s.head(f) != mine {
		if _, has := s.Deadline(f, mine); !has {
			missing = true
		}
		s.del(f.Lock)
		_ = s.tell(f, &x)
		return Placed{GaveWay: true, TTL: s.untilFree(f), Mixed: s.mixed(f), Missing: missing}, nil
	}
	token, err := s.installPlace(f, &x, leaseMs, tokens)
	if err != nil {
		return Placed{}, err
	}
	return Placed{OK: true, Front: s.front(f, &x), Mixed: s.mixed(f), Missing: missing, Token: token}, nil
}

// ReleaseFair gives a lock back, removes places that are over, and tells who is first.
func (s *Server) ReleaseFair(f Fair, x Line) (Released, error) {
	s.begin(f, &x)
	first := s.head(f)
	ours, err := s.carriesOne(f.Lock, x.others())
	if err != nil {
		return Released{}, err
	}
	if ours {
		s.del(f.Lock)
	}
	s.note(f, &x)
	s.clean(f, &x)
	s.remember(f, &x)
	s.expireQueue(f, &x)
	r := Released{OK: ours, Quiet: true}
	if s.get(f.Lock) == nil && (len(x.Others) > 0 || s.head(f) != first) {
		r.PublishErr = s.tell(f, &x)
	}
	return r, nil
}

// ForceFair removes a record that has exactly the given fields, and tells who is first.
func (s *Server) ForceFair(f Fair, fields ...string) (int64, error) {
	channel := f.Channel
	if first := s.head(f); first != "" {
		channel = s.channelOf(f, first)
	}
	return s.Force(f.Lock, channel, fields...)
}

// The scripts of Redisson's fair lock, for a client whose clock is the server's.

// dropStale removes members at the head whose deadline is over.
func (s *Server) dropStale(f Fair) {
	for first := s.head(f); first != ""; first = s.head(f) {
		if till, has := s.Deadline(f, first); !has || till > s.ms() {
			return
		}
		s.removePlace(f, first)
	}
}

// AcquireAsRedisson is Redisson's script to get a fair lock. A client that does not get it
// waits in the queue. ttl is how long the client should wait before it tries again.
func (s *Server) AcquireAsRedisson(f Fair, owner string, leaseMs, waitMs int64) (ok bool, ttl int64) {
	s.dropStale(f)
	if next := s.head(f); s.get(f.Lock) == nil && (next == "" || next == owner) {
		s.removePlace(f, owner)
		s.lower(f, s.Queued(f), waitMs)
		_ = s.hset(f.Lock, owner, "1")
		s.pexpire(f.Lock, leaseMs)
		return true, 0
	}
	if _, has := s.Deadline(f, owner); has {
		return false, max(0, s.pttl(f.Lock))
	}
	ttl = s.pttl(f.Lock)
	if q := s.Queued(f); len(q) > 0 {
		if till, has := s.Deadline(f, q[len(q)-1]); has {
			ttl = till - s.ms()
		}
	}
	s.zadd(f.Deadlines, Member{owner, s.ms() + ttl + waitMs})
	s.push(f.Queue, owner)
	return false, ttl
}

// LeaveAsRedisson is Redisson's script of a client that gives up.
func (s *Server) LeaveAsRedisson(f Fair, owner string, waitMs int64) {
	q := s.Queued(f)
	if i := slices.Index(q, owner); i >= 0 {
		s.lower(f, q[i+1:], waitMs)
	}
	s.removePlace(f, owner)
}

func (s *Server) lower(f Fair, members []string, waitMs int64) {
	for _, m := range members {
		if till, has := s.Deadline(f, m); has {
			s.zadd(f.Deadlines, Member{m, till - waitMs})
		}
	}
}

// ReleaseAsRedisson is Redisson's script to give a fair lock back. It returns whether the
// owner had it.
func (s *Server) ReleaseAsRedisson(f Fair, owner string) bool {
	s.dropStale(f)
	had, _ := s.hexists(f.Lock, owner)
	if s.get(f.Lock) != nil && !had {
		return false
	}
	s.del(f.Lock)
	if first := s.head(f); first != "" {
		_, _ = s.publish(f.Channel+":"+first, "0")
	}
	return had
}
