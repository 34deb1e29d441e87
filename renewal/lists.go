package renewal

// keep is the number of items for which an empty Map always keeps room.
const keep = 1024

// lists holds doubly linked lists. All nodes are in a single slice and refer to each other by
// index. Items move from list to list. If each list had its own slice, each slice would keep the
// room of its busiest time. Links allow an item to be removed without touching another item.
//
// A list is a ring of nodes, from the head back to the head. The head of list i is node i.
type lists[T any] struct {
	nodes []node[T]
	free  uint32 // unused nodes, a chain through next; 0 ends it
	n     int    // items
	peak  int    // the largest n since it was last 0
}

type node[T any] struct {
	item       T
	boundary   int64
	prev, next uint32
}

// heads returns the head nodes of empty lists.
func heads[T any]() []node[T] {
	nodes := make([]node[T], outside+1)
	for i := range nodes {
		nodes[i].prev, nodes[i].next = uint32(i), uint32(i)
	}
	return nodes
}

// add makes a node for x. The node is in no list yet.
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

// at returns the item and boundary of node i, and the next node of the list.
func (l *lists[T]) at(i uint32) (x T, boundary int64, next uint32) {
	n := &l.nodes[i]
	return n.item, n.boundary, n.next
}

// link appends node i to a list.
func (l *lists[T]) link(i, list uint32) {
	head, n := &l.nodes[list], &l.nodes[i]
	n.prev, n.next = head.prev, list
	l.nodes[head.prev].next = i
	head.prev = i
}

// unlink removes node i from the node's list. emptied is the list if now empty, else a number
// larger than the number of any list.
func (l *lists[T]) unlink(i uint32) (emptied uint32) {
	n := &l.nodes[i]
	l.nodes[n.prev].next = n.next
	l.nodes[n.next].prev = n.prev
	if n.prev != n.next {
		return outside + 1
	}
	return n.prev // the head, which is also n.next
}

// front returns the first node of a list, or the list itself if empty.
func (l *lists[T]) front(list uint32) uint32 { return l.nodes[list].next }

// cut empties a list and returns its first node. The nodes stay linked to each other; the next node
// of the last node is the head.
func (l *lists[T]) cut(list uint32) (first uint32) {
	head := &l.nodes[list]
	first = head.next
	head.prev, head.next = list, list
	return first
}

// release frees a node that is in no list any more. If no node is left in use, release also frees
// the room not needed since the last time without nodes.
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
