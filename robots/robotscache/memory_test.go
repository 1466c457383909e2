package robotscache

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/go-politeness/politeness/internal/soak"
)

// heap returns how many bytes of the heap are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A web answers for the robots.txt of any number of hosts, and keeps no request.
type web struct {
	answer func(host string) *http.Response
	asked  int
}

func (w *web) RoundTrip(req *http.Request) (*http.Response, error) {
	w.asked++
	return w.answer(req.URL.Host), nil
}

// visit gets the origins from number from to number to-1.
func visit(t testing.TB, c *Cache, from, to int) {
	t.Helper()
	u := &url.URL{Scheme: "https"}
	for i := from; i < to; i++ {
		u.Host = fmt.Sprintf("www.host-%08d.example", i)
		if _, err := c.Get(context.Background(), u); err != nil {
			t.Fatal(err)
		}
	}
}

// numberOf returns which of visit's origins host is.
func numberOf(host string) int {
	i, _ := strconv.Atoi(host[len("www.host-"):][:8])
	return i
}

// short returns a file of n bytes, with the shortest rules possible, other ones for each seed.
func short(seed, n int) string {
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for i := seed; b.Len() < n; i++ {
		b.WriteString("allow:/" + strconv.FormatInt(int64(i%46656), 36) + "\n")
	}
	return b.String()
}

// roomFor returns the bytes that n origins take that all serve private.
func roomFor(t *testing.T, n int) int64 {
	t.Helper()
	r := newRig(t, Config{}, always(200, private))
	r.get(t, "https://0.example/")
	one := r.Snapshot().Bytes
	r.get(t, "https://1.example/")
	more := r.Snapshot().Bytes - one
	return one + int64(n-1)*more
}

// TestLeastRecentlyUsedGoesFirst: Get is a use, Peek is none.
func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	r := newRig(t, Config{MaxBytes: roomFor(t, 3)}, always(200, private))
	at := func(i int) string { return fmt.Sprintf("https://%d.example/", i) }
	known := func(want ...int) {
		t.Helper()
		for i := range 6 {
			_, ok := r.Peek(parse(t, at(i)))
			if wanted := slices.Contains(want, i); ok != wanted {
				t.Errorf("origin %d known: %v, want %v", i, ok, wanted)
			}
		}
		if r.Snapshot().Origins != len(want) {
			t.Errorf("%d origins", r.Snapshot().Origins)
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

// TestHitIsAUse like a Get, without a fetch.
func TestHitIsAUse(t *testing.T) {
	r := newRig(t, Config{MaxBytes: roomFor(t, 2)}, always(200, private))
	a := parse(t, "https://a.example/")
	b := parse(t, "https://b.example/")
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

// TestMaxBytes: nothing goes before the bound is reached, and just enough after that, from all callers
// at once.
func TestMaxBytes(t *testing.T) {
	const origins = 10_000
	r := &rig{answer: always(404, "")}
	get := func(c *Cache, i int) {
		if _, err := c.Get(t.Context(), parse(t, fmt.Sprintf("http://%05d.example", i))); err != nil {
			t.Error(err)
		}
	}
	probe := newCache(t, Config{}, Client{UserAgent: userAgent, Transport: r})
	get(probe, 0)
	c := newCache(t, Config{MaxBytes: origins * probe.Snapshot().Bytes}, Client{UserAgent: userAgent, Transport: r})
	before := len(r.sent())
	for range 2 {
		for i := range origins {
			get(c, i)
		}
	}
	if n := len(r.sent()) - before; n != origins || c.Snapshot().Origins != origins || c.Snapshot().Evicted != 0 {
		t.Errorf("%d requests for %d origins, %+v", n, origins, c.Snapshot())
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				get(c, origins+1000*g+i)
			}
		})
	}
	wg.Wait()
	if s := c.Snapshot(); s.Origins != origins || s.Bytes != s.MaxBytes || s.Evicted != 4000 {
		t.Errorf("%+v", s)
	}
}

