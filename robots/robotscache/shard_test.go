package robotscache

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// TestLeastRecentlyUsedGoesFirst: in small caches the order is exact.
func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	r := newRig(t, Config{MaxOrigins: 3}, always(200, private))
	at := func(i int) string { return fmt.Sprintf("https://%d.example/", i) }
	known := func(want ...int) {
		t.Helper()
		for i := range 6 {
			_, ok := r.Peek(parse(t, at(i)))
			if wanted := contains(want, i); ok != wanted {
				t.Errorf("origin %d known: %v, want %v", i, ok, wanted)
			}
		}
		if r.Len() != len(want) {
			t.Errorf("%d origins", r.Len())
		}
	}
	for _, step := range []struct {
		get   int
		known []int
	}{
		{0, []int{0}}, {1, []int{0, 1}}, {2, []int{0, 1, 2}},
		{0, []int{0, 1, 2}}, // used again
		{3, []int{0, 2, 3}},
		{0, []int{0, 2, 3}},
		{4, []int{0, 3, 4}}, // Peek above was no use
		{5, []int{0, 4, 5}},
	} {
		r.get(t, at(step.get))
		known(step.known...)
	}
}

func contains(list []int, i int) bool {
	for _, v := range list {
		if v == i {
			return true
		}
	}
	return false
}

// TestMaxOrigins: the bound is one for all shards, and nothing goes before it is
// reached.
func TestMaxOrigins(t *testing.T) {
	const maxOrigins = 5000
	r := &rig{answer: always(404, "")}
	c := newCache(t, Config{MaxOrigins: maxOrigins}, Client{UserAgent: userAgent, Transport: r})
	if n := len(c.shards.all); n < 2 {
		t.Fatalf("%d shards", n)
	}
	get := func(i int) {
		if _, err := c.Get(t.Context(), parse(t, fmt.Sprintf("http://%d.example", i))); err != nil {
			t.Error(err)
		}
	}
	for i := range maxOrigins {
		get(i)
	}
	for i := range maxOrigins {
		get(i)
	}
	if n := len(r.sent()); n != maxOrigins || c.Len() != maxOrigins {
		t.Errorf("%d requests for %d origins, %d kept", n, maxOrigins, c.Len())
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				get(maxOrigins + 1000*g + i)
			}
		})
	}
	wg.Wait()
	kept := 0
	for i := range c.shards.all {
		kept += c.shards.all[i].lru.Len()
	}
	if kept != maxOrigins || c.Len() != maxOrigins {
		t.Errorf("%d kept, %d counted, %d wanted", kept, c.Len(), maxOrigins)
	}
}

// TestEvictionElsewhere: a new origin in an empty shard displaces one of another.
func TestEvictionElsewhere(t *testing.T) {
	s := newShards(2 * minShard)
	s.max = 1 // as if nearly all were elsewhere
	var first, second origin
	for i := 0; second.host == ""; i++ {
		o := origin{host: fmt.Sprintf("%d.example", i)}
		switch {
		case first.host == "":
			first = o
		case s.of(o) != s.of(first):
			second = o
		}
	}
	for _, o := range []origin{first, second} {
		shard := s.of(o)
		if shard.add(o, &known{}) {
			s.evict(shard)
		}
	}
	if s.of(first).peek(first) != nil || s.of(second).peek(second) == nil || s.origins.Load() != 1 {
		t.Errorf("kept: first %v, second %v, %d", s.of(first).peek(first), s.of(second).peek(second), s.origins.Load())
	}
}

// TestNewestEighthStays: a hit there moves nothing, and nobody pays for it who
// was used since.
func TestNewestEighthStays(t *testing.T) {
	s := newShards(64)
	shard := &s.all[0]
	at := func(i int) origin { return origin{host: fmt.Sprintf("%d.example", i)} }
	for i := range 64 {
		shard.add(at(i), &known{})
	}
	moves := shard.moves
	for i := 56; i < 64; i++ {
		shard.use(at(i))
	}
	if shard.moves != moves {
		t.Errorf("%d moves", shard.moves-moves)
	}
	for i := range 56 {
		shard.use(at(i))
	}
	if got := shard.moves - moves; got != 56 {
		t.Errorf("%d moves of 56", got)
	}
	if oldest, _, _ := shard.lru.GetOldest(); oldest != at(56) {
		t.Errorf("next to go is %v", oldest)
	}
}

// TestHitAllocatesNothing, for all spellings that are usual.
func TestHitAllocatesNothing(t *testing.T) {
	r := newRig(t, Config{}, func(*http.Request) (*http.Response, error) { return reply(200, private), nil })
	for _, rawURL := range []string{site + "/a?b", "http://example.com:80/", "https://example.com:443/", "http://127.0.0.1:8080/", "http://[::1]:8080/"} {
		u := parse(t, rawURL)
		r.get(t, rawURL)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := r.Get(t.Context(), u); err != nil {
				t.Error(err)
			}
			if _, ok := r.Peek(u); !ok {
				t.Error("unknown")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", rawURL, n)
		}
	}
}
