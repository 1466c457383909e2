package robotscache

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// roomFor returns the bytes that n origins of the tests take, which have private.
func roomFor(t *testing.T, n int) int64 {
	t.Helper()
	r := newRig(t, Config{}, always(200, private))
	r.get(t, "https://0.example/")
	one := r.Snapshot().Bytes
	r.get(t, "https://1.example/")
	more := r.Snapshot().Bytes - one
	return one + int64(n-1)*more
}

// TestLeastRecentlyUsedGoesFirst: in small caches the order is exact.
func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	r := newRig(t, Config{MaxBytes: roomFor(t, 3)}, always(200, private))
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
		{0, []int{0}},
		{1, []int{0, 1}},
		{2, []int{0, 1, 2}},
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

// TestHitIsAUse, as a Get that finds something is, but asks nobody.
func TestHitIsAUse(t *testing.T) {
	r := newRig(t, Config{MaxBytes: roomFor(t, 2)}, always(200, private))
	a, b := parse(t, "https://a.example/"), parse(t, "https://b.example/")
	if _, ok := r.Hit(a, time.Now()); ok || len(r.sent()) > 0 {
		t.Error("a hit on nothing")
	}
	got := r.get(t, a.String())
	r.get(t, b.String())
	for now, want := range map[time.Time]bool{time.Now(): true, got.Expires.Add(-1): true, got.Expires: false} {
		if e, ok := r.Hit(a, now); ok != want || ok && e != got {
			t.Errorf("%v before its end: hit = %t", got.Expires.Sub(now), ok)
		}
	}
	r.get(t, "https://c.example/")
	if _, ok := r.Peek(a); !ok {
		t.Error("what was hit last went first")
	}
	if _, ok := r.Peek(b); ok {
		t.Error("what was hit last went first")
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

// TestMaxBytes: the bound is one for all shards, and nothing goes before it is reached.
func TestMaxBytes(t *testing.T) {
	const origins = 80_000 // enough for two shards, on 32 bits too
	r := &rig{answer: always(404, "")}
	at := func(i int) string { return fmt.Sprintf("http://%05d.example", i) }
	probe := newCache(t, Config{}, Client{UserAgent: userAgent, Transport: r})
	if _, err := probe.Get(t.Context(), parse(t, at(0))); err != nil {
		t.Fatal(err)
	}
	maxBytes := origins * probe.Snapshot().Bytes
	c := newCache(t, Config{MaxBytes: maxBytes}, Client{UserAgent: userAgent, Transport: r})
	if n := len(c.shards.all); n < 2 {
		t.Fatalf("%d shards", n)
	}
	before := len(r.sent())
	get := func(i int) {
		if _, err := c.Get(t.Context(), parse(t, at(i))); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		for i := range origins {
			get(i)
		}
	}
	if n := len(r.sent()) - before; n != origins || c.Len() != origins || c.Snapshot().Evicted != 0 {
		t.Errorf("%d requests for %d origins, %+v", n, origins, c.Snapshot())
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				get(origins + 1000*g + i)
			}
		})
	}
	wg.Wait()
	kept, bytes := 0, int64(0)
	for i := range c.shards.all {
		s := &c.shards.all[i]
		kept += len(s.known)
		for _, k := range s.known {
			bytes += k.bytes()
		}
	}
	if s := c.Snapshot(); kept != origins || c.Len() != origins || s.Bytes != bytes || s.Bytes > s.MaxBytes || s.Evicted != 4000 {
		t.Errorf("%d kept of %d bytes, %d wanted: %+v", kept, bytes, origins, s)
	}
}

// put is what a flight does with what it brings.
func (c *shards) put(o origin) { c.putKnown(&known{origin: o}) }

func (c *shards) putKnown(k *known) {
	s, key := c.of(k.origin)
	s.mu.Lock()
	c.add(s, key, k)
	s.mu.Unlock()
	c.evict(s)
}

func nth(i int) origin { return origin{host: fmt.Sprintf("%d.example", i)} }

// in returns an origin whose shard is s.
func (c *shards) in(s *shard) origin {
	for i := 0; ; i++ {
		if there, _ := c.of(nth(i)); there == s {
			return nth(i)
		}
	}
}

// TestEvictionElsewhere: a new origin in an empty shard displaces one of another, whichever that is.
func TestEvictionElsewhere(t *testing.T) {
	const shards = maxShards
	for there := 1; there < shards; there++ {
		c := newShards(shards * minShard)
		if len(c.all) != shards {
			t.Fatalf("%d shards", len(c.all))
		}
		c.max = (&known{origin: nth(1000)}).bytes() // as if nearly all were elsewhere
		c.evicted.Store(int64(there / 2))           // where the search begins
		first, second := c.in(&c.all[there]), c.in(&c.all[0])
		c.put(first)
		c.put(second)
		if c.peek(first) != nil || c.peek(second) == nil || c.origins.Load() != 1 {
			t.Errorf("kept: first %v, second %v, %d", c.peek(first), c.peek(second), c.origins.Load())
		}
	}
}

