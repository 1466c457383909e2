package crawl

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/revisit"
)

// A hasty is a Queue by a clock that is ahead.
type hasty struct {
	*memory

	by    time.Duration
	calls int
}

func (q *hasty) Take(ctx context.Context, hosts []string, n int) ([]Request, error) {
	q.calls++
	return q.memory.Take(ctx, hosts, n)
}

func (q *hasty) Done(ctx context.Context, results []Result) error {
	ahead := slices.Clone(results)
	for i := range ahead {
		if !ahead[i].Again.IsZero() {
			ahead[i].Again = ahead[i].Again.Add(-q.by)
		}
	}
	return q.memory.Done(ctx, ahead)
}

// TestAQueueByAnotherClock lends pages early. No page is fetched within Min, and the Queue isn't asked
// for the same ones again and again until then.
func TestAQueueByAnotherClock(t *testing.T) {
	for _, by := range []time.Duration{3 * time.Second, 30 * time.Minute} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { watchAhead(t, by) })
		})
	}
}

func watchAhead(t *testing.T, by time.Duration) {
	const hours = 6
	web := politenesstest.NewWeb()
	site := web.Site("https://example.com")
	last := map[string]time.Time{}
	visits := 0
	var urls []string
	for i := range 5 {
		path := fmt.Sprintf("/%d", i)
		urls = append(urls, "https://example.com"+path)
		site.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			visits++
			if past := time.Since(last[path]); past < time.Hour {
				t.Errorf("%s is fetched again after %v", path, past)
			}
			last[path] = time.Now()
			fmt.Fprintf(w, "the text of %s", path)
		}))
	}
	polite, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (bot@example.com)", Base: web,
		Hosts: hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Second}},
	})
	if err != nil {
		t.Fatal(err)
	}
	q := &hasty{memory: newMemory(100), by: by}
	ctx, cancel := context.WithTimeout(t.Context(), hours*time.Hour)
	defer cancel()
	_, err = Run(ctx, Config{
		Transport: polite,
		Queue:     q,
		Revisit:   revisit.Schedule{Min: time.Hour, Max: time.Hour},
		Watch:     -1,
		Visit:     func(context.Context, *Page) error { return nil },
	}, urls...)
	if err != nil {
		t.Fatal(err)
	}
	if visits < (hours-1)*len(urls) {
		t.Errorf("%d visits in %d hours", visits, hours)
	}
	if q.calls > 1000 {
		t.Errorf("the Queue was asked for URLs %d times", q.calls)
	}
	t.Logf("%d visits, %d calls of Take", visits, q.calls)
}