// TestTheNewestStays, however large it is.
func TestTheNewestStays(t *testing.T) {
	r := newRig(t, Config{MaxBytes: 1}, always(200, private))
	for _, rawURL := range []string{site, "https://another.example", site} {
		r.get(t, rawURL)
		if _, ok := r.Peek(parse(t, rawURL)); !ok || r.Snapshot().Origins != 1 {
			t.Errorf("%s kept: %v, %d in all", rawURL, ok, r.Snapshot().Origins)
		}
	}
}

// TestBytesAreWhatTheHeapHas: Stats.Bytes is within a tenth of the heap, for all kinds of answers.
func TestBytesAreWhatTheHeapHas(t *testing.T) {
	many := 3_000
	few := 10
	if os.Getenv("POLITENESS_LONG") != "" {
		many = 8_000
		few = 40
	}
	for _, test := range []struct {
		name    string
		origins int
		status  int
		body    func(host string) string
		header  func(host string) []string
	}{
		{"no robots.txt", many, 404, nil, nil},
		{"unreachable", many, 503, nil, nil},
		{"all alike", many, 200, func(string) string { return medianFile }, nil},
		{"alike, validators of their own", many, 200, func(string) string { return medianFile }, func(host string) []string {
			return []string{"ETag", `"` + host + `"`, "Last-Modified", "Sat, 21 Nov 2026 00:00:00 GMT"}
		}},
		{"none alike", many, 200, func(host string) string { return strings.ReplaceAll(medianFile, "www.shop-name.example", host) }, nil},
		{"large, none alike", few, 200, func(host string) string { return short(numberOf(host), 400_000) }, nil},
		{"sitemaps", few, 200, func(host string) string { return strings.Repeat("Sitemap: https://"+host+"/\n", 12_000) }, nil},
	} {
		w := &web{answer: func(host string) *http.Response {
			var body string
			var header []string
			if test.body != nil {
				body = test.body(host)
			}
			if test.header != nil {
				header = test.header(host)
			}
			return reply(test.status, body, header...)
		}}
		before := heap()
		c := newCache(t, Config{}, Client{UserAgent: userAgent, Transport: w})
		empty := heap() - before
		visit(t, c, 0, test.origins)
		there := heap() - before - empty
		counted := c.Snapshot().Bytes
		t.Logf("%s: %d bytes an origin, %d counted", test.name, there/int64(test.origins), counted/int64(test.origins))
		if ratio := float64(counted) / float64(there); ratio < 0.9 || ratio > 1.1 {
			t.Errorf("%s: %d bytes counted, %d there are", test.name, counted, there)
		}
		runtime.KeepAlive(c)
	}
}

// TestWhateverAServerMakesLongIsCounted: every text of a server counts towards MaxBytes.
func TestWhateverAServerMakesLongIsCounted(t *testing.T) {
	bytes := func(host string, body func() (*http.Response, error)) int64 {
		first := true
		r := newRig(t, Config{}, func(req *http.Request) (*http.Response, error) {
			if first { // the shared text and validators are of this one
				first = false
				return reply(200, private), nil
			}
			if strings.HasPrefix(req.URL.Path, "/to/") {
				return reply(200, private), nil
			}
			return body()
		})
		r.get(t, "https://first.example")
		before := r.Snapshot().Bytes
		r.get(t, "https://"+host)
		return r.Snapshot().Bytes - before
	}
	answer := func(status int, body string, header ...string) func() (*http.Response, error) {
		return func() (*http.Response, error) { return reply(status, body, header...), nil }
	}
	for name, of := range map[string]func(long string) int64{
		"host":          func(long string) int64 { return bytes(long+".example", answer(404, "")) },
		"ETag":          func(long string) int64 { return bytes("a.example", answer(200, private, "ETag", long)) },
		"Last-Modified": func(long string) int64 { return bytes("a.example", answer(200, private, "Last-Modified", long)) },
		"redirect":      func(long string) int64 { return bytes("a.example", answer(302, "", "Location", "/to/"+long)) },
		"sitemap":       func(long string) int64 { return bytes("a.example", answer(200, "Sitemap: /"+long)) },
		"rule":          func(long string) int64 { return bytes("a.example", answer(200, "User-agent: *\nDisallow: /"+long)) },
		"ETag of a text of its own": func(long string) int64 {
			return bytes("a.example", answer(200, private+"#", "ETag", long))
		},
		"error": func(long string) int64 {
			return bytes("a.example", func() (*http.Response, error) { return nil, errors.New(long) })
		},
	} {
		n := int64(160)
		short := of("a")
		long := of("a" + strings.Repeat("b", int(n)))
		if name == "error" {
			n *= 2 // in Reason, and in Err
		}
		if more := long - short; more < n*9/10 || more > n*5/4 {
			t.Errorf("%s: %d bytes more are counted as %d", name, n, more)
		}
	}
}

