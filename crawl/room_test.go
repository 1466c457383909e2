package crawl

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/internal/mediatype"
)

// TestRoomIsKept: many answers of random lengths, some of which are given up, have no more bytes at
// once than the room and the two places. All that aren't given up come to their ends, and give back
// all that they had.
func TestRoomIsKept(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			const most = 8 << 20
			const longest = 2 << 20
			r := newRoom(most, longest)
			small, large := r.small.free, r.large.free
			rnd := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			var held, peak int64
			var wg sync.WaitGroup
			for range 200 {
				length := rnd.Int64N(longest) >> rnd.IntN(8)
				patience := time.Duration(rnd.IntN(100)) * time.Second
				isPatient := rnd.IntN(4) > 0
				wg.Go(func() {
					ctx := t.Context()
					if !isPatient {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, patience)
						defer cancel()
					}
					s := &share{room: r}
					defer s.release()
					var has int64
					for size := int64(freeBytes); has < length; size *= 2 {
						if err := s.grow(ctx, size); err != nil {
							if isPatient {
								t.Error(err)
							}
							break
						}
						next := min(size, length)
						mu.Lock()
						held += next - has
						peak = max(peak, held)
						mu.Unlock()
						has = next
						time.Sleep(time.Second)
					}
					mu.Lock()
					held -= has
					mu.Unlock()
				})
			}
			wg.Wait()
			if peak > most+200*freeBytes {
				t.Errorf("seed %d: %d bytes were held", seed, peak)
			}
			if r.small.free != small || r.large.free != large || r.small.isTaken || r.large.isTaken {
				t.Errorf("seed %d: not all was given back: %+v", seed, r)
			}
			if len(r.small.waiting)+len(r.large.waiting) > 0 {
				t.Errorf("seed %d: some still wait", seed)
			}
		})
	}
}

// TestHeadersCountAsHeld, however they are cut into fields.
func TestHeadersCountAsHeld(t *testing.T) {
	for _, header := range []http.Header{
		{"X": {strings.Repeat("a", 100_000)}},
		{"X": make([]string, 10_000)},
	} {
		if n := sizeOf(header); n < 100_000 || n > 200_000 {
			t.Errorf("%d bytes", n)
		}
	}
}

// TestAPageIsReadUntilTheContextEnds, and no further, in its text and in its references.
func TestAPageIsReadUntilTheContextEnds(t *testing.T) {
	p := &Page{
		FinalURL: "https://example.com/",
		Body:     []byte(strings.Repeat("<p>text<a href=/x>", 10_000)),
		Response: &http.Response{StatusCode: http.StatusOK},
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.readHTML(ctx, "bot", mediatype.OfPage([]string{"text/html"}))
	if len(p.Links)+len(p.lines) > 0 {
		t.Errorf("%d links and %d lines were read", len(p.Links), len(p.lines))
	}
}
