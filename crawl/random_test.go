package crawl_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/soak"
	"github.com/go-politeness/politeness/politenesstest"
)

// A randomWeb is a web of hosts that link to one another, and fail in all ways that end.
type randomWeb struct {
	rig    *rig
	rnd    *rand.Rand
	hosts  []string
	pages  int                      // of a host
	links  map[string][]string      // of each page, in its script: what it links to, or redirects to
	shut   map[string]bool          // hosts whose robots.txt can't be had
	barred map[string]bool          // hosts whose robots.txt disallows /private
	delay  map[string]time.Duration // that their robots.txt asks for
}

func newRandomWeb(seed uint64) *randomWeb {
	w := &randomWeb{
		rig: newRig(), rnd: rand.New(rand.NewPCG(seed, 3)), links: map[string][]string{},
		shut: map[string]bool{}, barred: map[string]bool{}, delay: map[string]time.Duration{},
	}
	w.pages = 1 + w.rnd.IntN(30)
	for i := range 1 + w.rnd.IntN(10) {
		w.hosts = append(w.hosts, fmt.Sprintf("http://h%d.example", i))
	}
	r := w.rig
	r.politeness.Hosts = hostlimit.Config{
		Delay:       hostlimit.Delay{Min: w.span(50*time.Millisecond, time.Second), Adaptive: hostlimit.Fixed},
		Concurrency: 1 + w.rnd.IntN(3),
	}
	if w.chance(30) {
		r.politeness.Hosts.MaxInFlight = 1 + w.rnd.IntN(10)
	}
	r.crawl.Workers = 1 + w.rnd.IntN(8)
	for _, host := range w.hosts {
		w.script(host)
	}
	return w
}

func (w *randomWeb) chance(percent int) bool { return w.rnd.IntN(100) < percent }

func (w *randomWeb) span(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rnd.Int64N(int64(most-least)+1))
}

// script says what a host answers.
func (w *randomWeb) script(host string) {
	site := w.rig.Site(host)
	if w.chance(70) {
		site.Latency(w.span(0, 2*time.Second))
	}
	switch {
	case w.chance(10):
		site.RobotsStatus(http.StatusServiceUnavailable)
		w.shut[host] = true
	case w.chance(30):
		seconds := w.rnd.IntN(5)
		site.Robots(fmt.Sprintf("User-agent: *\nDisallow: /private\nCrawl-delay: %d\n", seconds))
		w.barred[host], w.delay[host] = true, time.Duration(seconds)*time.Second
	}
	if w.chance(25) {
		time.AfterFunc(w.span(0, 30*time.Second), func() { site.Storm(30 * time.Second) })
	}
	for n := range w.pages {
		for _, path := range []string{fmt.Sprintf("/%d", n), fmt.Sprintf("/private/%d", n)} {
			site.Handle(path, w.page(host, path))
		}
	}
}

// page is what a path answers.
func (w *randomWeb) page(host, path string) http.Handler {
	var links []string
	for range w.rnd.IntN(6) {
		links = append(links, w.somewhere(host))
	}
	var b strings.Builder
	for _, link := range links {
		fmt.Fprintf(&b, "<a href=%q>a link</a>\n", link)
	}
	fmt.Fprintf(&b, "<p>%s", inLetters(path)) // no two pages say the same
	html := page(b.String())
	switch w.rnd.IntN(20) {
	case 0:
		return politenesstest.Status(http.StatusNotFound)
	case 1:
		return politenesstest.Drop()
	case 2:
		to := w.somewhere(host)
		w.links[host+path] = []string{to}
		return http.RedirectHandler(to, http.StatusFound)
	case 3:
		w.links[host+path] = links
		return politenesstest.InTurn(politenesstest.Status(http.StatusServiceUnavailable, "Retry-After", "7"), html)
	case 5:
		return politenesstest.Slow(w.span(0, 20*time.Second), politenesstest.Status(http.StatusInternalServerError))
	case 6:
		return politenesstest.Status(http.StatusForbidden)
	case 4:
		return politenesstest.Drip("slow, but it ends\n", 20, 200*time.Millisecond)
	}
	w.links[host+path] = links
	return html
}

