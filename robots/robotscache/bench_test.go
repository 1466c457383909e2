package robotscache

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// medianFile is like the median of real files: 560 bytes, 9 rules for all crawlers.
const medianFile = `# robots.txt of a shop, as its software writes it
User-agent: *
Disallow: /wp-admin/
Allow: /wp-admin/admin-ajax.php
Disallow: /cart/
Disallow: /checkout/
Disallow: /my-account/
Disallow: /search/
Disallow: /*?s=
Disallow: /*?add-to-cart=
Disallow: /tag/*/feed/

# a few that nobody wants
User-agent: AhrefsBot
Disallow: /

User-agent: SemrushBot
Disallow: /

User-agent: DotBot
Crawl-delay: 10

User-agent: BLEXBot
Disallow: /

# all the pages
Sitemap: https://www.shop-name.example/sitemap_index.xml
# -------------------------------------------------------
`

func origins(n int) []*url.URL {
	urls := make([]*url.URL, n)
	for i := range urls {
		urls[i], _ = url.Parse(fmt.Sprintf("https://www.shop-number-%06d.example/products/%d?page=2", i, i))
	}
	return urls
}

func filled(b *testing.B, urls []*url.URL) *Cache {
	b.Helper()
	c := newCache(b, Config{}, Client{UserAgent: userAgent, Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return reply(200, medianFile, "ETag", `"5f3c1a2b-230"`, "Last-Modified", "Sat, 21 Nov 2026 00:00:00 GMT"), nil
	})})
	for _, u := range urls {
		if _, err := c.Get(context.Background(), u); err != nil {
			b.Fatal(err)
		}
	}
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// BenchmarkHit is a hit by 16 goroutines, beside one in a sync.Map that is keyed by the URL's own
// parts and evicts nothing. "one" is a crawl of a single site, "working set" one of many within the
// cache. "all" is a random walk over the whole cache, which measures the machine's memory: "key only",
// which reads only the URL, costs several times there what it does elsewhere.
func BenchmarkHit(b *testing.B) {
	const n = 100_000
	urls := origins(n)
	cache := filled(b, urls)
	type key struct{ scheme, host string }
	var plain sync.Map
	for _, u := range urls {
		entry, _ := cache.Peek(u)
		plain.Store(key{u.Scheme, strings.Clone(u.Host)}, entry)
	}
	for _, set := range []struct {
		name string
		of   int
	}{{"one", 1}, {"working set", n / 20}, {"all", n}} {
		ways := map[string]func(i int) bool{
			"Get":  func(i int) bool { e, err := cache.Get(context.Background(), urls[i]); return e != nil && err == nil },
			"Peek": func(i int) bool { _, ok := cache.Peek(urls[i]); return ok },
			"key only": func(i int) bool {
				o, err := originOf(urls[i])
				return err == nil && o.host != ""
			},
			"sync.Map": func(i int) bool {
				e, ok := plain.Load(key{urls[i].Scheme, urls[i].Host})
				return ok && time.Until(e.(*Entry).Expires) > 0
			},
		}
		for _, way := range []string{"Get", "Peek", "key only", "sync.Map"} {
			hit := ways[way]
			b.Run(set.name+"/"+way, func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(max(1, 16/runtime.GOMAXPROCS(0)))
				var seed atomic.Uint64
				b.RunParallel(func(pb *testing.PB) {
					x := seed.Add(0x9e3779b97f4a7c15)
					for pb.Next() {
						x ^= x << 13
						x ^= x >> 7
						x ^= x << 17
						if !hit(int(x % uint64(set.of))) {
							b.Error("miss")
							return
						}
					}
				})
			})
		}
	}
}

// BenchmarkMemory reports what 100,000 origins with the median real file cost.
func BenchmarkMemory(b *testing.B) {
	const n = 100_000
	if len(medianFile) != 560 || strings.Count(medianFile[:strings.Index(medianFile, "# a few")], "llow: ") != 9 {
		b.Fatalf("medianFile has %d bytes", len(medianFile))
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		urls := origins(n)
		before := heap()
		c := filled(b, urls)
		bytes := heap() - before
		if c.Snapshot().Origins != n {
			b.Fatalf("%d origins kept", c.Snapshot().Origins)
		}
		if bytes > 150<<20 {
			b.Errorf("%d MB", bytes>>20)
		}
		b.ReportMetric(float64(bytes)/n, "B/origin")
		b.ReportMetric(float64(bytes)/(1<<20), "MB")
		runtime.KeepAlive(urls)
		runtime.KeepAlive(c)
	}
}

// BenchmarkMiss is one fetch from a transport that costs nothing.
func BenchmarkMiss(b *testing.B) {
	urls := origins(b.N)
	b.ReportAllocs()
	b.ResetTimer()
	filled(b, urls)
}
