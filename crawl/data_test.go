package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
)

// dataOf returns the Data of the pages that were visited, by their path.
func (r *rig) dataOf() map[string]string {
	found := make(map[string]string)
	for _, p := range r.visited {
		found[strings.TrimPrefix(p.FinalURL, "https://example.com")] = p.Data
	}
	return found
}

// moved answers with a redirect.
func moved(to string) http.Handler { return http.RedirectHandler(to, http.StatusFound) }

// TestDataTravelsWithAURL: to the page, over redirects, refusals and a canonical URL, and into the
// Result.
func TestDataTravelsWithAURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		refusals := 0
		r.Site("https://example.com").
			Handle("/", page("")).
			Handle("/plain", page("")).
			Handle("/old", moved("/older")).
			Handle("/older", moved("/new")).
			Handle("/new", page("")).
			Handle("/copy", page(`<link rel=canonical href="/original">`)).
			Handle("/original", page("")).
			Handle("/found", page("")).
			Handle("/refused", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				refusals++
				if refusals == 1 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
		r.crawl.Canonical = true
		r.crawl.Follow = crawl.SameHost
		r.crawl.Discover = listed(func(context.Context, string) []crawl.Request {
			return []crawl.Request{{URL: "https://example.com/found", Data: "from Discover"}}
		})
		r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			if p.Depth > 0 {
				return nil
			}
			for _, path := range []string{"plain", "old", "copy", "refused", "gone"} {
				p.AddRequest(crawl.Request{URL: path, Data: "data of " + path, Depth: 50, From: "nowhere"})
			}
			p.AddRequest(crawl.Request{URL: "/plain", Data: "of the second request"})
			return nil
		}
		results := make(map[string]string)
		r.crawl.Done = func(res crawl.Result) {
			results[strings.TrimPrefix(res.URL, "https://example.com")] = res.Data
			if res.Depth > 1 || res.From == "nowhere" {
				t.Errorf("%s is of depth %d, from %s", res.URL, res.Depth, res.From)
			}
		}
		r.run(t.Context(), t, "https://example.com/")
		want := map[string]string{
			"/": "", "/plain": "data of plain", "/new": "data of old", "/original": "data of copy",
			"/refused": "data of refused", "/gone": "data of gone", "/found": "from Discover",
		}
		if got := r.dataOf(); !maps.Equal(got, want) {
			t.Errorf("pages have %v\nwant       %v", got, want)
		}
		maps.Copy(want, map[string]string{"/old": "data of old", "/older": "data of old", "/copy": "data of copy"})
		if !maps.Equal(results, want) {
			t.Errorf("results have %v\nwant         %v", results, want)
		}
	})
}

// TestDataHasABound, which is stated: a URL with more is Invalid, and no Queue gets it.
func TestDataHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		longest := strings.Repeat("x", crawl.MaxData)
		r.Site("https://example.com").Handle("/", page("")).Handle("/longest", page("")).Handle("/found", page(""))
		r.crawl.Discover = listed(func(context.Context, string) []crawl.Request {
			return []crawl.Request{{URL: "https://example.com/found", Data: longest + "x"}}
		})
		r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			if p.Depth == 0 {
				p.AddRequest(crawl.Request{URL: "/longest", Data: longest})
				p.AddRequest(crawl.Request{URL: "/longer", Data: longest + "x"})
			}
			return nil
		}
		r.crawl.Done = func(res crawl.Result) {
			if res.Outcome == crawl.Invalid && (res.Err == nil || !strings.Contains(res.Err.Error(), "longer than 65536 bytes")) {
				t.Errorf("%s: %v", res.URL, res.Err)
			}
			if len(res.Data) > crawl.MaxData {
				t.Errorf("%s has %d bytes of Data", res.URL, len(res.Data))
			}
		}
		summary := r.run(t.Context(), t, "https://example.com/")
		wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Visited: 2, crawl.Invalid: 2})
		if r.dataOf()["/longest"] != longest {
			t.Error("the longest Data isn't whole")
		}
	})
}

// TestTakeIsCalledWhereAURLIsTakenIn: after nofollow was obeyed and before Follow, for links,
// redirects and Discover, and not for start URLs and Page.Add.
func TestTakeIsCalledWhereAURLIsTakenIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").
			Handle("/", page(`
				<a href="/a?sid=1">a</a> <a href="/nofollow" rel=nofollow>b</a> <a href="/left-out">c</a>
				<a href="/old">d</a> <a href="/broken">e</a> <a href="/elsewhere">f</a>`)).
			Handle("/a", page("")).
			Handle("/old", moved("/new?sid=2")).
			Handle("/new", page("")).
			Handle("/added", page("")).
			Handle("/listed", page(""))
		var mu sync.Mutex
		var calls []string
		r.crawl.Take = func(p *crawl.Page, l crawl.Link, req *crawl.Request) bool {
			from := "nil"
			if p != nil {
				from = strings.TrimPrefix(p.FinalURL, "https://example.com")
			}
			mu.Lock()
			calls = append(calls, l.Element+" "+from+" "+strings.TrimPrefix(l.URL, "https://example.com"))
			mu.Unlock()
			if req.URL != l.URL {
				t.Errorf("Take gets %s for the link %s", req.URL, l.URL)
			}
			req.URL, _, _ = strings.Cut(req.URL, "?")
			req.Depth = 90 // for reading only
			req.Data = "by Take of " + from
			switch {
			case strings.HasSuffix(l.URL, "/broken"):
				req.URL = "http://["
			case strings.HasSuffix(l.URL, "/elsewhere"):
				req.URL = "https://other.example/"
			}
			return !strings.HasSuffix(l.URL, "/left-out")
		}
		r.crawl.Follow = func(p *crawl.Page, l crawl.Link) bool {
			if strings.Contains(l.URL, "sid") {
				t.Errorf("Follow is called for %s, as it was before Take", l.URL)
			}
			return crawl.SameHost(p, l)
		}
		r.crawl.Discover = listed(func(context.Context, string) []crawl.Request {
			return []crawl.Request{{URL: "https://example.com/listed?sid=3"}, {URL: "no URL"}}
		})
		r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			if p.Depth == 0 {
				p.Add("/added")
			}
			return nil
		}
		summary := r.run(t.Context(), t, "https://example.com/")
		slices.Sort(calls)
		want := []string{
			"a / /a?sid=1", "a / /broken", "a / /elsewhere", "a / /left-out", "a / /old",
			"discover nil /listed?sid=3", "redirect /old /new?sid=2",
		}
		if !slices.Equal(calls, want) {
			t.Errorf("calls %q\nwant  %q", calls, want)
		}
		wantData := map[string]string{
			"/": "", "/a": "by Take of /", "/new": "by Take of /old", "/listed": "by Take of nil", "/added": "",
		}
		if got := r.dataOf(); !maps.Equal(got, wantData) {
			t.Errorf("pages have %v\nwant       %v", got, wantData)
		}
		wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Visited: 5, crawl.Redirected: 1, crawl.Invalid: 2})
	})
}

