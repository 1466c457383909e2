package list

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type number struct {
	Linked[number]
	n int
}

// TestListIsASlice inserts and removes at random, beside a slice.
func TestListIsASlice(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var l List[number, *number]
		var want []*number
		for n := range 50 {
			if at := r.IntN(len(want) + 1); at > 0 && r.IntN(3) == 0 {
				l.Remove(want[at-1])
				if x := want[at-1]; x.Prev != nil || x.Next != nil {
					t.Fatal("a removed element has neighbours")
				}
				want = slices.Delete(want, at-1, at)
			} else {
				x, prev := &number{n: n}, (*number)(nil)
				if at > 0 {
					prev = want[at-1]
				}
				l.Insert(x, prev)
				want = slices.Insert(want, at, x)
			}
			var forth, back []*number
			for x := l.First; x != nil; x = x.Next {
				forth = append(forth, x)
			}
			for x := l.Last; x != nil; x = x.Prev {
				back = append(back, x)
			}
			if slices.Reverse(back); !slices.Equal(forth, want) || !slices.Equal(back, want) {
				t.Fatalf("the list is %v, backwards %v, want %v", forth, back, want)
			}
		}
	}
}
