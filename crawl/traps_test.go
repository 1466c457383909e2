package crawl_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness/crawl"
)

// A trapped web has a shop with items, and filters of it that show nothing new. They combine.
type trapped struct {
	rig  *rig
	mu   sync.Mutex
	got  []string
	done map[string]crawl.Result
}

const (
	shopItems = 60
	filters   = 8
)

func newTrapped() *trapped {
	w := &trapped{rig: newRig(), done: map[string]crawl.Result{}}
	w.rig.crawl.Follow = crawl.SameHost
	w.rig.crawl.Done = func(r crawl.Result) { w.done[r.URL] = r }
	w.rig.Site("https://example.com").Handle("/", http.HandlerFunc(w.serve))
	return w
}

func (w *trapped) serve(rw http.ResponseWriter, req *http.Request) {
	w.mu.Lock()
	w.got = append(w.got, req.URL.RequestURI())
	w.mu.Unlock()
	rw.Header().Set("Content-Type", "text/html")
	if item, ok := strings.CutPrefix(req.URL.Path, "/item/"); ok {
		fmt.Fprintf(rw, "<p>Shop<p>All about %s<a href=/>", strings.Repeat(letter(item), 3))
		return
	}
	fmt.Fprint(rw, "<p>Shop")
	for i := range shopItems {
		fmt.Fprintf(rw, "<a href=/item/%d>x</a>", i)
	}
	query := req.URL.RawQuery
	if query != "" {
		query += "&amp;"
	}
	for f := range filters {
		if !strings.Contains(query, filter(f)) {
			fmt.Fprintf(rw, `<a href="/?%s%s=1">filter</a>`, query, filter(f))
		}
	}
}

func filter(n int) string { return "filter_" + letter(fmt.Sprint(n)) }

// letter is a word for a number: in lines all digits are one.
func letter(number string) string {
	return strings.Map(func(r rune) rune { return r - '0' + 'a' }, number)
}

// TestRealPagesGoFirst: filters that show nothing new are postponed, are counted with their reason,
// and lose no page.
func TestRealPagesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrapped()
		w.rig.crawl.MaxPages = 100
		var last crawl.Progress
		w.rig.crawl.Progress = func(p crawl.Progress) {
			if !p.Done {
				last = p
			}
		}
		s := w.rig.run(t.Context(), t, "https://example.com/")
		items := 0
		for _, url := range w.got[:shopItems+shopItems/10] {
			if strings.HasPrefix(url, "/item/") {
				items++
			}
		}
		if items < shopItems {
			t.Errorf("%d of %d items were among the first requests: %q", items, shopItems, w.got)
		}
		postponed := 0
		for reason, n := range s.Postponed {
			postponed += n
			if !isFilter(reason) {
				t.Errorf("%d URLs are postponed by %q", n, reason)
			}
		}
		if postponed == 0 || postponed != s.Outcomes[crawl.Left] {
			t.Errorf("%d URLs are postponed, and %d left", postponed, s.Outcomes[crawl.Left])
		}
		for url, r := range w.done {
			isLater := r.Later > 0
			if isLater != (r.Why != "") {
				t.Errorf("%s has Later %d, and why: %q", url, r.Later, r.Why)
			}
			if r.Outcome == crawl.Left && !isFilter(r.Why) {
				t.Errorf("%s is left, postponed by %q", url, r.Why)
			}
		}
		if len(last.Postponed) == 0 {
			t.Error("no Progress has told of postponed URLs")
		}
		if line := s.String(); !strings.Contains(line, " postponed (") || !strings.Contains(line, "parameter filter_") {
			t.Errorf("the summary is %q", line)
		}
	})
}

// TestTrapsLeftFollowsCopies: a page that is linked from a copy of another one alone isn't left.
func TestTrapsLeftFollowsCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.crawl.Follow = crawl.SameHost
		r.crawl.Traps = crawl.TrapsLeft
		site := r.Site("https://example.com")
		site.Handle("/", page("<p>Contents<a href=/print>x</a>"))
		site.Handle("/print", page("<p>Contents<a href=/chapter>x</a>"))
		site.Handle("/chapter", page("<p>A chapter"))
		s := r.run(t.Context(), t, "https://example.com/")
		if s.Visited() != 3 || s.Stopped != nil {
			t.Errorf("%s: %v", r.urls(), s)
		}
	})
}

// isFilter reports whether a reason is about the filters.
func isFilter(reason string) bool {
	for _, part := range []string{"parameter filter_", "the order of parameters", "linked from a page without anything new"} {
		if strings.Contains(reason, part) {
			return true
		}
	}
	return false
}

// TestTrapsLeft: a crawl that leaves what is postponed ends with the real pages.
func TestTrapsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrapped()
		w.rig.crawl.Traps = crawl.TrapsLeft
		s := w.rig.run(t.Context(), t, "https://example.com/")
		if n := s.Visited(); n != shopItems+1 {
			t.Errorf("%d pages were visited: %q", n, w.got)
		}
		if s.Outcomes[crawl.Left] != filters || s.Stopped == nil || !strings.Contains(s.Stopped.Error(), "postponed") {
			t.Errorf("%v", s)
		}
	})
}

