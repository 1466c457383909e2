package crawl

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMemoryPostpones: the Queue in memory does what a plain list would, which is searched and sorted
// for each call.
func TestMemoryPostpones(t *testing.T) {
	const seed = 62
	random := rand.New(rand.NewPCG(seed, 0))
	m := newMemory(1 << 20)
	var waiting, lent []Request
	n := 0
	add := func() {
		n++
		r := Request{URL: fmt.Sprint(n), Host: "h", Priority: random.IntN(3) / 2, Later: random.IntN(4)}
		if r.Later > 0 {
			r.Mark = uint32(random.IntN(4))
		}
		_, _, _ = m.Add(t.Context(), []Request{r})
		r.number = uint64(n)
		waiting = append(waiting, r)
	}
	// take takes the first that are postponed as far as least from the list.
	take := func(least, number int) (taken []Request) {
		slices.SortFunc(waiting, func(a, b Request) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Later, b.Later), cmp.Compare(a.number, b.number))
		})
		waiting = slices.DeleteFunc(waiting, func(r Request) bool {
			isTaken := r.Later >= least && len(taken) < number
			if isTaken {
				taken = append(taken, r)
			}
			return isTaken
		})
		return taken
	}
	for step := range 20_000 {
		switch random.IntN(7) {
		case 0, 1, 2:
			add()
		case 3:
			least := random.IntN(4)
			number := random.IntN(4)
			want := take(least, number)
			got, _ := m.TakeLater(t.Context(), "h", least, number)
			if !slices.Equal(got, want) {
				t.Fatalf("step %d of seed %d: taken from %d: %+v, want %+v", step, seed, least, got, want)
			}
			lent = append(lent, want...)
		case 4:
			for _, r := range lent {
				r.Later = random.IntN(4)
				r.Mark = uint32(random.IntN(4))
				_ = m.Done(t.Context(), []Result{{Request: r, Outcome: Left, waits: true}})
				waiting = append(waiting, r)
			}
			lent = nil
		case 5:
			mark := uint32(random.IntN(4))
			to := random.IntN(4)
			_, _ = m.Lift(t.Context(), "h", mark, to)
			for i := range waiting {
				if mark != 0 && waiting[i].Mark == mark {
					waiting[i].Later = min(waiting[i].Later, to)
				}
			}
		case 6:
			groups, all, _ := m.Postponed(t.Context(), 100)
			sum := 0
			for _, g := range groups {
				sum += g.Number
			}
			want := 0
			for _, r := range waiting {
				want += min(1, r.Later)
			}
			if all != want || sum != want {
				t.Fatalf("step %d of seed %d: %d postponed, %d in groups, want %d", step, seed, all, sum, want)
			}
		}
	}
	left := 0
	for range m.left {
		left++
	}
	if left != len(waiting) {
		t.Errorf("%d are left, want %d", left, len(waiting))
	}
}

// TestMemoryHasNoRoomForPostponed: from nine tenths of the room on, only URLs that aren't postponed
// are taken in.
func TestMemoryHasNoRoomForPostponed(t *testing.T) {
	m := newMemory(100)
	for i := range 200 {
		_, _, _ = m.Add(t.Context(), []Request{{URL: fmt.Sprint("trap", i), Host: "h", Later: 1}})
	}
	if m.kept != 90 {
		t.Errorf("%d postponed URLs are kept, want 90", m.kept)
	}
	added, noRoom, _ := m.Add(t.Context(), []Request{{URL: "page", Host: "h"}})
	if added != 1 || noRoom != 0 {
		t.Errorf("of a page: %d added, %d without room", added, noRoom)
	}
}