// somewhere is the URL of a page, mostly of the same host.
func (w *randomWeb) somewhere(host string) string {
	if w.chance(30) {
		host = w.hosts[w.rnd.IntN(len(w.hosts))]
	}
	dir := "/"
	if w.chance(10) {
		dir = "/private/"
	}
	return fmt.Sprint(host, dir, w.rnd.IntN(w.pages))
}

// forbidden reports whether a URL isn't to be asked for.
func (w *randomWeb) forbidden(link string) bool {
	host := hostOf(link)
	return w.shut[host] || w.barred[host] && strings.HasPrefix(link, host+"/private")
}

// hostOf returns the part of a URL that stands in randomWeb.hosts.
func hostOf(link string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(link, "http://"), "/")
	return "http://" + host
}

// TestRandomWebs are crawled wholly and politely: by what their sites have seen, each page that an
// answer has led to is asked for, and answered once; what is forbidden isn't; no host waits for
// another; and each URL has one outcome.
func TestRandomWebs(t *testing.T) {
	for seed := range soak.Seeds(t, 40, 150) {
		synctest.Test(t, func(t *testing.T) {
			w := newRandomWeb(seed)
			var followed atomic.Int64
			w.rig.crawl.Follow = func(_ *crawl.Page, l crawl.Link) bool {
				if l.Element != "redirect" {
					followed.Add(1)
				}
				return true
			}
			var starts []string
			for range 1 + w.rnd.IntN(5) {
				starts = append(starts, w.somewhere(w.hosts[0]))
			}
			s := w.rig.run(t.Context(), t, starts...)
			w.judge(t, starts)
			total := 0
			for _, n := range s.Outcomes {
				total += n
			}
			if want := len(starts) + int(followed.Load()) + s.Outcomes[crawl.Redirected]; total != want || s.Stopped != nil {
				t.Errorf("%d outcomes of %d URLs: %v", total, want, s)
			}
			if visits := len(w.rig.visited); visits < s.Visited() || visits > s.Visited()+s.Outcomes[crawl.Refused] {
				t.Errorf("%d visits: %v", visits, s)
			}
			limits := w.rig.politeness.Hosts
			w.rig.Check(t, politenesstest.Rules{
				Delay: limits.Delay.Min, Concurrency: limits.Concurrency,
			})
		})
	}
}

// judge looks at what the sites have seen.
func (w *randomWeb) judge(t *testing.T, starts []string) {
	known := map[string]time.Time{} // since when
	answers := map[string]int{}
	refused := map[string]int{} // by host
	asked := map[string]bool{}
	heard := map[string]time.Time{} // last answer, by host
	silent := map[string]bool{}     // hosts whose last request had no answer
	// Redirects in a row may be a wall, so they are followed when their host has said something else.
	redirects := map[string][]string{} // URLs by host
	know := func(host string, urls []string, since time.Time) {
		for _, url := range urls {
			for _, link := range w.links[url] {
				if _, ok := known[link]; !ok {
					known[link] = since
				}
			}
		}
		delete(redirects, host)
	}
	requests := w.rig.Requests()
	for _, link := range starts {
		known[link] = requests[0].Start
	}
	for _, r := range slices.SortedFunc(slices.Values(requests), func(a, b politenesstest.Request) int { return a.End.Compare(b.End) }) {
		asked[r.URL] = true
		host := hostOf(r.URL)
		if silent[host] = r.Status == 0; !silent[host] {
			heard[host] = r.End
		}
		if r.Status != http.StatusFound {
			know(host, redirects[host], r.End)
		}
		if r.Status == 0 || r.Status == 403 || r.Status == 429 || r.Status >= 500 {
			refused[host]++
			continue
		}
		answers[r.URL]++
		if r.Status == http.StatusFound {
			redirects[host] = append(redirects[host], r.URL)
			continue
		}
		for _, link := range w.links[r.URL] {
			if _, ok := known[link]; !ok {
				known[link] = r.End
			}
		}
	}
	for host, urls := range redirects {
		know(host, urls, requests[len(requests)-1].End)
	}
	w.idle(t, known)
	again := map[string]int{} // answers thrown away, by host: they tell a page that is refused from its host
	for link, n := range answers {
		if n > 1 && !strings.HasSuffix(link, "/robots.txt") {
			again[hostOf(link)] += n - 1
		}
	}
	for host, n := range again {
		if n > refused[host] {
			t.Errorf("%s: %d pages were answered again, with %d refusals", host, n, refused[host])
		}
	}
	for _, link := range slices.Sorted(maps.Keys(known)) {
		host := hostOf(link)
		givenUp := silent[host] && time.Since(heard[host]) > 15*time.Minute
		if asked[link] == w.forbidden(link) && (asked[link] || !givenUp) {
			t.Errorf("%s: asked for %v, forbidden %v", link, asked[link], w.forbidden(link))
		}
	}
}

