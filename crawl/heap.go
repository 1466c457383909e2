package crawl

import stdheap "container/heap"

// A heap has the element that comes before all others at index 0.
type heap[T element[T]] []T

// An element of a heap gets its index each time that it changes.
type element[T any] interface {
	Before(o T) bool
	placed(index int)
}

// Len, Less and Swap are the methods with which container/heap moves elements. push and pop add
// and remove elements, without a conversion to any.
func (h heap[T]) Len() int           { return len(h) }
func (h heap[T]) Less(i, j int) bool { return h[i].Before(h[j]) }
func (h *heap[T]) Push(any)          {}
func (h *heap[T]) Pop() any          { return nil }
func (h heap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].placed(i)
	h[j].placed(j)
}

// fix moves the element at index i, which may come before or after others now, to its place.
func (h *heap[T]) fix(i int) { stdheap.Fix(h, i) }

func (h *heap[T]) push(x T) {
	*h = append(*h, x)
	x.placed(len(*h) - 1)
	h.fix(len(*h) - 1)
}

// pop removes and returns the first element of a heap that isn't empty.
func (h *heap[T]) pop() T {
	s := *h
	last := len(s) - 1
	top := s[0]
	s[0], s[last] = s[last], *new(T)
	*h = s[:last]
	if last > 0 {
		s[0].placed(0)
		h.fix(0)
	}
	return top
}

// remove removes the element at index i.
func (h *heap[T]) remove(i int) {
	s := *h
	last := len(s) - 1
	if i != last {
		s.Swap(i, last)
	}
	s[last] = *new(T)
	*h = s[:last]
	if i != last {
		h.fix(i)
	}
}
