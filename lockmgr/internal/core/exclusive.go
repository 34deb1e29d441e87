package core

// Exclusive is the kind of a lock that one owner has at a time.
const Exclusive Kind = 0

// exclusive are the rules of Exclusive. A manager has one entry of a name. The entry passes from
// holder to holder. The server keeps the managers that wait in a line: see position.
type exclusive struct{ usual }

func (exclusive) ownDetails(*name) *details { return withPosition(new(position)) }
