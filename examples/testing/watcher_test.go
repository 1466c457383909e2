package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/politenesstest"
)

const (
	day  = 24 * time.Hour
	week = 7 * day

	shopPages = 8
)

// polite is what the watcher promises to every site: its delay and its slots are
// the defaults of package hostlimit. What a site asks for on top is in its
// robots.txt and in its answers.
var polite = politenesstest.Rules{Delay: 200 * time.Millisecond, Concurrency: 2}

// sites scripts a web on which everything goes wrong that does, and returns the pages to watch.
func sites(web *politenesstest.Web) (pages []string) {
	add := func(origin string, paths ...string) {
		for _, p := range paths {
			pages = append(pages, origin+p)
		}
	}

	// It has many pages, and asks for five seconds between two of them.
	web.Site("https://shop.example").
		Robots("User-agent: *\nCrawl-delay: 5\n").
		Handle("/", politenesstest.Text("article")).
		Latency(120 * time.Millisecond)
	for i := range shopPages {
		add("https://shop.example", fmt.Sprintf("/%d", i))
	}

	// It has something new on the third day.
	news := web.Site("https://news.example").Page("/", "old news")
	time.AfterFunc(2*day, func() { news.Page("/", "news") })
	add("https://news.example", "/")

	// Its archive is off limits from the third day on.
	paper := web.Site("https://paper.example").
		Robots("User-agent: *\nAllow: /\n").
		Page("/archive", "older news")
	time.AfterFunc(2*day, func() { paper.Robots("User-agent: WatchBot\nDisallow: /archive\n") })
	add("https://paper.example", "/archive")

	// It drops connections, and is down for a whole night.
	flaky := web.Site("https://flaky.example").
		Handle("/", politenesstest.InTurn(politenesstest.Drop(), politenesstest.Text("at last")))
	time.AfterFunc(4*day, func() { flaky.Down(syscall.ECONNREFUSED) })
	time.AfterFunc(4*day+8*time.Hour, func() { flaky.Down(nil) })
	add("https://flaky.example", "/")

	// It is overloaded every now and then.
	web.Site("https://overloaded.example").Sequence("/", 503, 200, 503, 200)
	add("https://overloaded.example", "/")

	// It takes its time for each answer, and its feed drips.
	web.Site("https://slow.example").
		Handle("/feed", politenesstest.Drip("<p>item</p>", 20, time.Second)).
		Page("/", "slow").
		Latency(20 * time.Second)
	add("https://slow.example", "/", "/feed")

	// At noon, in the middle of a round, it has had enough for twenty minutes.
	busy := web.Site("https://busy.example").Handle("/", politenesstest.Text("busy"))
	for noon := 12 * time.Hour; noon < week; noon += day {
		time.AfterFunc(noon+100*time.Millisecond, func() { busy.Storm(20 * time.Minute) })
	}
	add("https://busy.example", "/a", "/b", "/c", "/d")

	// It has moved to where robots are not wanted.
	web.Site("http://old.example").
		Handle("/", http.RedirectHandler("https://new.example/", http.StatusMovedPermanently))
	web.Site("https://new.example").
		Robots("User-agent: *\nDisallow: /\n").
		Page("/", "new")
	add("http://old.example", "/")

	// It serves what is too large, with and without saying so.
	web.Site("https://huge.example").
		Handle("/image", politenesstest.Bytes(math.MaxInt)).
		Handle("/log", politenesstest.Drip(strings.Repeat("line\n", 1000), math.MaxInt, time.Millisecond))
	add("https://huge.example", "/image", "/log")
	return pages
}

// watch runs a watcher on transport for a while, and returns its reports.
func watch(t *testing.T, transport http.RoundTripper, pages []string, d time.Duration) map[string][]visit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	reports := make(map[string][]visit)
	w := &watcher{
		client: &http.Client{Transport: transport},
		every:  time.Hour,
		report: func(v visit) { reports[v.url] = append(reports[v.url], v) },
	}
	w.run(ctx, pages)
	return reports
}

