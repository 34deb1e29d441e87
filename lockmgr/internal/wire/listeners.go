package wire

// While a slot is being moved, the new master may have the record of a lock. Waiters for the lock
// listen at the old master, which still serves the slot. A sharded message reaches only listeners
// at the master that publishes the message. So a script at the new master tells nobody, and counts
// no subscribers. The client then publishes the message, or counts, at the master that serves the
// slot. A message on a classic channel reaches all nodes.

// addChannel adds a channel to the arguments of a command. All channels of a command follow each
// other, and have the same message and count. If the script has reached nobody, the client
// publishes "00" and the message: the zeros say that no line was served, see Served.
func (c *Command) addChannel(channel, message string, count func(*Answer) (*int64, bool)) {
	if c.listeners.channels == 0 {
		c.listeners = listeners{len(c.Args), 0, message, count}
	}
	c.listeners.channels++
	c.Args = append(c.Args, channel)
}

// Unheard returns a command for each channel of a script that has reached nobody, and a pointer to
// the script's number of subscribers, which is unknown until the returned command is answered.
// The answer to a shared command has no number of subscribers, because no shared command goes to
// the new master.
func Unheard(commands []Command, answers []Answer) (tell []Command, reached []*int64) {
	for i := range commands {
		c := &commands[i].listeners
		if c.channels == 0 || answers[i].Kind == Failed {
			continue
		}
		n, published := c.count(&answers[i])
		if n == nil || *n != 0 {
			continue
		}
		*n = -1
		for _, channel := range commands[i].Args[c.first:][:c.channels] {
			t := Command{Args: []string{"PUBSUB", "SHARDNUMSUB"}, Keys: []string{channel}}
			if published && c.message != "" {
				t = Command{Args: []string{"SPUBLISH"}, Keys: []string{channel}, Rest: []string{"00" + c.message}}
			}
			tell, reached = append(tell, t), append(reached, n)
		}
	}
	return tell, reached
}

// Subscribers returns the number of subscribers by the answer to a command of Unheard, or -1 if the
// answer has no number.
func (a *Answer) Subscribers() int64 {
	if a.Kind == Array && len(a.Array) == 2 { // the channel and its number
		a = &a.Array[1]
	}
	if a.Kind != Int {
		return -1
	}
	return a.Int
}

// countOfFirst is the count of a script that returns the number of subscribers, alone or as the
// first element.
func countOfFirst(a *Answer) (*int64, bool) {
	if a.Begins(Int) {
		a = &a.Array[0]
	}
	if a.Kind != Int {
		return nil, false
	}
	return &a.Int, true
}

// countOfDone is the count of a script that returns a positive number after doing something, and no
// number of subscribers. The zero makes Unheard publish.
func countOfDone(a *Answer) (*int64, bool) {
	if a.Kind != Int || a.Int < 1 {
		return nil, false
	}
	return new(int64), true
}

// Ours reports whether a script of this library has published a message on the channel of a name.
// Such a script puts a 0 before the message of Redisson: see line.lua.
func Ours(message string) bool { return len(message) > 1 && message[0] == '0' }

// Served reports whether the script of such a message has served the line of the name. Otherwise
// the script puts two zeros before the message of Redisson.
func Served(message string) bool { return Ours(message) && (len(message) == 2 || message[1] != '0') }