// TestLargeGoesFirstWhereverItIs, in whichever shard there is too little room.
func TestLargeGoesFirstWhereverItIs(t *testing.T) {
	const shards = someShards
	for there := range shards {
		c := newShards(shards * minShard)
		if len(c.all) != shards {
			t.Fatalf("%d shards", len(c.all))
		}
		large := &known{origin: c.in(&c.all[there]), Entry: Entry{Reason: strings.Repeat("x", 10_000)}}
		c.putKnown(large)
		for i := range 100 * shards {
			c.put(origin{host: fmt.Sprintf("small-%d.example", i)})
		}
		c.max = c.bytes.Load()
		c.put(origin{host: "new.example"})
		if c.peek(large.origin) != nil || c.evicted.Load() != 1 {
			t.Errorf("kept: %v, %d forgotten", c.peek(large.origin), c.evicted.Load())
		}
	}
}

// TestWhatIsUsedOftenOutlivesWhatIsOld, though it is larger; and one use long ago saves nothing.
func TestWhatIsUsedOftenOutlivesWhatIsOld(t *testing.T) {
	for _, test := range []struct {
		uses, others int // others came after the last use
		stays        bool
	}{{3, 100, true}, {1, 1000, false}} {
		c := newShards(1 << 20)
		next := 0
		small := func(n int) {
			for range n {
				c.put(nth(next))
				next++
			}
		}
		small(250)
		large := &known{origin: origin{host: "large.example"}, Entry: Entry{Reason: strings.Repeat("x", 10_000)}}
		c.putKnown(large)
		for range test.uses {
			small(1)
			c.use(large.origin)
		}
		small(test.others)
		c.max = c.bytes.Load()
		c.put(origin{host: "new.example"})
		if stays := c.peek(large.origin) != nil; stays != test.stays || (c.peek(nth(0)) != nil) == stays || c.evicted.Load() != 1 {
			t.Errorf("%+v: the large one stays: %v, %d forgotten", test, stays, c.evicted.Load())
		}
	}
}

func TestClassesOfSizeAreInOrder(t *testing.T) {
	class := sizeOf(0)
	for bytes := int64(1); bytes < 1<<40; bytes *= 2 {
		if next := sizeOf(bytes); next < class {
			t.Errorf("%d bytes are of class %d, fewer of class %d", bytes, next, class)
		} else {
			class = next
		}
	}
	if class != sizes-1 {
		t.Errorf("the largest are of class %d of %d", class, sizes)
	}
}

// TestNewerHalfStays: a hit there moves nothing, so it shares its lock, and what
// was hit is still not the next to go.
func TestNewerHalfStays(t *testing.T) {
	c := newShards(2 * minShard)
	s := &c.all[0]
	var in []origin // s, in the order of their use
	for i := 0; len(in) < 100; i++ {
		if there, _ := c.of(nth(i)); there == s {
			c.put(nth(i))
			in = append(in, nth(i))
		}
	}
	moves := s.moves
	for _, o := range in[50:] {
		c.use(o)
	}
	if s.moves != moves {
		t.Errorf("%d hits on the newer half moved something", s.moves-moves)
	}
	c.use(in[49])
	if got := s.moves - moves; got != 1 {
		t.Errorf("%d moves: a hit on the older half, which begins here, is one", got)
	}
	for _, o := range in[:48] {
		c.use(o)
	}
	if got := s.moves - moves; got != 49 {
		t.Errorf("%d moves of 49", got)
	}
	if k := s.sizes[0].oldest; k.origin != in[48] {
		t.Errorf("next to go is %v, want %v, which wasn't used", k.origin, in[48])
	}
}

// TestOriginsOfOneHash displace each other, and are never taken for each other.
func TestOriginsOfOneHash(t *testing.T) {
	c := newShards(1 << 10)
	s, key := c.of(nth(1))
	c.put(nth(1))
	other := &known{origin: nth(2)}
	if c.add(s, key, other); c.origins.Load() != 1 {
		t.Error("one more")
	}
	if c.peek(nth(1)) != nil || c.use(nth(1)) != nil || s.find(nth(2), key) != other {
		t.Error("one origin has what is known of another")
	}
}

// TestSchemesAreOriginsOfTheirOwn: neither displaces the other.
func TestSchemesAreOriginsOfTheirOwn(t *testing.T) {
	r := newRig(t, Config{}, always(200, private))
	for range 2 {
		r.get(t, "http://example.com")
		r.get(t, "https://example.com")
	}
	if r.Len() != 2 || len(r.sent()) != 2 {
		t.Errorf("%d kept, %d requests", r.Len(), len(r.sent()))
	}
}

// TestKeyPinsNoURL: the host of a parsed URL is a part of its whole text.
func TestKeyPinsNoURL(t *testing.T) {
	r := newRig(t, Config{}, always(200, private))
	u := parse(t, site+"/"+strings.Repeat("a", 1000))
	if _, err := r.Get(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	if k := r.shards.peek(origin{"example.com", true}); unsafe.StringData(k.origin.host) == unsafe.StringData(u.Host) {
		t.Error("the URL is kept for its host")
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
			if _, ok := r.Hit(u, time.Time{}); !ok {
				t.Error("no hit")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", rawURL, n)
		}
	}
}
