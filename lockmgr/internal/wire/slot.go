package wire

import (
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// Slots is the number of slots into which the keys of a cluster are divided.
const Slots = 1 << 14

// Tag returns the part of a key or a sharded channel that decides the slot: the text in the first
// braces, or the whole key without such a text.
func Tag(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// SlotOf returns the slot of a key or a sharded channel: the CRC16 of the tag.
func SlotOf(key string) int {
	key = Tag(key)
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return int(crc) % Slots
}

// crcTable is the table of CRC-16/XMODEM.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// keyOf returns a key of an operation.
func keyOf(op *core.Op) string {
	if len(op.Items) > 0 {
		return op.Items[0].Name
	}
	return op.Name
}
