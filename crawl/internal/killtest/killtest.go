// Package killtest crawls a site with a trap by a Queue that dies, for the tests of Queues.
package killtest

import (
	"context"
	"errors"
	"testing"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/shoptest"
)

// ErrKilled is what a Queue answers after its death.
var ErrKilled = errors.New("killed")

// A Queue is that of a process which is killed at one of its calls: neither this call nor a later
// one reaches the Postponer.
type Queue struct {
	crawl.Postponer

	Calls int // left until the death
}

func (q *Queue) dies() bool {
	q.Calls--
	return q.Calls < 0
}

// Add implements [crawl.Queue].
func (q *Queue) Add(ctx context.Context, reqs []crawl.Request) (added, noRoom int, err error) {
	if q.dies() {
		return 0, 0, ErrKilled
	}
	return q.Postponer.Add(ctx, reqs)
}

// Done implements [crawl.Queue].
func (q *Queue) Done(ctx context.Context, results []crawl.Result) error {
	if q.dies() {
		return ErrKilled
	}
	return q.Postponer.Done(ctx, results)
}

// Take implements [crawl.Queue].
func (q *Queue) Take(ctx context.Context, hosts []string, n int) ([]crawl.Request, error) {
	if q.dies() {
		return nil, ErrKilled
	}
	return q.Postponer.Take(ctx, hosts, n)
}

// Hosts implements [crawl.Queue].
func (q *Queue) Hosts(ctx context.Context, n int) (hosts []string, open bool, err error) {
	if q.dies() {
		return nil, false, ErrKilled
	}
	return q.Postponer.Hosts(ctx, n)
}

// TakeLater implements [crawl.Postponer].
func (q *Queue) TakeLater(ctx context.Context, host string, least, n int) ([]crawl.Request, error) {
	if q.dies() {
		return nil, ErrKilled
	}
	return q.Postponer.TakeLater(ctx, host, least, n)
}

// Lift implements [crawl.Postponer].
func (q *Queue) Lift(ctx context.Context, host string, mark uint32, later int) (more bool, err error) {
	if q.dies() {
		return false, ErrKilled
	}
	return q.Postponer.Lift(ctx, host, mark, later)
}

// Postponed implements [crawl.Postponer].
func (q *Queue) Postponed(ctx context.Context, n int) (largest []crawl.PostponedGroup, all int, err error) {
	if q.dies() {
		return nil, 0, ErrKilled
	}
	return q.Postponer.Postponed(ctx, n)
}

// CrawlShop crawls the shop until it has been asked for each URL, or the Queue dies. Then the error
// is ErrKilled.
func CrawlShop(t *testing.T, site *shoptest.Shop, q crawl.Queue) error {
	t.Helper()
	transport, err := politeness.New(politeness.Config{
		UserAgent: "TestBot/1.0 (+https://example.com/bot)", Base: site,
		Hosts: hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}, Concurrency: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = crawl.Run(t.Context(), crawl.Config{
		Transport: transport, Queue: q, Follow: crawl.SameHost,
		Visit: func(context.Context, *crawl.Page) error { return nil },
	}, "https://shop.example/")
	return err
}
