package hostlimit

// A list is doubly linked through its elements, which embed linked: they are inserted and removed
// in constant time and without an allocation. An element is in one list at a time. The zero list is
// empty.
type list[T any, P element[T]] struct {
	first, last *T
	len         int
}

// linked has the neighbours of an element in its list, nil at the ends.
type linked[T any] struct{ prev, next *T }

func (l *linked[T]) links() *linked[T] { return l }

// An element is a pointer to a struct that embeds linked.
type element[T any] interface {
	*T
	links() *linked[T]
}

// insert puts x behind prev, or at the front if prev is nil.
func (l *list[T, P]) insert(x, prev *T) {
	next := l.first
	if prev != nil {
		next = P(prev).links().next
	}
	l.join(prev, x)
	l.join(x, next)
	l.len++
}

// remove takes x out of l.
func (l *list[T, P]) remove(x *T) {
	at := P(x).links()
	l.join(at.prev, at.next)
	*at = linked[T]{}
	l.len--
}

// join makes next the neighbour of prev; nil is the end of l.
func (l *list[T, P]) join(prev, next *T) {
	if prev == nil {
		l.first = next
	} else {
		P(prev).links().next = next
	}
	if next == nil {
		l.last = prev
	} else {
		P(next).links().prev = prev
	}
}
