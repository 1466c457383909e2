package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/crawl"
)

// TestDiscoverHandsURLsOverAsItReads: however long the list is, little of it is on its way to the
// Queue, which gets it in its order and before the URL of the call is done.
func TestDiscoverHandsURLsOverAsItReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 50_000
		r := newRig()
		r.Site("https://a.example").Handle("/", page(""))
		q := &slowStore{store: newStore()}
		r.crawl.Queue = q
		r.crawl.MaxPages = 10
		yielded := 0
		r.crawl.Discover = func(context.Context, string) iter.Seq[crawl.Request] {
			return func(yield func(crawl.Request) bool) {
				for yielded < many && yield(crawl.Request{URL: fmt.Sprintf("https://a.example/%05d", yielded)}) {
					yielded++
					q.mu.Lock()
					waiting := yielded - len(q.added)
					q.mu.Unlock()
					if waiting > 3000 {
						t.Errorf("%d URLs are on their way", waiting)
						return
					}
				}
			}
		}
		r.run(t.Context(), t, "https://a.example/")
		if yielded != many || len(q.added) != many || !slices.IsSorted(q.added) || q.early {
			t.Errorf("yielded %d, added %d, sorted %v, done early %v", yielded, len(q.added), slices.IsSorted(q.added), q.early)
		}
	})
}

// A slowStore takes 10 ms for each call of Add.
type slowStore struct {
	*store
	mu    sync.Mutex
	added []string // in their order, those of numbers
	early bool     // the URL of the call of Discover was done before all were added
}

func (q *slowStore) Add(ctx context.Context, reqs []crawl.Request) (int, int, error) {
	time.Sleep(10 * time.Millisecond)
	added, noRoom, err := q.store.Add(ctx, reqs)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range reqs {
		if r.URL != "https://a.example/" {
			q.added = append(q.added, r.URL)
		}
	}
	return added, noRoom, err
}

func (q *slowStore) Done(ctx context.Context, results []crawl.Result) error {
	q.mu.Lock()
	for _, res := range results {
		if res.URL == "https://a.example/" && len(q.added) < 50_000 {
			q.early = true
		}
	}
	q.mu.Unlock()
	return q.store.Done(ctx, results)
}

// TestWhatDiscoverYieldedBeforeAPanicCounts, and a nil sequence has nothing.
func TestWhatDiscoverYieldedBeforeAPanicCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		for _, site := range []string{"https://a.example", "https://b.example"} {
			r.Site(site).Handle("/", page("")).Handle("/one", page("")).Handle("/two", page(""))
		}
		r.crawl.Discover = func(_ context.Context, url string) iter.Seq[crawl.Request] {
			if strings.HasPrefix(url, "https://b.") {
				return nil
			}
			return func(yield func(crawl.Request) bool) {
				yield(crawl.Request{URL: "https://a.example/one"})
				yield(crawl.Request{URL: "https://a.example/two"})
				panic("no third one")
			}
		}
		s := r.run(t.Context(), t, "https://a.example/", "https://b.example/")
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.Visited: 4})
	})
}

// TestTheEndOfACrawlEndsTheLoopOfDiscover: a list without an end ends with the crawl's context.
func TestTheEndOfACrawlEndsTheLoopOfDiscover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://a.example").Handle("/", page(""))
		ended := false
		r.crawl.Discover = func(context.Context, string) iter.Seq[crawl.Request] {
			return func(yield func(crawl.Request) bool) {
				for i := 0; yield(crawl.Request{URL: fmt.Sprintf("https://a.example/%d", i)}); i++ {
					time.Sleep(time.Millisecond)
				}
				ended = true
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		r.run(ctx, t, "https://a.example/")
		if took := time.Since(began); !ended || took > 20*time.Second {
			t.Errorf("ended %v after %v", ended, took)
		}
	})
}

// A failingStore fails from its third Add on.
type failingStore struct {
	*store
	adds int
}

func (q *failingStore) Add(ctx context.Context, reqs []crawl.Request) (int, int, error) {
	q.adds++
	if q.adds > 2 {
		return 0, 0, errors.New("the disk is full")
	}
	return q.store.Add(ctx, reqs)
}

// TestACrawlThatHasStoppedEndsTheLoopOfDiscover: nothing that it yields would be fetched, and a list
// without an end would keep the crawl for ever.
func TestACrawlThatHasStoppedEndsTheLoopOfDiscover(t *testing.T) {
	for name, stop := range map[string]func(r *rig){
		"as its Queue has failed": func(r *rig) { r.crawl.Queue = &failingStore{store: newStore()} },
		"as its budget is spent":  func(r *rig) { r.politeness.Spend = budget.Limits{Pages: 3} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.Site("https://a.example").Handle("/", page(""))
				stop(r)
				r.crawl.Transport = mustTransport(t, r.politeness)
				r.crawl.Visit = func(context.Context, *crawl.Page) error { return nil }
				ended := false
				r.crawl.Discover = func(ctx context.Context, _ string) iter.Seq[crawl.Request] {
					return func(yield func(crawl.Request) bool) {
						for i := 0; yield(crawl.Request{URL: fmt.Sprintf("https://a.example/%d", i)}); i++ {
							time.Sleep(time.Millisecond)
						}
						ended = ctx.Err() != nil
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				s, _ := crawl.Run(ctx, r.crawl, "https://a.example/")
				if took := time.Since(began); !ended || took > time.Minute || s.Stopped == nil {
					t.Errorf("ended %t after %v, stopped: %v", ended, took, s.Stopped)
				}
			})
		})
	}
}

// TestACrawlThatHasStoppedWaitsForNoHost: the Queue has failed, and the next host has no slot for
// robots.txt.
func TestACrawlThatHasStoppedWaitsForNoHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://a.example").
			Handle("/", page(`<a href="/1">1</a>`)).
			Handle("/1", page(`<a href="/2">2</a>`)).
			Handle("/2", page(`<a href="/3">3</a>`))
		r.Site("https://b.example").Handle("/", page(""))
		r.crawl.Queue = &failingStore{store: newStore()}
		r.crawl.Follow = crawl.SameHost
		r.crawl.Transport = mustTransport(t, r.politeness)
		r.crawl.Visit = func(context.Context, *crawl.Page) error { return nil }
		for range 2 {
			lease, err := r.crawl.Transport.Limiter().Acquire(t.Context(), "b.example", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer lease.Release()
		}
		began := time.Now()
		_, err := crawl.Run(t.Context(), r.crawl, "https://a.example/", "https://b.example/")
		if took := time.Since(began); err == nil || took > 10*time.Second {
			t.Errorf("%v, after %v", err, took)
		}
	})
}
