package crawl

// A heap has the element that comes before all others on top, at index 0.
type heap[T interface{ Before(T) bool }] []T

func (h *heap[T]) push(x T) {
	*h = append(*h, x)
	h.up(len(*h) - 1)
}

// up moves the element at index i, which may come before others now, to its place.
func (h *heap[T]) up(i int) {
	for s := *h; i > 0; {
		parent := (i - 1) / 2
		if !s[i].Before(s[parent]) {
			return
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

// pop takes the top off a heap that isn't empty.
func (h *heap[T]) pop() T {
	s := *h
	last := len(s) - 1
	top := s[0]
	s[0], s[last] = s[last], *new(T)
	s = s[:last]
	*h = s
	for i := 0; ; {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if s[child].Before(s[first]) {
				first = child
			}
		}
		if first == i {
			return top
		}
		s[i], s[first] = s[first], s[i]
		i = first
	}
}
