package hostlimit

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type number struct {
	linked[number]
	n int
}

// TestListIsASlice inserts and removes at random, beside a slice.
func TestListIsASlice(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var l list[number, *number]
		var want []*number
		for n := range 50 {
			if at := r.IntN(len(want) + 1); at > 0 && r.IntN(3) == 0 {
				l.remove(want[at-1])
				if x := want[at-1]; x.prev != nil || x.next != nil {
					t.Fatal("a removed element has neighbours")
				}
				want = slices.Delete(want, at-1, at)
			} else {
				x, prev := &number{n: n}, (*number)(nil)
				if at > 0 {
					prev = want[at-1]
				}
				l.insert(x, prev)
				want = slices.Insert(want, at, x)
			}
			var forth, back []*number
			for x := l.first; x != nil; x = x.next {
				forth = append(forth, x)
			}
			for x := l.last; x != nil; x = x.prev {
				back = append(back, x)
			}
			if slices.Reverse(back); !slices.Equal(forth, want) || !slices.Equal(back, want) {
				t.Fatalf("the list is %v, backwards %v, want %v", forth, back, want)
			}
		}
	}
}