// TestTakeOrdersLinks by the Priority that it sets.
func TestTakeOrdersLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.politeness.Hosts.Concurrency = 1
		r.Site("https://example.com").
			Handle("/", page(`<a href="/1"></a><a href="/2"></a><a href="/3"></a>`)).
			Handle("/1", page("")).Handle("/2", page("")).Handle("/3", page(""))
		r.crawl.Follow = crawl.SameHost
		r.crawl.Take = func(_ *crawl.Page, l crawl.Link, req *crawl.Request) bool {
			if strings.HasSuffix(l.URL, "/3") {
				req.Priority = math.MaxInt // which is clipped
			}
			return true
		}
		r.run(t.Context(), t, "https://example.com/")
		var order []string
		for _, p := range r.visited {
			order = append(order, strings.TrimPrefix(p.FinalURL, "https://example.com"))
		}
		if want := []string{"/", "/3", "/1", "/2"}; !slices.Equal(order, want) {
			t.Errorf("visited %q, want %q", order, want)
		}
	})
}

// TestAHigherPriorityGoesBeforeWhatIsAtHand: a URL that is found late overtakes those that the crawl
// has from its Queue already.
func TestAHigherPriorityGoesBeforeWhatIsAtHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.politeness.Hosts.Concurrency = 1
		r.Site("https://example.com").
			Handle("/", page(`<a href="/1"></a><a href="/2"></a><a href="/3"></a>`)).
			Handle("/1", page(`<a href="/1/1"></a>`)).Handle("/1/1", page("")).
			Handle("/2", page("")).Handle("/3", page(""))
		r.crawl.Follow = crawl.SameHost
		r.crawl.Take = func(_ *crawl.Page, _ crawl.Link, req *crawl.Request) bool {
			req.Priority = req.Depth
			return true
		}
		r.run(t.Context(), t, "https://example.com/")
		var order []string
		for _, p := range r.visited {
			order = append(order, strings.TrimPrefix(p.FinalURL, "https://example.com"))
		}
		if want := []string{"/", "/1", "/1/1", "/2", "/3"}; !slices.Equal(order, want) {
			t.Errorf("visited %q, want %q", order, want)
		}
	})
}

// TestTakeMayPanic: of a page it is that visit's failure, of Discover's the one URL is Invalid.
func TestTakeMayPanic(t *testing.T) {
	quiet(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").
			Handle("/", page(`<a href="/a"></a>`)).Handle("/list", page("")).Handle("/good", page(""))
		r.crawl.Follow = crawl.SameHost
		r.crawl.Discover = listed(func(context.Context, string) []crawl.Request {
			return []crawl.Request{{URL: "https://example.com/bad"}, {URL: "https://example.com/good"}}
		})
		r.crawl.Take = func(p *crawl.Page, l crawl.Link, _ *crawl.Request) bool {
			if p != nil || strings.HasSuffix(l.URL, "/bad") {
				panic("no")
			}
			return true
		}
		summary := r.run(t.Context(), t, "https://example.com/")
		wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Visited: 1, crawl.VisitFailed: 1, crawl.Invalid: 1})
	})
}

// quiet keeps the log of panics out of the output of a test.
func quiet(t *testing.T) {
	t.Helper()
	before := log.Writer()
	log.SetOutput(new(strings.Builder))
	t.Cleanup(func() { log.SetOutput(before) })
}

// ExamplePage_AddRequest gives each talk the date that only the list has.
func ExamplePage_AddRequest() {
	site := exampleSite() // whose start page leads to /news
	transport, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      site,                                                            // leave it out on the web
		Hosts:     hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond}}, // and this
	})
	if err != nil {
		log.Fatal(err)
	}
	c, err := crawl.New(crawl.Config{
		Transport: transport,
		Visit: func(_ context.Context, p *crawl.Page) error {
			if p.Depth == 0 {
				p.AddRequest(crawl.Request{URL: "news", Data: "2026-11-28"})
				return nil
			}
			if p.Data == "" {
				return errors.New("no date")
			}
			fmt.Println(p.FinalURL, "of", p.Data)
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Run(context.Background(), "https://example.com/"); err != nil {
		log.Fatal(err)
	}
	// Output: https://example.com/news of 2026-11-28
}
