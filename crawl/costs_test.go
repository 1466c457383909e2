package crawl_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
)

// doublings are pages and headers that are combined with something else of them, of about n bytes.
var doublings = map[string]func(n int) (text string, header http.Header){
	"attributes of a tag": func(n int) (string, http.Header) {
		return "<a " + strings.Repeat("a=1 ", n/8) + strings.Repeat("b ", n/4) + ">", nil
	},
	"attributes of SVG": func(n int) (string, http.Header) {
		return "<svg><font " + numberedTexts("a%d=1 ", n/8) + ">", nil
	},
	"elements in each other": func(n int) (string, http.Header) {
		return strings.Repeat("<svg><foreignObject><div>", n/50) + strings.Repeat("</x>", n/8), nil
	},
	"dots in a reference": func(n int) (string, http.Header) {
		return `<a href="` + strings.Repeat("a/../", n/5) + `">`, nil
	},
	"a reference that is too long": func(n int) (string, http.Header) {
		return `<a href="` + strings.Repeat("a\t", n/2) + `">`, nil
	},
	"many references, one base, dots": func(n int) (string, http.Header) {
		return `<base href="/` + strings.Repeat("a/", 1000) + `">` + strings.Repeat(`<a href="../../x">`, n/18), nil
	},
	"many references, one base": func(n int) (string, http.Header) {
		return `<base href="/` + strings.Repeat("a", 1900) + `/">` + numberedTexts("<a href=%d>", n/13), nil
	},
	"queries in another charset": func(n int) (string, http.Header) {
		return `<meta charset=big5><a href="?` + strings.Repeat("é", n/2) + `">`, nil
	},
	"charsets": func(n int) (string, http.Header) { return strings.Repeat("<meta charset=nobody>", n/21), nil },
	"directives of a page": func(n int) (string, http.Header) {
		return `<meta name=robots content="` + strings.Repeat("max-x:", n/12) + strings.Repeat("unavailable_after: 1 Jan,", n/50) + `">`, nil
	},
	"pages with directives": func(n int) (string, http.Header) {
		return numberedTexts("<meta name=bot%d content=noindex>", n/34), nil
	},
	"a refresh": func(n int) (string, http.Header) {
		return `<meta http-equiv=refresh content="0;` + strings.Repeat("url ", n/4) + `">`, nil
	},
	"relations": func(n int) (string, http.Header) { return `<a href=/x rel="` + strings.Repeat("x,", n/2) + `">`, nil },
	"a text": func(n int) (string, http.Header) {
		return strings.Repeat("a1 &amp; <p>", n/24) + strings.Repeat("&CounterClockwise", n/34), nil
	},
	"Link": func(n int) (string, http.Header) {
		return "", http.Header{"Link": {strings.Repeat(`</x>;rel="next a b";a=b,`, n/24)}}
	},
	"parameters of Link": func(n int) (string, http.Header) {
		return "", http.Header{"Link": {"</x>" + numberedTexts(";p%d=1", n/8)}}
	},
	"X-Robots-Tag": func(n int) (string, http.Header) {
		return "", http.Header{"X-Robots-Tag": {strings.Repeat("bot: noindex: ", n/28) + strings.Repeat("unavailable_after: 1,", n/42)}}
	},
	"lines of X-Robots-Tag": func(n int) (string, http.Header) {
		return "", http.Header{"X-Robots-Tag": strings.Split(strings.Repeat("bot: noindex\n", n/13), "\n")}
	},
	"Refresh": func(n int) (string, http.Header) {
		return "", http.Header{"Refresh": strings.Split(strings.Repeat("0;url=x\n", n/8), "\n")}
	},
	"Set-Cookie": func(n int) (string, http.Header) {
		return "", http.Header{"Set-Cookie": strings.Split(numberedTexts("a%d=b; Path=/\n", n/18), "\n")}
	},
	"Retry-After": func(n int) (string, http.Header) {
		return "", http.Header{"Retry-After": {strings.Repeat("1", n)}, "Ratelimit": {strings.Repeat(`"a";r=0;t=1,`, n/12)}}
	},
	"Content-Type": func(n int) (string, http.Header) {
		return "<a href=/x>", http.Header{"Content-Type": {"text/html" + numberedTexts(";a%d=b", n/8) + "; charset=utf-8"}}
	},
	"Content-Usage": func(n int) (string, http.Header) {
		return "", http.Header{"Content-Usage": {numberedTexts("a%d=y;b=c,", n/12)}, "Content-Signal": {strings.Repeat("ai-train=no,", n/12)}}
	},
}

// numberedTexts returns the texts that format makes of the numbers up to n.
func numberedTexts(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// A cost is what a page takes.
type cost struct {
	allocations, bytes uint64
	kept               uint64 // bytes of the URLs of its links
}

// TestCostsGrowWithLength: 2 and 4 times the page, or the header, are 2 and 4 times the cost at most,
// in allocations and in bytes, and so is what is kept of it.
func TestCostsGrowWithLength(t *testing.T) {
	for name, shape := range doublings {
		t.Run(name, func(t *testing.T) {
			costOf := func(n int) (c cost) {
				synctest.Test(t, func(t *testing.T) { c = costOfPage(t, shape, n) })
				return c
			}
			const n = 64 << 10
			costOf(n)
			one := costOf(n)
			for _, times := range []uint64{2, 4} {
				more := costOf(int(times) * n)
				if more.bytes > 3*times*one.bytes/2+1<<20 {
					t.Errorf("%d KB, and %d for %d times the length", one.bytes>>10, more.bytes>>10, times)
				}
				if more.allocations > 3*times*one.allocations/2+1000 {
					t.Errorf("%d allocations, and %d for %d times the length", one.allocations, more.allocations, times)
				}
				if more.kept > 16*times*n+1<<20 {
					t.Errorf("%d KB are kept of %d KB", more.kept>>10, times*n>>10)
				}
			}
		})
	}
}

// costOfPage crawls a page of n bytes.
func costOfPage(t *testing.T, shape func(n int) (string, http.Header), n int) (c cost) {
	text, header := shape(n)
	r := newRig()
	r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		for name, values := range header {
			w.Header()[name] = values
		}
		_, _ = io.WriteString(w, text)
	}))
	r.crawl.MaxDepth = -1
	r.crawl.Follow = crawl.SameHost
	r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
		for _, l := range p.Links {
			c.kept += uint64(len(l.URL) + len(l.Rel))
		}
		return nil
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.run(t.Context(), t, "https://example.com/")
	runtime.ReadMemStats(&after)
	c.bytes = after.TotalAlloc - before.TotalAlloc
	c.allocations = after.Mallocs - before.Mallocs
	return c
}

// TestTheEndOfACrawlEndsTheReadingOfAPage: work on a page ends Grace after the crawl's context.
func TestTheEndOfACrawlEndsTheReadingOfAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", page(numberedTexts("<a href=/%d>", 5000)))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r.crawl.Grace = time.Second
		asked := 0
		r.crawl.Follow = func(*crawl.Page, crawl.Link) bool {
			asked++
			cancel()
			time.Sleep(2 * time.Second)
			return true
		}
		s := r.run(ctx, t, "https://example.com/")
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Left: 2})
		if asked != 1 {
			t.Errorf("Follow was asked about %d links", asked)
		}
	})
}
