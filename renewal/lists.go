package renewal

// keep is for how many items an empty Map has room in any case.
const keep = 1024

// lists are doubly linked lists whose nodes lie in one slice and point to each other by index. One slice, because items wander from list to
// list: were each list a slice of its own, every one would keep the room of its busiest time. And linked, so that an item is removed
// without touching any other item.
//
// A list is a ring of nodes that begins and ends with its head; the head of list i is node i.
type lists[T any] struct {
	nodes []node[T]
	free  uint32 // unused nodes, a chain through next; 0 ends it
	n     int    // items
	peak  int    // the most items since there were none
}

type node[T any] struct {
	item       T
	boundary   int64
	prev, next uint32
}

// heads returns the nodes of lists without items.
func heads[T any]() []node[T] {
	nodes := make([]node[T], outside+1)
	for i := range nodes {
		nodes[i].prev, nodes[i].next = uint32(i), uint32(i)
	}
	return nodes
}

// add makes a node for x that is in no list yet.
func (l *lists[T]) add(x T, boundary int64) (i uint32) {
	if l.n++; l.n > l.peak {
		l.peak = l.n
	}
	if i = l.free; i == 0 {
		l.nodes = append(l.nodes, node[T]{item: x, boundary: boundary})
		return uint32(len(l.nodes) - 1)
	}
	n := &l.nodes[i]
	l.free = n.next
	n.item, n.boundary = x, boundary
	return i
}

// at returns what node i holds, and the node that comes next.
func (l *lists[T]) at(i uint32) (x T, boundary int64, next uint32) {
	n := &l.nodes[i]
	return n.item, n.boundary, n.next
}

// link puts node i at the end of a list.
func (l *lists[T]) link(i, list uint32) {
	head, n := &l.nodes[list], &l.nodes[i]
	n.prev, n.next = head.prev, list
	l.nodes[head.prev].next = i
	head.prev = i
}

// unlink takes node i out of its list. If it was the only one there, emptied is the list, else some larger number.
func (l *lists[T]) unlink(i uint32) (emptied uint32) {
	n := &l.nodes[i]
	l.nodes[n.prev].next = n.next
	l.nodes[n.next].prev = n.prev
	if n.prev != n.next {
		return outside + 1
	}
	return n.prev // which is the head, on both sides
}

// cut empties a list and returns its first node. The nodes still lead to one another, the last one to the head.
func (l *lists[T]) cut(list uint32) (first uint32) {
	head := &l.nodes[list]
	first = head.next
	head.prev, head.next = list, list
	return first
}

// release gives back a node that is in no list any more. When there is none in use, room that was not needed lately is let go.
func (l *lists[T]) release(i uint32) {
	l.nodes[i] = node[T]{next: l.free}
	l.free = i
	if l.n--; l.n > 0 {
		return
	}
	if cap(l.nodes) > keep && l.peak < cap(l.nodes)/4 {
		l.nodes, l.free = heads[T](), 0
	}
	l.peak = 0
}
