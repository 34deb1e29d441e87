package wire

import (
	"strconv"
	"time"
)

// SetProcess returns the command that writes the record of a process. The record ends after ttl.
func SetProcess(manager, record string, ttl time.Duration) Command {
	return Command{
		Args: []string{"SET"}, Keys: []string{ProcessKey(manager)},
		Rest: []string{record, "PX", strconv.FormatInt(max(1, ttl.Milliseconds()), 10)},
	}
}

// DropProcess returns the command that removes the record of a process.
func DropProcess(manager string) Command {
	return Command{Args: []string{"DEL"}, Keys: []string{ProcessKey(manager)}}
}

// GetProcess returns the command that reads the record at a key that ProcessKey returned, and no
// more than most bytes of the record. The answer is empty if there is no record.
func GetProcess(key string, most int) Command {
	return Command{Args: []string{"GETRANGE"}, Keys: []string{key}, Rest: []string{"0", strconv.Itoa(most - 1)}}
}

// Scan returns the command that reads some keys that match a pattern and have a type. The first
// cursor is "0", and ReadScan returns the next. The server looks at about 1,000 of its keys, even
// if no key matches. A star is at the end of a pattern, or in TakenPattern.
func Scan(cursor, pattern, kind string) Command {
	return Command{Args: []string{"SCAN", cursor, "MATCH", pattern, "COUNT", "1000", "TYPE", kind}}
}

// ReadScan reads the answer to Scan. The walk is over if the next cursor is "0". ok is false for
// the answer to another command.
func ReadScan(a *Answer) (next string, keys []string, ok bool) {
	if !a.is(Text, Array) && !a.is(Text, Nil) {
		return "", nil, false
	}
	for _, key := range a.Array[1].Array {
		keys = append(keys, key.Text)
	}
	return a.Array[0].Text, keys, true
}
