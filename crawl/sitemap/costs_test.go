package sitemap

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// longList is a sitemap of n URLs of some 1,900 bytes, which gzip makes a hundredth of it.
func longList(t *testing.T, n int) http.HandlerFunc {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	fill := strings.Repeat("a", 1860)
	fmt.Fprint(w, "<urlset>")
	for i := range n {
		fmt.Fprintf(w, "<url><loc>https://example.com/%06d%s</loc></url>", i, fill)
	}
	fmt.Fprint(w, "</urlset>")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(packed.Bytes()) }
}

// TestAsReadKeepsNothing: the pages of a file come while it is read, all of them, in some kilobytes.
// Otherwise those beyond a bound are left out, with an error.
func TestAsReadKeepsNothing(t *testing.T) {
	const many = 22_000
	for _, asRead := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			web := politenesstest.NewWeb()
			web.Site("https://example.com").Handle("/sitemap.xml", longList(t, many))
			f := Finder{Transport: crawler(t, web, robotscache.Deny), AsRead: asRead}
			live := func() uint64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			before := live()
			n, errs := 0, 0
			for _, err := range f.Pages(t.Context(), "https://example.com/") {
				if err != nil {
					errs++
					continue
				}
				n++
				if n != many/2 {
					continue
				}
				held := int64(live() - before)
				if most := int64(8 << 20); asRead && held > most || held > maxKept+most {
					t.Errorf("AsRead %v: %d KB are held", asRead, held>>10)
				}
			}
			if isAll := n == many && errs == 0; isAll != asRead || n < maxKept/2100 {
				t.Errorf("AsRead %v: %d pages and %d errors", asRead, n, errs)
			}
		})
	}
}

// TestAsReadFindsTheSamePages as reading file by file does: also those of another host, whose
// robots.txt is asked once the file's connection is free.
func TestAsReadFindsTheSamePages(t *testing.T) {
	var found [2]string
	for i, asRead := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			web := politenesstest.NewWeb()
			web.Site("https://example.com").Robots("User-agent: *\nSitemap: /index.xml\n").
				Handle("/index.xml", serve(index("https://example.com/a.xml", "https://example.com/b.xml"))).
				Handle("/a.xml", serve(urls("https://other.example/1", "https://example.com/2", "https://stranger.example/3"))).
				Handle("/b.xml", serve(urls("https://example.com/4", "no URL")))
			web.Site("https://other.example").Robots("User-agent: *\nSitemap: https://example.com/a.xml\n")
			web.Site("https://stranger.example").Robots("")
			pages, errs := find(t, web, Finder{AsRead: asRead}, "https://example.com/")
			slices.Sort(pages)
			found[i] = fmt.Sprint(pages, errs)
		})
	}
	if found[0] != found[1] || strings.Count(found[0], "https://example.com/") < 2 {
		t.Errorf("%s\nas read: %s", found[0], found[1])
	}
}

func serve(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
}

// doublings are sitemaps of about n bytes, of shapes whose parts might be combined.
var doublings = map[string]func(n int) string{
	"elements in each other": func(n int) string { return "<urlset>" + strings.Repeat("<url><a>", n/8) },
	"entities":               func(n int) string { return "<urlset><url><loc>" + strings.Repeat("&amp;&a;", n/8) },
	"declared entities": func(n int) string {
		return "<!DOCTYPE a [" + strings.Repeat("<!ENTITY a '&a;&a;'>", n/20) + "]><urlset><url><loc>&a;</loc>"
	},
	"attributes":         func(n int) string { return "<feed><entry><link " + strings.Repeat("a='1' ", n/6) + ">" },
	"tags of attributes": func(n int) string { return "<feed><entry>" + strings.Repeat("<link a='1' b='2'>", n/18) },
	"namespaces":         func(n int) string { return "<urlset>" + strings.Repeat("<a:b:c:d:url x:y='z'>", n/21) },
	"comments":           func(n int) string { return "<urlset>" + strings.Repeat("<!-- - -- ->", n/12) },
	"CDATA":              func(n int) string { return "<urlset><url><loc><![CDATA[" + strings.Repeat("]]", n/2) },
	"entries": func(n int) string {
		return "<urlset>" + strings.Repeat("<url><loc>https://a.example/</loc></url>", n/40)
	},
	"entries without URL": func(n int) string { return "<urlset>" + strings.Repeat("<url><loc>x</loc></url>", n/23) },
	"dates": func(n int) string {
		return "<urlset>" + strings.Repeat("<url><loc>https://a.example/</loc><lastmod>"+strings.Repeat("1 ", 100)+"</lastmod></url>", n/258)
	},
	"a line":     func(n int) string { return strings.Repeat("a", n) },
	"lines":      func(n int) string { return strings.Repeat("https://a.example/\n", n/19) },
	"short line": func(n int) string { return strings.Repeat("\n", n) },
	"a feed": func(n int) string {
		return "<rss>" + strings.Repeat("<item><link>https://a.example/</link></item>", n/44)
	},
}

// TestCostsGrowWithLength: 2 and 4 times the sitemap are 2 and 4 times the cost at most, in
// allocations and in bytes.
func TestCostsGrowWithLength(t *testing.T) {
	for name, shape := range doublings {
		cost := func(n int) (allocations, bytes uint64) {
			text := strings.NewReader(shape(n))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, err := range Read(text) {
				_ = err // half of these texts are broken
			}
			runtime.ReadMemStats(&after)
			return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
		}
		const n = 64 << 10
		cost(n)
		allocations, bytes := cost(n)
		for _, times := range []uint64{2, 4} {
			more, moreBytes := cost(int(times) * n)
			if more > 3*times*allocations/2+500 || moreBytes > 3*times*bytes/2+256<<10 {
				t.Errorf("%s: %d allocations of %d KB; for %d times the length %d of %d KB",
					name, allocations, bytes>>10, times, more, moreBytes>>10)
			}
		}
	}
}
