package statuspage_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/browsertest"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/statuspage"
)

// troubled is the status page of a crawl in all sorts of trouble.
func troubled(t *testing.T) http.Handler {
	t.Helper()
	web := politenesstest.NewWeb()
	busy := politenesstest.Status(429, "Retry-After", "3600")
	web.Site("https://busy.example").Handle("/", busy)
	web.Site("https://crawl-delay.example").Robots("User-agent: *\nCrawl-delay: 30\n").Page("/", "page")
	web.Site("https://shop.example").Page("/", strings.Repeat("page ", 1000)).Robots("User-agent: *\nDisallow: /private\n")
	web.Site("https://large.example").Page("/", strings.Repeat("large ", 1000))
	web.Site("https://down.example").Handle("/robots.txt", politenesstest.Status(503))
	web.Site("https://a-host-with-a-very-long-name-that-has-to-break-somewhere.subdomain.of-a-very-long-domain.example").Page("/", "page")
	full := evidence.Func(func(_ context.Context, d evidence.Decision) {
		if d.Type == evidence.LeaseExpired || strings.Contains(d.URL, "busy.example") && d.Type == evidence.Fetched {
			panic("disk full")
		}
	})
	tr := newTransport(t, politeness.Config{
		UserAgent: agent, Base: web, Evidence: full, Budget: budget.New(budget.Limits{Pages: 20, Bytes: 1 << 20, PagesPerHost: 8}),
		Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}, Concurrency: 2},
	})
	client := &http.Client{Transport: tr}
	get := func(url string) {
		resp, err := client.Get(url)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	hold := func(url string) {
		held, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { held.Body.Close() })
	}
	get("https://busy.example/")
	for range 3 {
		get("https://shop.example/")
	}
	get("https://shop.example/private")
	get("https://down.example/")
	get("https://a-host-with-a-very-long-name-that-has-to-break-somewhere.subdomain.of-a-very-long-domain.example/")
	if err := tr.Limiter().Block(t.Context(), "stopped.example", time.Now().Add(time.Hour), "the owner has called"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		hold("https://shop.example/")
		hold("https://large.example/archive.iso")
	}
	for range 2 { // and they wait until the test is over
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		for _, url := range []string{"https://crawl-delay.example/", "https://busy.example/", "https://large.example/"} {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				if resp, err := client.Do(req); err == nil {
					resp.Body.Close()
				}
			}()
		}
	}
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) { // until those that wait do so
		waiting := 0
		for h, err := range tr.Limiter().List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			waiting += h.Waiters
		}
		if waiting >= 6 || time.Since(begin) > 10*time.Second {
			break
		}
	}
	return statuspage.Handler(tr)
}

// TestThePageInABrowser at the width of a desk and of a phone. With POLITENESS_PICTURES=1 it
// writes the pictures that the guides show.
func TestThePageInABrowser(t *testing.T) {
	chrome := browsertest.Find(t)
	if chrome == "" {
		return // the other tests have looked at what the page says
	}
	handler := troubled(t)
	const script = `
		const out = [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1);
		root.dataset.clipped = out.length;`
	for _, size := range []struct{ width, height int }{{1280, 985}, {390, 2790}} {
		view := browsertest.View{Width: size.width, Height: size.height, Script: script}
		for _, dom := range browsertest.Check(t, chrome, handler, filepath.Join("..", "docs", "status"), view) {
			if clipped := browsertest.Attribute(dom, "clipped"); clipped != 0 {
				t.Errorf("%d pixels: %d elements stick out", size.width, clipped)
			}
		}
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	look := func(url string) string {
		return browsertest.Look(t, chrome, url, "", "--window-size=1280,1100", "--virtual-time-budget=2500")
	}
	// The script renews the page, and finds what the search box holds.
	dom := look(server.URL + "/?host=stopped")
	if !strings.Contains(dom, "by hand: the owner has called") || strings.Contains(dom, "<td>crawl-delay.example") {
		t.Errorf("searched for stopped:\n%s", dom)
	}
	if strings.Contains(dom, `hidden="" id="pause"`) || strings.Contains(dom, "id=pause hidden") || !strings.Contains(dom, `id="pause"`) {
		t.Error("the page's script didn't run")
	}
	dom = look(server.URL + "/?host=nobody")
	if !strings.Contains(dom, "No host at work has") {
		t.Errorf("searched for nobody:\n%s", dom)
	}
}
