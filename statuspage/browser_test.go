package statuspage_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/crawl"
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
		if waiting >= 6 || time.Since(begin) > time.Minute {
			break
		}
	}
	return statuspage.Handler(tr)
}

// pictured is the status page of a crawl of some minutes, for the guides. The crawl runs in virtual
// time, so its picture is the same each time.
func pictured(t *testing.T) http.Handler {
	t.Helper()
	answer := httptest.NewRecorder()
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		var served atomic.Int64
		pages := func(name string, latency time.Duration) *politenesstest.Site {
			site := web.Site("https://" + name).Latency(latency)
			for i := range 400 {
				site.Handle(fmt.Sprintf("/%d", i), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					n := served.Add(1)
					time.Sleep(time.Duration(n*n%97) * 4 * time.Millisecond)
					fmt.Fprintf(w, "%x %x", n*n, n*n*n)
				}))
			}
			return site
		}
		pages("shop.example", 120*time.Millisecond).Robots("User-agent: *\nDisallow: /private\n")
		pages("slow.example", 2*time.Second)
		pages("news.example", 80*time.Millisecond).Robots("User-agent: *\nCrawl-delay: 10\n")
		pages("busy.example", 50*time.Millisecond).
			Handle("/150", politenesstest.Status(429, "Retry-After", "1800"))
		web.Site("https://down.example").Handle("/robots.txt", politenesstest.Status(503))
		tr := newTransport(t, politeness.Config{
			UserAgent: agent, Base: web, Budget: budget.New(budget.Limits{Pages: 5000, Bytes: 1 << 30}),
			Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: 3 * time.Second, Max: 5 * time.Second}, Concurrency: 2},
		})
		if err := tr.Limiter().Block(t.Context(), "stopped.example", time.Now().Add(time.Hour), "the owner has called"); err != nil {
			t.Fatal(err)
		}
		urls := []string{"https://shop.example/private/1", "https://shop.example/private/2", "https://down.example/"}
		for _, host := range []string{"shop", "slow", "news", "busy"} {
			for i := range 400 {
				urls = append(urls, fmt.Sprintf("https://%s.example/%d", host, i))
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var crawls sync.WaitGroup
		crawls.Go(func() {
			visit := func(context.Context, *crawl.Page) error { return nil }
			_, _ = crawl.Run(ctx, crawl.Config{Transport: tr, Visit: visit, Traps: crawl.TrapsIgnored}, urls...)
		})
		time.Sleep(17*time.Minute + 3*time.Second)
		statuspage.Handler(tr).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody))
		cancel()
		crawls.Wait()
	})
	// Virtual time begins in the year 2000.
	return browsertest.HTML(strings.ReplaceAll(answer.Body.String(), "2000-01-01 0", "2026-11-21 1"))
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
	docs := filepath.Join("..", "docs")
	for name, page := range map[string]http.Handler{
		filepath.Join(docs, "status"): pictured(t),
		"trouble":                     handler,
	} {
		for _, size := range []struct{ width, height int }{{1280, 985}, {390, 2900}} {
			view := browsertest.View{Width: size.width, Height: size.height, Script: script}
			for _, dom := range browsertest.Check(t, chrome, page, name, view) {
				if clipped := browsertest.Attribute(dom, "clipped"); clipped != 0 {
					t.Errorf("%s, %d pixels: %d elements stick out", name, size.width, clipped)
				}
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

// TestThePageByKeyboard: Tab comes to all that a person can use, and each works by its keys.
func TestThePageByKeyboard(t *testing.T) {
	chrome := browsertest.Find(t)
	if chrome == "" {
		return
	}
	handler := troubled(t)
	for _, width := range []int{1280, 390} {
		s := browsertest.Open(t, chrome, handler, "/", width, 900)
		s.CheckTab()
		const pause = `document.getElementById("pause").textContent`
		for key, want := range map[string]string{" ": "Resume updates", "Enter": "Resume updates"} {
			s.Focus("#pause")
			s.Press(key)
			if got := s.Eval(pause); got != want {
				t.Errorf("%q: %s", key, got)
			}
			// The page has the time at which it was renewed.
			at := s.Eval(`document.querySelector("#live p").textContent`)
			time.Sleep(2500 * time.Millisecond)
			if later := s.Eval(`document.querySelector("#live p").textContent`); later != at {
				t.Errorf("paused at %s, and renewed at %s", at, later)
			}
			s.Press(key)
			s.Until(pause + ` === "Pause updates"`)
			s.Until(fmt.Sprintf(`document.querySelector("#live p").textContent !== %q`, at))
		}
		s.Focus("#host")
		for _, letter := range "stopped" {
			s.Press(string(letter))
		}
		s.Until(`document.querySelectorAll("#live table:last-of-type tbody tr").length === 1`)
		if got := s.Eval(`document.activeElement.id + " " + document.activeElement.value`); got != "host stopped" {
			t.Errorf("the page has taken the focus: %s", got)
		}
	}
}

// TestAPauseHoldsForWhatIsOnItsWay: an update that was asked for before the pause changes nothing
// after it.
func TestAPauseHoldsForWhatIsOnItsWay(t *testing.T) {
	chrome := browsertest.Find(t)
	if chrome == "" {
		return
	}
	page := troubled(t)
	var isHeld atomic.Bool
	asked := make(chan struct{}, 1)
	paused := make(chan struct{})
	s := browsertest.Open(t, chrome, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isHeld.Load() {
			select {
			case asked <- struct{}{}:
			default:
			}
			select {
			case <-paused:
			case <-r.Context().Done():
			}
		}
		page.ServeHTTP(w, r)
	}), "/", 1280, 900)
	s.Eval(`(() => {
		const real = window.fetch;
		window.pending = 0;
		window.fetch = async (...args) => {
			window.pending++;
			const answer = await real(...args);
			const text = await answer.text();
			window.pending--;
			return { ok: answer.ok, statusText: answer.statusText, text: async () => text };
		};
		return "counted";
	})()`)
	isHeld.Store(true)
	<-asked
	s.Focus("#pause")
	s.Press(" ")
	s.Until(`document.getElementById("pause").textContent === "Resume updates"`)
	at := s.Eval(`document.querySelector("#live p").textContent`)
	close(paused)
	s.Until(`window.pending === 0`)
	if later := s.Eval(`document.querySelector("#live p").textContent`); later != at {
		t.Errorf("paused at %s, and renewed at %s", at, later)
	}
}
