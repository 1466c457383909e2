package sqlitequeue_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/revisit"
)

// A kept is a site of some pages that never change, and the file of those who crawl it again and again.
type kept struct {
	t    *testing.T
	web  *politenesstest.Web
	path string // of the file
	urls []string

	mu    sync.Mutex
	asked map[string][]time.Time // by path
}

func newKept(t *testing.T, pages int) *kept {
	k := &kept{
		t:     t,
		web:   politenesstest.NewWeb(),
		path:  filepath.Join(t.TempDir(), "urls.db"),
		asked: make(map[string][]time.Time),
	}
	site := k.web.Site("https://a.example")
	for i := range pages {
		path := fmt.Sprintf("/%d", i)
		site.Handle(path, http.HandlerFunc(k.serve))
		k.urls = append(k.urls, "https://a.example"+path)
	}
	return k
}

func (k *kept) serve(w http.ResponseWriter, req *http.Request) {
	k.mu.Lock()
	k.asked[req.URL.Path] = append(k.asked[req.URL.Path], time.Now())
	k.mu.Unlock()
	w.Header().Set("Etag", `"1"`)
	if req.Header.Get("If-None-Match") == `"1"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	fmt.Fprintf(w, "the text of %s", req.URL.Path)
}

// counted is a Queue that counts the calls which ask for work.
type counted struct {
	*sqlitequeue.Queue

	calls int
}

func (c *counted) Hosts(ctx context.Context, n int) ([]string, bool, error) {
	c.calls++
	return c.Queue.Hosts(ctx, n)
}

func (c *counted) Take(ctx context.Context, hosts []string, n int) ([]crawl.Request, error) {
	c.calls++
	return c.Queue.Take(ctx, hosts, n)
}

func (c *counted) Next(ctx context.Context) (time.Time, error) {
	c.calls++
	return c.Queue.Next(ctx)
}

// run crawls the pages that are due, with the delay between starts. It returns the calls of the Queue.
func (k *kept) run(ctx context.Context, delay time.Duration, s revisit.Schedule, watch time.Duration) (calls int) {
	k.t.Helper()
	polite, err := politeness.New(politeness.Config{
		UserAgent: "CronBot/1.0 (bot@example.com)",
		Base:      k.web,
		Hosts:     hostlimit.Config{Delay: hostlimit.Delay{Min: delay, Max: delay}},
	})
	if err != nil {
		k.t.Fatal(err)
	}
	q := &counted{Queue: opened(k.t, k.path)}
	defer q.Close()
	_, err = crawl.Run(ctx, crawl.Config{
		Transport: polite,
		Queue:     q,
		Revisit:   s,
		Watch:     watch,
		Visit:     func(context.Context, *crawl.Page) error { return nil },
	}, k.urls...)
	if err != nil {
		k.t.Fatal(err)
	}
	return q.calls
}

// TestAHundredRunsInAnHour ask for no page twice.
func TestAHundredRunsInAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept(t, 5)
		hourly := revisit.Schedule{Min: time.Hour, Max: time.Hour}
		began := time.Now()
		for time.Since(began) < time.Hour {
			k.run(t.Context(), 10*time.Millisecond, hourly, 0)
			time.Sleep(35 * time.Second)
		}
		for path, times := range k.asked {
			if len(times) != 1 {
				t.Errorf("%s was asked for %d times", path, len(times))
			}
		}
		k.run(t.Context(), 10*time.Millisecond, hourly, 0)
		for path, times := range k.asked {
			if len(times) != 2 {
				t.Errorf("%s was asked for %d times, also when it was due", path, len(times))
			}
		}
	})
}

// TestARunEachDay: cron starts one that takes five hours, and later ones that take minutes. With the
// times of "politeness crawl -every 1d" each asks for every page, once.
func TestARunEachDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages = 100
		k := newKept(t, pages)
		daily := revisit.Schedule{Min: 24 * time.Hour * 9 / 10, Max: 24 * time.Hour * 9 / 10}
		began := time.Now()
		for run, delay := range []time.Duration{3 * time.Minute, time.Second, 3 * time.Minute, 10 * time.Second} {
			time.Sleep(time.Until(began.Add(time.Duration(run) * 24 * time.Hour)))
			k.run(t.Context(), delay, daily, 24*time.Hour/10)
			for path, times := range k.asked {
				if len(times) != run+1 {
					t.Fatalf("after %d runs %s was asked for %d times", run+1, path, len(times))
				}
			}
		}
		for path, times := range k.asked {
			for i := 1; i < len(times); i++ {
				if gap := times[i].Sub(times[i-1]); gap < daily.Min || gap > 29*time.Hour {
					t.Errorf("%s was asked for again after %v", path, gap)
				}
			}
		}
	})
}

// TestAWatchRests: while nothing is due, nothing is asked for, and the Queue hardly. It ends at once.
func TestAWatchRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept(t, 5)
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(5*time.Hour, cancel)
		calls := k.run(ctx, time.Second, revisit.Schedule{Min: 6 * time.Hour, Max: 6 * time.Hour}, -1)
		if past := time.Since(began); past > 5*time.Hour+time.Minute {
			t.Errorf("it ended %v after it began", past)
		}
		for path, times := range k.asked {
			if len(times) != 1 {
				t.Errorf("%s was asked for %d times", path, len(times))
			}
		}
		if calls > 5*3600 {
			t.Errorf("the Queue was called %d times in five hours", calls)
		}
		t.Logf("%d calls of the Queue in five hours", calls)
	})
}

// TestWithoutDiscoverNothingButPagesComesDue: Next is the time of a page.
func TestWithoutDiscoverNothingButPagesComesDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept(t, 3)
		k.run(t.Context(), time.Second, revisit.Schedule{Min: time.Hour}, 0)
		q := opened(t, k.path)
		defer q.Close()
		next, err := q.Next(t.Context())
		if wait := time.Until(next); err != nil || wait < 12*time.Hour {
			t.Errorf("due in %v, and pages in 13 h (%v)", wait, err)
		}
	})
}

// TestAFetchByAgainIsNoHint: the user has asked for the pages early, twice in vain. What a sitemap
// says of them still counts.
func TestAFetchByAgainIsNoHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept(t, 3)
		s := revisit.Schedule{Min: time.Hour}
		k.run(t.Context(), time.Second, s, 0) // due again in 13 h
		for range 3 {
			time.Sleep(2 * time.Hour)
			q := opened(t, k.path)
			if n, err := q.Again(t.Context(), time.Now()); n < 3 || err != nil {
				t.Fatal(n, err)
			}
			q.Close()
			k.run(t.Context(), time.Second, s, 0)
		}
		for path, times := range k.asked {
			if len(times) != 4 {
				t.Fatalf("%s was asked for %d times", path, len(times))
			}
		}
		time.Sleep(2 * time.Hour)
		q := opened(t, k.path)
		defer q.Close()
		hint := crawl.Request{URL: k.urls[1], Host: "a.example", Modified: time.Now()}
		if _, _, err := q.Add(t.Context(), []crawl.Request{hint}); err != nil {
			t.Fatal(err)
		}
		got := taken(t, q, 10)
		if len(got) != 1 || got[0].URL != k.urls[1] {
			t.Errorf("hinted at %s, and lent %v", k.urls[1], got)
		}
	})
}

// TestHintsThatWereWrongAreCounted: the third one isn't heard.
func TestHintsThatWereWrongAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept(t, 3)
		s := revisit.Schedule{Min: time.Hour}
		k.run(t.Context(), time.Second, s, 0)
		for range 4 {
			time.Sleep(2 * time.Hour)
			q := opened(t, k.path)
			hint := crawl.Request{URL: k.urls[1], Host: "a.example", Modified: time.Now()}
			if _, _, err := q.Add(t.Context(), []crawl.Request{hint}); err != nil {
				t.Fatal(err)
			}
			q.Close()
			k.run(t.Context(), time.Second, s, 0)
		}
		if got := len(k.asked["/1"]); got != 3 {
			t.Errorf("fetched %d times, want once and after each of two hints", got)
		}
	})
}