// TestErrorsOfServersAreBounded: a server that answers with a megabyte where its status should be, or
// with many certificates, doesn't fill the memory, and is known for what it is.
func TestErrorsOfServersAreBounded(t *testing.T) {
	chain := func() error {
		all := make([]*x509.Certificate, 10)
		for i := range all {
			all[i] = &x509.Certificate{Raw: make([]byte, 100<<10)}
		}
		return &tls.CertificateVerificationError{UnverifiedCertificates: all, Err: x509.HostnameError{Certificate: all[0], Host: "a.example"}}
	}
	for name, test := range map[string]struct {
		make func() error
		is   func(error) bool
	}{
		"a long text": {func() error { return errors.New(strings.Repeat("x", 1<<20)) }, func(err error) bool { return err.Error() != "" }},
		"of 2 KiB":    {func() error { return errors.New(strings.Repeat("x", 2<<10)) }, func(err error) bool { return errors.Unwrap(err) != nil }},
		"certificates": {chain, func(err error) bool {
			var certificate *tls.CertificateVerificationError
			return errors.As(err, &certificate) && strings.Contains(certificate.Error(), "match a.example")
		}},
		"the name": {func() error { return &net.DNSError{Name: "a.example", IsNotFound: true} }, func(err error) bool {
			var name *net.DNSError
			return errors.As(err, &name)
		}},
	} {
		const n = 300
		before := heap()
		c := newCache(t, Config{}, Client{UserAgent: userAgent, Transport: failure(test.make)})
		empty := heap() - before
		visit(t, c, 0, n)
		there := heap() - before - empty
		counted := c.Snapshot().Bytes
		t.Logf("%s: %d bytes an origin, %d counted", name, there/n, counted/n)
		if there > counted*5/4 || counted > n*3000 {
			t.Errorf("%s: %d bytes counted, %d there are", name, counted, there)
		}
		e, err := c.Get(t.Context(), parse(t, "https://www.host-00000000.example"))
		if err != nil || !e.Denied || !test.is(e.Err) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		runtime.KeepAlive(c)
	}
}

// A failure returns an error for each request.
type failure func() error

func (f failure) RoundTrip(*http.Request) (*http.Response, error) { return nil, f() }

// TestATextGoesWithItsLastOrigin, also where two origins have brought it at the same time.
func TestATextGoesWithItsLastOrigin(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		c := newCache(t, Config{}, Client{UserAgent: userAgent})
		at := func(i int) origin { return origin{host: fmt.Sprintf("%d.example", i)} }
		var all []*state
		for i := range 3 {
			if i == 2 { // both of the first two made a text of their own
				c.memory.add(at(0), all[0])
				c.memory.add(at(1), all[1])
			}
			all = append(all, &state{copy: newCopy(c.textOf([]byte(private), validators{}), 0, 0, validators{})})
		}
		c.memory.add(at(2), all[2])
		for _, i := range order {
			if n := len(c.memory.texts); n > 1 {
				t.Errorf("%v: %d texts", order, n)
			}
			c.memory.states.Remove(at(i))
		}
		if n := len(c.memory.texts); n != 0 || c.memory.bytes != 0 {
			t.Errorf("%v: %d texts are left, %d bytes", order, n, c.memory.bytes)
		}
	}
}

