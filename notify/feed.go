package notify

import "sync"

// A feed carries the reports of a connection to the hub. The client's reader goroutine calls the
// feed, so the feed never blocks. The feed merges the messages of a flood: each channel has a slot
// for its news, and all slots together cause a single input in the hub's mailbox until the hub has
// taken the news.
//
// Each connection has its own feed, and the hub reads only the newest feed. So news of an old
// connection neither passes for news of the new connection nor hides any.
type feed struct {
	epoch  uint64      // counts the hub's connections, for the log
	signal func(*feed) // puts the feed into the hub's mailbox

	mu        sync.Mutex // held for a few assignments at a time
	slots     map[string]*slot
	ready     []*slot // slots with news, each once
	rest      report  // everything that is not about one channel
	signalled bool    // the feed is in the mailbox; the hub will take everything
}

// A slot has the news of a channel.
type slot struct {
	news
	queued bool // in feed.ready
}

// A report is everything that a connection has reported since the last report.
type report struct {
	up       bool
	news     []news
	answered bool
	refusal  error // the error reply to the command, or nil
	ended    bool
	err      error  // why it ended
	strays   uint64 // messages for channels that are not subscribed
}

// news is the confirmation and the messages of a channel since the last report.
type news struct {
	ch        *channel // the hub's; the feed only passes the channel back
	confirmed bool
	gone      bool // the server has ended the subscription, after confirmed
	messages  uint64
	payload   string // of the newest message
}

func newFeed(epoch uint64, signal func(*feed)) *feed {
	return &feed{epoch: epoch, signal: signal, slots: make(map[string]*slot)}
}

// listen makes a slot for each channel. listen must be called before the SUBSCRIBE is sent, because
// messages and confirmations without a slot are dropped.
func (f *feed) listen(chs []*channel) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ch := range chs {
		f.slots[ch.name] = &slot{news: news{ch: ch}}
	}
}

// ignore removes the slots of chs. News not taken by the hub yet is kept.
func (f *feed) ignore(chs []*channel) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ch := range chs {
		delete(f.slots, ch.name)
	}
}

// take returns the reports since the last take, the channels in order of their first news. take
// appends to buf. The caller may reuse buf when the report has been read.
func (f *feed) take(buf []news) report {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.rest
	r.news = buf
	for i, s := range f.ready {
		r.news = append(r.news, s.news)
		*s = slot{news: news{ch: s.ch}}
		f.ready[i] = nil
	}
	f.ready, f.rest, f.signalled = f.ready[:0], report{}, false
	return r
}

func (f *feed) up()              { f.report(func(r *report) { r.up = true }) }
func (f *feed) answered(e error) { f.report(func(r *report) { r.answered, r.refusal = true, e }) }
func (f *feed) ended(e error)    { f.report(func(r *report) { r.ended, r.err = true, e }) }

func (f *feed) report(set func(*report)) {
	f.mu.Lock()
	set(&f.rest)
	f.unlockAndSignal()
}

// confirmed notes that the server has begun a subscription. gone notes the end.
func (f *feed) confirmed(name string) { f.note(name, func(s *slot) { s.confirmed = true }) }
func (f *feed) gone(name string)      { f.note(name, func(s *slot) { s.gone = true }) }

// note notes something about a channel, if the channel has a slot.
func (f *feed) note(name string, set func(*slot)) {
	f.mu.Lock()
	s := f.slots[name]
	if s == nil {
		f.mu.Unlock()
		return
	}
	set(s)
	f.queueAndUnlock(s)
}

// mostPayload is the length of the longest message that the feed keeps.
const mostPayload = 256

// message notes a message on a channel.
func (f *feed) message(name, payload string) {
	f.mu.Lock()
	s := f.slots[name]
	if s == nil {
		f.rest.strays++ // part of the next report; sends no signal
		f.mu.Unlock()
		return
	}
	s.messages++
	if s.payload = payload; len(payload) > mostPayload {
		s.payload = ""
	}
	f.queueAndUnlock(s)
}

// queueAndUnlock puts s among the slots with news, and releases mu.
func (f *feed) queueAndUnlock(s *slot) {
	if !s.queued {
		s.queued = true
		f.ready = append(f.ready, s)
	}
	f.unlockAndSignal()
}

// unlockAndSignal releases mu, and signals unless the feed is in the mailbox already.
func (f *feed) unlockAndSignal() {
	first := !f.signalled
	f.signalled = true
	f.mu.Unlock()
	if first {
		f.signal(f)
	}
}
