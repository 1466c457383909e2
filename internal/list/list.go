// Package list has a doubly linked list whose elements are the links.
package list

// A List is doubly linked through its elements, which embed Linked: they are inserted and removed
// in constant time and without an allocation. An element is in one list at a time. The zero list is
// empty.
type List[T any, P element[T]] struct {
	First, Last *T
	Len         int
}

// Linked has the neighbours of an element in its list, nil at the ends.
type Linked[T any] struct{ Prev, Next *T }

func (l *Linked[T]) links() *Linked[T] { return l }

// An element is a pointer to a struct that embeds Linked.
type element[T any] interface {
	*T
	links() *Linked[T]
}

// Insert puts x behind prev, or at the front if prev is nil.
func (l *List[T, P]) Insert(x, prev *T) {
	next := l.First
	if prev != nil {
		next = P(prev).links().Next
	}
	l.join(prev, x)
	l.join(x, next)
	l.Len++
}

// Remove takes x out of l.
func (l *List[T, P]) Remove(x *T) {
	at := P(x).links()
	l.join(at.Prev, at.Next)
	*at = Linked[T]{}
	l.Len--
}

// join makes next the neighbour of prev; nil is the end of l.
func (l *List[T, P]) join(prev, next *T) {
	if prev == nil {
		l.First = next
	} else {
		P(prev).links().Next = next
	}
	if next == nil {
		l.Last = prev
	} else {
		P(next).links().Prev = prev
	}
}
