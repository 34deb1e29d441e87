package mutants

// accepted are changes that no test can notice or need notice, and why.
var accepted = map[string]string{
	"core/alarms.due: false !yield(x)":                                 "no loop over due ends early",
	"notify/core.deliver: drop c.notices[i] = notice{}":                "memory only: the next notices overwrite these",
	"notify/connection.pause: false t.Before(first)":                   "the deadline comes first: the answer that the deadline is for moves the pause",
	"notify/redisLink.run: drop <-watched":                             "a goroutine that ends a moment later than the link",
	"renewal/lists.release: <= l.peak < cap(l.nodes)/4":                "memory only: the very size at which it is freed",
	"wire/countOfDone: false a.Kind != Int":                            "an answer of another kind has no number above 0",
	"wire/route.begin: >= now-r.ended > r.maxPause":                    "the very instant at which a pause is too long",
	"wire/route.close: false r.idle != nil":                            "the timer finds no connection to close",
	"wire/spread.refusal: drop s.op.Sent = earliest(s.parts[:s.next])": "the instant that stays is earlier, so the lease ends no later",
}
