package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sitemap"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// An etagged is a file with a version as its ETag, which a test edits.
type etagged struct {
	mu   sync.Mutex
	text string
}

func (e *etagged) set(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text = text
}

func (e *etagged) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.Header().Set("Etag", fmt.Sprintf(`"%x"`, e.text))
	http.ServeContent(w, req, "/sitemap.xml", time.Time{}, strings.NewReader(e.text))
}

// urlset is a sitemap of pages.
func urlset(pages ...string) string {
	text := "<urlset>"
	for _, page := range pages {
		text += "<url><loc>" + page + "</loc></url>"
	}
	return text + "</urlset>"
}

// newLister returns a lister that remembers sitemaps as -every does.
func newLister(t *testing.T, web *politenesstest.Web, delay hostlimit.Delay) *lister {
	t.Helper()
	transport, err := politeness.New(politeness.Config{UserAgent: agent, Base: web, Hosts: hostlimit.Config{Delay: delay}})
	if err != nil {
		t.Fatal(err)
	}
	return &lister{
		finder:   sitemap.Finder{Transport: transport, AsRead: true},
		errs:     io.Discard,
		within:   new(scope),
		sitemaps: true,
		polls:    newPolls(t.TempDir(), io.Discard),
	}
}

// TestSitemapsWithoutNewsArePolledAsOften, also on a host that isn't on the command line: the start URL
// redirects to it. After three days its sitemap lists a new page.
func TestSitemapsWithoutNewsArePolledAsOften(t *testing.T) {
	for _, start := range []string{"https://www.example.com/", "https://example.com/"} {
		t.Run(start, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := politenesstest.NewWeb()
				toWWW := http.RedirectHandler("https://www.example.com/", http.StatusMovedPermanently)
				web.Site("https://example.com").Handle("/", toWWW)
				www := web.Site("https://www.example.com")
				list := &etagged{text: urlset("https://www.example.com/a")}
				www.Handle("/sitemap.xml", list)
				www.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					w.Header().Set("Content-Type", "text/html")
					fmt.Fprint(w, "<p>page ", req.URL.Path)
				}))
				l := newLister(t, web, hostlimit.Delay{})
				var e every
				if err := e.Set("1h-30d"); err != nil {
					t.Fatal(err)
				}
				news := time.Now().Add(3*24*time.Hour + 90*time.Minute)
				time.AfterFunc(time.Until(news), func() {
					list.set(urlset("https://www.example.com/a", "https://www.example.com/news"))
				})
				ctx, cancel := context.WithTimeout(t.Context(), 8*24*time.Hour)
				defer cancel()
				var found time.Time
				_, err := crawl.Run(ctx, crawl.Config{
					Transport: l.finder.Transport,
					Revisit:   e.schedule,
					Watch:     -1,
					Discover:  l.discover,
					Follow:    crawl.SameHost,
					Visit: func(_ context.Context, p *crawl.Page) error {
						if p.Response.Request.URL.Path == "/news" && found.IsZero() {
							found = time.Now()
							cancel()
						}
						return nil
					},
				}, start)
				if err != nil {
					t.Fatal(err)
				}
				if late := found.Sub(news); late < 0 || late > 2*time.Hour {
					t.Errorf("the new page was found after %v", late)
				}
			})
		})
	}
}

// TestARunRemembersSoManySitemaps: those of further hosts aren't remembered, so they are read whole
// again. A host that is polled again keeps its place.
func TestARunRemembersSoManySitemaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		l := newLister(t, web, hostlimit.Delay{DangerouslyNone: true})
		const (
			sitemaps = 20 // of a host
			fits     = 3  // hosts
		)
		// The call, the index and the other usual place are counted, too.
		l.polls.most = fits * (sitemaps + 4) * (perPolled + len("https://h0.example/list-00.xml"))
		var hosts []string
		for i := range 3 * fits {
			host := fmt.Sprintf("https://h%d.example", i)
			hosts = append(hosts, host)
			index := "<sitemapindex>"
			for k := range sitemaps {
				at := fmt.Sprintf("/list-%02d.xml", k)
				index += "<sitemap><loc>" + host + at + "</loc></sitemap>"
				web.Site(host).Handle(at, &etagged{text: urlset(host + "/page")})
			}
			web.Site(host).Handle("/sitemap.xml", &etagged{text: index + "</sitemapindex>"})
			web.Site(host).Handle("/sitemap_index.xml", http.NotFoundHandler())
		}
		poll := func() (perHost []int) {
			for _, host := range hosts {
				pages := 0
				for req := range l.discover(t.Context(), host+"/") {
					if req.URL != "" {
						pages++
					}
				}
				perHost = append(perHost, pages)
				if l.polls.bytes > l.polls.most || len(l.polls.last) > fits {
					t.Errorf("%d bytes of %d hosts are kept", l.polls.bytes, len(l.polls.last))
				}
			}
			return perHost
		}
		want := func(why string, saved int) {
			t.Helper()
			for i, got := range poll() {
				pages := sitemaps
				if i < saved {
					pages = 0
				}
				if got != pages {
					t.Errorf("%s, host %d: %d pages, want %d", why, i, got, pages)
				}
			}
		}
		want("first", 0)
		want("again", fits)
		want("with the same places", fits)
		l.polls.end(t.Context(), crawl.Summary{})
		if l.polls.bytes != 0 || len(l.polls.last) != 0 {
			t.Errorf("after the end %d bytes are kept", l.polls.bytes)
		}
		want("in the next run", fits)
	})
}
