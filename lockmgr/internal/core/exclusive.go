package core

// Exclusive is the kind of a lock that one owner has at a time.
const Exclusive Kind = 0

var _ = register(Exclusive, exclusive{})

// exclusive are the rules of Exclusive. A manager has one entry of a name. The
// entry passes from holder to holder.
type exclusive struct{}

func (exclusive) entries() int                  { return 1 }
func (exclusive) joins(*entry, *Request) bool   { return false }
func (exclusive) passes(*entry, *Request) bool  { return true }
func (exclusive) transfers() bool               { return true }
func (exclusive) again(*Hold, *Request) outcome { return reenters }
func (exclusive) parts(*entry) bool             { return false }
func (exclusive) doubts() bool                  { return true }
func (exclusive) side(*entry) Side              { return Alone }
func (exclusive) waitsFor(*Request, *Hold) bool { return true }