// TestNothingIsLostToTraps: a site whose URLs look like a trap, and end, is had whole.
func TestNothingIsLostToTraps(t *testing.T) {
	for name, how := range map[string]crawl.Traps{"last": crawl.TrapsLast, "ignored": crawl.TrapsIgnored} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const values = 300
				r := newRig()
				r.crawl.Follow = crawl.SameHost
				r.crawl.Traps = how
				r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/html")
					for i := range values {
						fmt.Fprintf(w, "<a href=/?a=%d>x</a><a href=/?b=%d&amp;c=%d>y</a><a href=/p/%d/>z</a>", i, i, i%7, i)
					}
				}))
				s := r.run(t.Context(), t, "https://example.com/")
				want := map[crawl.Outcome]int{crawl.Visited: 3*values + 1, crawl.Duplicate: 3*values*(3*values+1) - 3*values}
				wantOutcomes(t, s, want)
				if s.Postponed != nil || s.Stopped != nil {
					t.Errorf("postponed at the end: %v, stopped: %v", s.Postponed, s.Stopped)
				}
			})
		})
	}
}

// TestTrapsPostponeNothingThatWasGiven: start URLs, those of Discover and of Page.Add keep their turns,
// and Priority goes before levels.
func TestTrapsPostponeNothingThatWasGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 20
		w := newTrapped()
		start := []string{"https://example.com/"}
		for i := range each {
			start = append(start, fmt.Sprintf("https://example.com/?filter_a=%d", i+10))
		}
		w.rig.crawl.Discover = func(context.Context, string) iter.Seq[crawl.Request] {
			return func(yield func(crawl.Request) bool) {
				for i := range each {
					if !yield(crawl.Request{URL: fmt.Sprintf("https://example.com/?filter_b=%d", i+10)}) {
						return
					}
				}
			}
		}
		w.rig.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			if p.FinalURL == start[0] {
				for i := range each {
					p.Add(fmt.Sprintf("/?filter_c=%d", i+10))
				}
			}
			return nil
		}
		w.rig.crawl.Take = func(_ *crawl.Page, l crawl.Link, r *crawl.Request) bool {
			if l.URL == start[0]+"?filter_d=1" {
				r.Priority = 1
			}
			return true
		}
		w.rig.crawl.MaxPages = 1 + 3*each + shopItems + filters
		w.rig.run(t.Context(), t, start...)
		number := map[string]int{}
		for _, url := range w.got {
			for _, name := range []string{"filter_a", "filter_b", "filter_c", "filter_d"} {
				if strings.HasPrefix(url, "/?"+name) {
					number[name]++
				}
			}
		}
		if number["filter_a"] < each || number["filter_b"] < each || number["filter_c"] < each || number["filter_d"] < 1 {
			t.Errorf("asked for: %v of %q", number, w.got)
		}
	})
}

// TestTrapsLearnFromAnswers: redirects, refusals and pages that haven't changed teach nothing; a page
// that isn't there, says noindex, or names another one brings nothing new.
func TestTrapsLearnFromAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		answer    http.HandlerFunc
		postpones bool
	}{
		"redirects":  {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/same", http.StatusFound) }, false},
		"not found":  {http.NotFound, true},
		"unchanged":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, false},
		"refusals":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, false},
		"new pages":  {ownPage(""), false},
		"noindex":    {ownPage("<meta name=robots content=noindex>"), true},
		"canonical":  {ownPage("<link rel=canonical href=/other>"), true},
		"itself":     {ownPage("<link rel=canonical href=?>"), false},
		"a clock":    {clocked(), true},
		"other data": {func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "{%q: 1}", r.URL.Path) }, false},
		"same data":  {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"a": 1}`) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.crawl.Follow = crawl.SameHost
				r.crawl.MaxPages = 40
				r.crawl.Tries = 2
				r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if req.URL.Path != "/" {
						tt.answer(w, req)
						return
					}
					var b strings.Builder
					for i := range 200 {
						fmt.Fprintf(&b, "<a href=/list/%s/show>x</a>", letter(fmt.Sprint(i)))
					}
					page(b.String())(w, req)
				}))
				postponed := 0
				r.crawl.Done = func(r crawl.Result) {
					if r.Later > 0 {
						postponed++
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 200_000_000_000)
				defer cancel()
				s := r.run(ctx, t, "https://example.com/")
				if (postponed > 20) != tt.postpones {
					t.Errorf("%d URLs were postponed, %v; %v", postponed, s.Postponed, s)
				}
			})
		})
	}
}

// clocked answers each path with one page, which has a clock and a counter.
func clocked() http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		visitor := n.Add(1)
		page(fmt.Sprintf("<p>List<p>It is 12:%02d:07<p>You are visitor %d of today", visitor%60, 7*visitor))(w, r)
	}
}

// ownPage answers each path with a page of its own, which begins with the given text.
func ownPage(begins string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page(begins+"<p>All about "+r.URL.Path)(w, r)
	}
}

// TestTrapsAreOneOfThree: any other value is a mistake.
func TestTrapsAreOneOfThree(t *testing.T) {
	visit := func(context.Context, *crawl.Page) error { return nil }
	_, err := crawl.New(crawl.Config{UserAgent: userAgent, Visit: visit, Traps: 3})
	if err == nil || !strings.Contains(err.Error(), "Config.Traps") {
		t.Errorf("Traps of 3: %v", err)
	}
}
