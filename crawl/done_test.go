package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/politenesstest"
)

// results returns what Done receives, in order of the URLs, one a line, and sets r.crawl.Done.
func (r *rig) results(t *testing.T) func() string {
	var lines []string
	var inside atomic.Int32
	r.crawl.Done = func(res crawl.Result) {
		if inside.Add(1) != 1 {
			t.Error("two calls of Done at once")
		}
		defer inside.Add(-1)
		line := fmt.Sprintf("%s: %s, status %d, depth %d, tries %d", strings.TrimPrefix(res.URL, "https://example.com"), res.Outcome, res.Status, res.Depth, res.Tries)
		if res.From != "" {
			line += ", from " + strings.TrimPrefix(res.From, "https://example.com")
		}
		if res.Via != "" {
			line += ", via " + strings.TrimPrefix(res.Via, "https://example.com")
		}
		if res.Err != nil {
			line += ": " + res.Err.Error()
		}
		lines = append(lines, line)
	}
	return func() string {
		slices.Sort(lines)
		return strings.Join(lines, "\n") + "\n"
	}
}

// TestDone receives what became of each URL.
func TestDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		results := r.results(t)
		r.crawl.Follow, r.crawl.MaxDepth = crawl.SameHost, 2
		r.Site("https://example.com").Robots("User-agent: *\nDisallow: /no\n").
			Handle("/", page(`<a href=/a>a</a><a href=/no>no</a><a href=/moved>moved</a><a href=/drop>drop</a><a href=/bad>bad</a>`)).
			Handle("/bad", politenesstest.Status(http.StatusFound, "Location", "gopher://y/")).
			Handle("/a", page(`<a href=/deep>deep</a><a href=/>home</a>`)).
			Handle("/deep", page(`<a href=/deeper>deeper</a>`)).
			Handle("/moved", http.RedirectHandler("/new", http.StatusFound)).
			Handle("/new", page("")).
			Handle("/drop", politenesstest.Drop()).
			Handle("/busy", politenesstest.InTurn(politenesstest.Status(http.StatusServiceUnavailable), page("")))
		r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			switch p.FinalURL {
			case "https://example.com/deep":
				p.Add("mailto:x")
			case "https://example.com/new":
				return errors.New("database is locked")
			}
			return nil
		}
		s := r.run(t.Context(), t, "https://example.com/", "https://example.com/busy", "gopher://x/")
		want := `/: visited, status 200, depth 0, tries 0
/a: visited, status 200, depth 1, tries 0, from /
/bad: redirected, status 302, depth 1, tries 0, from /
/busy: visited, status 200, depth 0, tries 1
/deep: visited, status 200, depth 2, tries 0, from /a
/deeper: too deep, status 0, depth 3, tries 0, from /deep
/drop: failed, status 0, depth 1, tries 4, from /: Get "https://example.com/drop": EOF
/moved: redirected, status 302, depth 1, tries 0, from /
/new: visit failed, status 200, depth 1, tries 0, from /, via /moved: database is locked
/no: disallowed, status 0, depth 1, tries 0, from /: Get "https://example.com/no": politeness: example.com: robots: disallowed by robots.txt, line 2, group "*": Disallow: /no
gopher://x/: invalid, status 0, depth 0, tries 0: crawl: "gopher://x/": scheme "gopher" is neither http nor https
gopher://y/: invalid, status 0, depth 1, tries 0, from /, via /bad: scheme "gopher" is neither http nor https
mailto:x: invalid, status 0, depth 3, tries 0, from /deep: scheme "mailto" is neither http nor https
`
		if got := results(); got != want {
			t.Errorf("got:\n%swant:\n%s(%v)", got, want, s)
		}
	})
}

// TestDoneCountsAsTheSummary does, but for what is found and known, or has no room.
func TestDoneCountsAsTheSummary(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w := newRandomWeb(seed)
			w.rig.crawl.Follow, w.rig.crawl.MaxDepth = crawl.Everywhere, 3
			switch seed % 4 {
			case 1:
				w.rig.crawl.MaxPages = 10
			case 2:
				w.rig.crawl.MaxPagesPerHost = 4
			case 3:
				w.rig.crawl.Queue = newStore()
				w.rig.crawl.MaxPages = 10
			}
			got := map[crawl.Outcome]int{}
			w.rig.crawl.Done = func(res crawl.Result) {
				got[res.Outcome]++
				if (res.Outcome == crawl.Failed || res.Outcome == crawl.Unreachable) && res.Err == nil {
					t.Errorf("no error: %+v", res)
				}
				if seed%5 == 0 {
					panic("which is logged")
				}
			}
			var s crawl.Summary
			text := logged(func() { s = w.rig.run(t.Context(), t, w.hosts[0]+"/0", w.hosts[0]+"/1", "no URL") })
			if n := s.Outcomes[crawl.Duplicate]; n > 0 {
				got[crawl.Duplicate] = n
			}
			wantOutcomes(t, s, got)
			if strings.Contains(text, "panic in Done") != (seed%5 == 0) {
				t.Errorf("logged: %s", text)
			}
		})
	}
}

// TestSlowDoneSlowsTheCrawl, so that results don't pile up before it.
func TestSlowDoneSlowsTheCrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.crawl.Follow, r.crawl.MaxDepth = crawl.SameHost, -1
		r.politeness.Hosts.MaxInFlight = 1
		links := page(manyLinks(10_000))
		var urls []string
		for i := range 40 {
			urls = append(urls, fmt.Sprintf("https://h%d.example/", i))
			r.Site(urls[i]).Handle("/", links).Latency(time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r.crawl.Done = func(crawl.Result) {
			if ctx.Err() == nil {
				<-ctx.Done()
			}
		}
		r.run(ctx, t, urls...)
		if n := len(r.visited); n > 20 {
			t.Errorf("%d pages of 10,000 links each were visited while Done had its first result", n)
		}
	})
}

func manyLinks(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<a href=/x%d>", i)
	}
	return b.String()
}

// TestDoneOfURLsThatAreNone: also where no URL can be crawled.
func TestDoneOfURLsThatAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		results := r.results(t)
		r.crawl.Transport = mustTransport(t, r.politeness)
		r.crawl.Visit = func(context.Context, *crawl.Page) error { return nil }
		c, err := crawl.New(r.crawl)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Run(t.Context(), "gopher://x/"); err == nil || !strings.Contains(results(), "gopher://x/: invalid") {
			t.Errorf("Run returned %v, Done received:\n%s", err, results())
		}
	})
}