// TestNewStateReplacesTheOldOne: no bytes of the old one are counted any more.
func TestNewStateReplacesTheOldOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, always(200, private))
		r.get(t, site)
		once := r.Snapshot().Bytes
		for _, answer := range []*http.Response{reply(200, private+"#"), reply(404, ""), reply(503, ""), reply(200, private)} {
			time.Sleep(time.Hour)
			r.answer = func(*http.Request) (*http.Response, error) { return answer, nil }
			r.get(t, site)
		}
		if s := r.Snapshot(); s.Bytes != once || s.Origins != 1 || len(r.memory.texts) != 1 {
			t.Errorf("%+v, at first %d bytes", s, once)
		}
	})
}

// TestLargeFileCostsAtMostThreeTimesItsLength, sitemaps included.
func TestLargeFileCostsAtMostThreeTimesItsLength(t *testing.T) {
	const n = 12
	for name, body := range map[string]func(seed int) string{
		"short rules": func(seed int) string { return short(seed, 500_000) },
		"sitemaps":    func(seed int) string { return distinct(seed, "Sitemap: /%x\n") },
		"short sitemaps and rules": func(seed int) string {
			return distinct(seed, "sitemap:%x\n") + "User-agent: *\n" + distinct(seed, "allow:/%x\n")
		},
	} {
		w := &web{answer: func(host string) *http.Response {
			return reply(200, body(1000 * numberOf(host))[:500_000])
		}}
		before := heap()
		c := newCache(t, Config{}, Client{UserAgent: userAgent, Transport: w})
		visit(t, c, 0, n)
		if got := float64(heap()-before) / n / 500_000; got > 3 {
			t.Errorf("%s: %.2f times its length", name, got)
		}
		runtime.KeepAlive(c)
	}
}