// idle fails t where a host wasn't asked although it might have been. Where hosts wait for one
// another's connections, and of one that has failed, it is only known that it isn't forgotten: a
// robots.txt that couldn't be had is asked for again after five minutes, and a 500 to the request
// that asks again after a 429 is a refusal, which blocks for ten minutes at most.
func (w *randomWeb) idle(t *testing.T, known map[string]time.Time) {
	limits := w.rig.politeness.Hosts
	for _, host := range w.hosts {
		lenient := 6 * time.Minute
		var allowed time.Duration
		if limits.MaxInFlight > 0 {
			allowed = lenient
		}
		served, waiting := map[string]bool{}, map[string]time.Time{}
		for link, at := range known {
			if strings.HasPrefix(link, host+"/") && !w.forbidden(link) {
				waiting[link] = at
			}
		}
		var free, block time.Time // when the next one may start, and for all that the last refusals say
		var refused string        // page that the first one after the block should be, to tell
		var ends []time.Time      // of what is in flight
		for _, r := range w.rig.Requests() {
			if !strings.HasPrefix(r.URL, host+"/") {
				continue
			}
			if len(waiting) > 0 {
				since := slices.MinFunc(slices.Collect(maps.Values(waiting)), time.Time.Compare)
				if late := r.Start.Sub(latest(since, latest(free, block))); late > allowed {
					t.Errorf("%v came %v later than it might have", r, late)
				}
				ends = slices.DeleteFunc(ends, func(at time.Time) bool { return !at.After(since) })
			}
			delete(waiting, r.URL)
			free = r.Start.Add(max(limits.Delay.Min, w.delay[host]))
			// robots.txt, and the first page after a refusal, tell whether others may be asked for.
			isRobots := strings.HasSuffix(r.URL, "/robots.txt")
			if (isRobots || !block.IsZero()) && !r.Start.Before(block) {
				free, block = latest(free, r.End), time.Time{}
				if refused != "" && refused != r.URL && !isRobots { // it was to start at the instant of the refusal
					block, refused = r.End, ""
				}
			}
			if r.Status == 429 || r.Status == 503 {
				lenient = 11 * time.Minute
			}
			switch {
			case r.Status == 0, r.Status == 403, r.Status == 500, isRobots && r.Status >= 429:
				allowed = lenient
			case r.Status == 429, r.Status == 503:
				seconds, err := strconv.Atoi(r.Response.Get("Retry-After"))
				if err != nil {
					t.Fatal(err)
				}
				block = latest(block, r.Answered.Add(time.Duration(seconds)*time.Second))
				if r.Status == 503 && refused == r.URL {
					// It may be the page's own trouble. If no other page is there to tell, it is asked for
					// again after a while.
					block = latest(block, r.End.Add(10*time.Second))
				}
				refused = r.URL
				if !served[r.URL] { // else it was asked for again to tell of others
					waiting[r.URL] = r.End
				}
			default:
				served[r.URL] = true
			}
			ends = slices.DeleteFunc(append(ends, r.End), func(at time.Time) bool { return !at.After(r.Start) })
			slices.SortFunc(ends, time.Time.Compare)
			if n := len(ends) - limits.Concurrency; n >= 0 {
				free = latest(free, ends[n])
			}
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