// A week of rounds, an hour apart, over all of the sites above.
func TestWatcherIsPoliteForAWeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		pages := sites(web)
		transport, err := newTransport(web)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		reports := watch(t, transport, pages, week-time.Minute) // up to the last round, an hour before the end
		t.Logf("%d requests in %v", len(web.Requests()), time.Since(began))

		web.Check(t, polite)

		// It has been at work, too: every page of the shop, in every round.
		fetched := make(map[string]int)
		for _, r := range web.Requests() {
			if r.Status == http.StatusOK {
				fetched[r.URL]++
			}
		}
		for _, u := range pages[:shopPages] {
			if n, rounds := fetched[u], int(week/time.Hour); n != rounds {
				t.Errorf("%s was fetched %d times in %d rounds", u, n, rounds)
			}
			if len(reports[u]) != 0 {
				t.Errorf("%s never changed, but: %v", u, reports[u])
			}
		}
		if !reported(reports, "https://flaky.example/", io.EOF) || !reported(reports, "https://flaky.example/", politeness.ErrUnreachable) {
			t.Errorf("a dropped connection and a robots.txt that was down were not reported: %v", reports["https://flaky.example/"])
		}
		if r := reports["https://news.example/"]; len(r) != 1 || !r[0].changed {
			t.Errorf("the news came once, but: %v", r)
		}
		for site, want := range map[string]error{
			"https://paper.example/archive": politeness.ErrDisallowed,
			"http://old.example/":           politeness.ErrDisallowed, // refused at the hop
			"https://busy.example/":         politeness.ErrBlocked,    // whichever page came second
			"https://huge.example/image":    politeness.ErrContentType,
			"https://huge.example/log":      politeness.ErrTooLarge,
		} {
			if !reported(reports, site, want) {
				t.Errorf("%s: no report of %q in %v", site, want, reports)
			}
		}
		if n := fetched["https://new.example/"]; n != 0 {
			t.Errorf("%d fetches of what is disallowed behind a redirect", n)
		}
	})
}

// reported tells whether a visit to a URL that begins with prefix failed with err.
func reported(reports map[string][]visit, prefix string, err error) bool {
	for url, visits := range reports {
		if strings.HasPrefix(url, prefix) && slices.ContainsFunc(visits, func(v visit) bool { return errors.Is(v.err, err) }) {
			return true
		}
	}
	return false
}

// The same watcher without politeness is found out, and this is how it reads.
func TestImpoliteWatcherIsFoundOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://shop.example").
			Robots("User-agent: *\nCrawl-delay: 5\nDisallow: /admin\n").
			Handle("/", politenesstest.Text("article")).
			Handle("/limited", politenesstest.Status(429, "Retry-After", "7200")).
			Latency(time.Second)
		pages := []string{
			"https://shop.example/1", "https://shop.example/2", "https://shop.example/admin", "https://shop.example/limited",
		}
		watch(t, web, pages, 90*time.Minute)

		found := make(map[politenesstest.Kind]int)
		for _, v := range web.Violations(polite) {
			found[v.Kind]++
			t.Log(v)
		}
		for _, kind := range []politenesstest.Kind{
			politenesstest.Gap, politenesstest.Concurrency, politenesstest.Block, politenesstest.Disallowed,
		} {
			if found[kind] == 0 {
				t.Errorf("no violation of the kind %q was found", kind)
			}
		}
	})
}

// One property of one's own: a page that fails doesn't keep the others from being seen.
func TestRoundGoesOnWhenAPageFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://a.example").Handle("/", politenesstest.Drop())
		web.Site("https://b.example").Page("/", "b")
		transport, err := newTransport(web)
		if err != nil {
			t.Fatal(err)
		}
		reports := watch(t, transport, []string{"https://a.example/", "https://b.example/"}, time.Minute)
		if !reported(reports, "https://a.example/", io.EOF) {
			t.Errorf("reports of the page that fails: %v", reports["https://a.example/"])
		}
		if !slices.ContainsFunc(web.Requests(), func(r politenesstest.Request) bool { return r.URL == "https://b.example/" }) {
			t.Errorf("the other page was not fetched: %v", web.Requests())
		}
		web.Check(t, polite)
	})
}