// distinct returns a file of at least 250,000 bytes of lines that all differ.
func distinct(seed int, format string) string {
	var b strings.Builder
	for i := seed; b.Len() < 250_000 || format[0] == 'S' && b.Len() < 500_000; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestSharedTextIsCountedOnce, however many origins serve it, until the last is evicted.
func TestSharedTextIsCountedOnce(t *testing.T) {
	body := short(0, 100_000)
	w := &web{answer: func(string) *http.Response { return reply(200, body) }}
	c := newCache(t, Config{}, Client{UserAgent: userAgent, Transport: w})
	visit(t, c, 0, 1)
	one := c.Snapshot().Bytes
	if one < int64(len(body))/2 {
		t.Errorf("%d bytes of rules are counted as %d", len(body), one)
	}
	visit(t, c, 1, 1000)
	if more := (c.Snapshot().Bytes - one) / 999; more > 400 {
		t.Errorf("each further origin costs %d bytes", more)
	}
	first, _ := c.Peek(parse(t, "https://www.host-00000000.example"))
	last, _ := c.Peek(parse(t, "https://www.host-00000999.example"))
	if first.Rules != last.Rules {
		t.Error("the same text has two sets of rules")
	}
	// All but one are evicted: the text stays, and is counted.
	c.memory.max = 1
	visit(t, c, 1000, 1001)
	if s := c.Snapshot(); s.Origins != 1 || s.Bytes < one-16 || s.Bytes > one+16 || len(c.memory.texts) != 1 {
		t.Errorf("%+v, %d at first, %d texts", s, one, len(c.memory.texts))
	}
}

// TestEvictedOriginsAreFetchedAnew, or loaded from the Store if there is one.
func TestEvictedOriginsAreFetchedAnew(t *testing.T) {
	const origins = 3000
	for _, store := range []Store{nil, Dir(t.TempDir())} {
		w := &web{answer: func(string) *http.Response { return reply(404, "") }}
		c := newCache(t, Config{MaxBytes: 256 << 10, Store: store}, Client{UserAgent: userAgent, Transport: w})
		visit(t, c, 0, origins)
		visit(t, c, origins-100, origins) // the newest are still there
		s := c.Snapshot()
		if w.asked != origins || s.Evicted != int64(origins-s.Origins) || s.Origins < 100 {
			t.Errorf("%d fetches, %+v", w.asked, s)
		}
		visit(t, c, 0, 100)
		s = c.Snapshot()
		switch {
		case store != nil && (w.asked != origins || s.Restored != 100):
			t.Errorf("with a store: %d fetches, %+v", w.asked, s)
		case store == nil && w.asked != origins+100:
			t.Errorf("%d fetches, %+v", w.asked, s)
		}
	}
}

// TestCrawlInBreadth over 101,000 hosts, twice: each robots.txt is fetched once.
func TestCrawlInBreadth(t *testing.T) {
	hosts := 10_000
	if os.Getenv("POLITENESS_LONG") != "" {
		hosts = 101_000
	}
	w := &web{answer: func(host string) *http.Response {
		return reply(200, strings.ReplaceAll(medianFile, "www.shop-name.example", host))
	}}
	c := newCache(t, Config{}, Client{UserAgent: userAgent, Transport: w})
	for range 2 {
		visit(t, c, 0, hosts)
	}
	if s := c.Snapshot(); w.asked != hosts || s.Evicted != 0 {
		t.Errorf("%d fetches for %d hosts: %+v", w.asked, hosts, s)
	}
}

// TestWildcardDomain: a crawl through very many names of one domain, all with the same robots.txt,
// is bounded in memory: 30,000 of them, in make soak as many as there is time for, up to ten million.
func TestWildcardDomain(t *testing.T) {
	most := soak.Size(30_000, 30_000, 10_000_000)
	maxBytes := int64(soak.Size(2<<20, 2<<20, 0))
	over := soak.Over(t)
	body := short(0, 4000)
	w := &web{answer: func(string) *http.Response { return reply(200, body, "ETag", `"1"`) }}
	before := heap()
	c := newCache(t, Config{MaxBytes: maxBytes}, Client{UserAgent: userAgent, Transport: w})
	names := 0
	for ; names < most && !over(); names += 10_000 {
		visit(t, c, names, names+10_000)
	}
	got := heap() - before
	s := c.Snapshot()
	t.Logf("soak: %d names, %d MB: %+v", names, got>>20, s)
	if s.Bytes > s.MaxBytes || got > s.MaxBytes*5/4 {
		t.Errorf("%d MB, %d counted, of %d", got>>20, s.Bytes>>20, s.MaxBytes>>20)
	}
	if w.asked != names || names == most && s.Bytes < s.MaxBytes*9/10 {
		t.Errorf("%d fetches: %+v", w.asked, s)
	}
	runtime.KeepAlive(c)
}

// TestAnOriginTakesLittle, where 24 of 25 files are alike.
func TestAnOriginTakesLittle(t *testing.T) {
	w := &web{answer: func(host string) *http.Response {
		if numberOf(host)%25 == 0 { // one in 25 has a text of its own, of the usual size
			return reply(200, strings.ReplaceAll(medianFile, "www.shop-name.example", host))
		}
		return reply(200, medianFile, "ETag", `"5f3c1a2b-230"`, "Last-Modified", "Sat, 21 Nov 2026 00:00:00 GMT")
	}}
	c := newCache(t, Config{}, Client{UserAgent: userAgent, Transport: w})
	const n = 50_000
	visit(t, c, 0, n)
	s := c.Snapshot()
	t.Logf("%d bytes an origin: %d fit", s.Bytes/n, s.MaxBytes/(s.Bytes/n))
	if s.Bytes/n > 400 {
		t.Errorf("%d bytes an origin", s.Bytes/n)
	}
}

// TestSchemesAreOriginsOfTheirOwn: neither displaces the other.
func TestSchemesAreOriginsOfTheirOwn(t *testing.T) {
	r := newRig(t, Config{}, always(200, private))
	for range 2 {
		r.get(t, "http://example.com")
		r.get(t, "https://example.com")
	}
	if r.Snapshot().Origins != 2 || len(r.sent()) != 2 {
		t.Errorf("%d kept, %d requests", r.Snapshot().Origins, len(r.sent()))
	}
}

// TestKeyPinsNoURL: the host of a parsed URL is a part of its whole text.
func TestKeyPinsNoURL(t *testing.T) {
	r := newRig(t, Config{}, always(200, private))
	u := parse(t, site+"/"+strings.Repeat("a", 1000))
	if _, err := r.Get(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	if kept := r.memory.states.Keys(); len(kept) != 1 || unsafe.StringData(kept[0].host) == unsafe.StringData(u.Host) {
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
