package crawl_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
)

// A countingStore is a store that counts its URLs.
type countingStore struct{ *store }

func (s countingStore) Waiting(context.Context) (n int, err error) {
	defer s.enter(1)()
	for _, is := range s.states {
		if is != done {
			n++
		}
	}
	return n, s.err
}

// article returns a text that isn't like the others: a row of pages that are alike isn't counted at
// once.
func article(n int) string {
	var text strings.Builder
	for range 20 {
		n = n*7919 + 17
		fmt.Fprintf(&text, "%c%c%c%c ", 'a'+n%26, 'a'+n/26%26, 'a'+n/676%26, 'a'+n/17576%26)
	}
	return text.String()
}

// TestStatusShowsTheCrawl: while a crawl runs, the Status of its Transport has the pages, the pages
// a minute, and the URLs that are left. So it is with a Queue that counts its URLs. Of another Queue
// the number isn't known. Afterwards the Status has how the crawl ended.
func TestStatusShowsTheCrawl(t *testing.T) {
	const pages = 1000
	for name, queue := range map[string]crawl.Queue{
		"memory": nil, "a Queue": newStore(), "a Queue that counts": countingStore{newStore()},
	} {
		synctest.Test(t, func(t *testing.T) {
			var links strings.Builder
			r := newRig()
			site := r.Site("https://example.com")
			for i := range pages {
				fmt.Fprintf(&links, `<a href="/%d">page</a>`, i)
				site.Handle(fmt.Sprintf("/%d", i), page(article(i)))
			}
			site.Handle("/", page(links.String()))
			r.crawl.Queue = queue
			r.crawl.Follow = crawl.SameHost
			r.crawl.Visit = func(context.Context, *crawl.Page) error { return nil }
			tr := mustTransport(t, r.politeness)
			r.crawl.Transport = tr
			if got := tr.Status(t.Context()).Crawls; got != nil {
				t.Errorf("%s: before the crawl: %+v", name, got)
			}
			ended := make(chan crawl.Summary)
			go func() {
				summary, err := crawl.Run(t.Context(), r.crawl, "https://example.com/")
				if err != nil {
					t.Error(err)
				}
				ended <- summary
			}()
			time.Sleep(80500 * time.Millisecond)
			all := tr.Status(t.Context()).Crawls
			if len(all) != 1 {
				t.Fatalf("%s: %d crawls", name, len(all))
			}
			s := all[0]
			// The count may be a second older than the rest.
			wantLeft := pages + 1 - s.Visited
			isLeft := s.Left >= wantLeft-2 && s.Left <= wantLeft+12
			if name == "a Queue" {
				isLeft = s.Left == -1
			}
			if s.Visited < 780 || s.Visited > 801 || s.PerMinute < 590 || s.PerMinute > 610 || !isLeft || !s.Ended.IsZero() {
				t.Errorf("%s: after 80 s: %+v, want %d left", name, s, wantLeft)
			}
			summary := <-ended
			s = tr.Status(t.Context()).Crawls[0]
			if s.Visited != summary.Visited() || s.Left != 0 || s.Ended.IsZero() || s.Outcomes["visited"] != pages+1 {
				t.Errorf("%s: at the end: %+v", name, s)
			}
		})
	}
}

// TestStatusShowsEachCrawlOfATransport: two crawls at a time are two, and a crawl that has ended
// gives way to one that runs.
func TestStatusShowsEachCrawlOfATransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		tr := mustTransport(t, r.politeness)
		r.crawl.Transport = tr
		r.crawl.Follow = crawl.SameHost
		r.crawl.Visit = func(context.Context, *crawl.Page) error { return nil }
		ended := make(chan error)
		for i, n := range []int{20, 100} {
			host := fmt.Sprintf("https://h%d.example", i)
			var links strings.Builder
			for p := range n {
				fmt.Fprintf(&links, `<a href="/%d">page</a>`, p)
				r.Site(host).Handle(fmt.Sprintf("/%d", p), page(article(p)))
			}
			r.Site(host).Handle("/", page(links.String()))
			go func() {
				_, err := crawl.Run(t.Context(), r.crawl, host+"/")
				ended <- err
			}()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(1500 * time.Millisecond)
		both := tr.Status(t.Context()).Crawls
		if len(both) != 2 || both[0].Began.After(both[1].Began) {
			t.Errorf("two crawls: %+v", both)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if one := tr.Status(t.Context()).Crawls; len(one) != 1 || !one[0].Ended.IsZero() {
			t.Errorf("the first has ended: %+v", one)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if one := tr.Status(t.Context()).Crawls; len(one) != 1 || one[0].Ended.IsZero() || one[0].Visited != 101 {
			t.Errorf("both have ended: %+v", one)
		}
	})
}
