package sqlitequeue_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
	"github.com/go-politeness/politeness/hostlimit"
)

// A shop has pages, and filters that show nothing new.
type shop struct {
	mu       sync.Mutex
	requests map[string]int
	order    []string
}

const (
	items  = 40
	values = 14 // of each of two filters
)

func (s *shop) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.requests[req.URL.RequestURI()]++
	s.order = append(s.order, req.URL.RequestURI())
	s.mu.Unlock()
	var body strings.Builder
	body.WriteString("<p>Shop")
	item, isItem := strings.CutPrefix(req.URL.Path, "/item/")
	if isItem {
		name := strings.Map(func(r rune) rune { return r - '0' + 'a' }, item) // in lines all digits are one
		fmt.Fprintf(&body, "<p>All about %s", name)
	} else {
		for i := range items {
			fmt.Fprintf(&body, "<a href=/item/%d>x</a>", i)
		}
		for i := range values * values {
			fmt.Fprintf(&body, `<a href="/?color=%d&amp;size=%d">y</a>`, i%values, i/values)
		}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader(body.String())),
	}, nil
}

// A dying queue is that of a process which is killed at one of its calls: neither this call nor a
// later one reaches the file.
type dying struct {
	*sqlitequeue.Queue
	calls int // left
}

var errKilled = errors.New("killed")

func (d *dying) dies() bool {
	d.calls--
	return d.calls < 0
}

func (d *dying) Add(ctx context.Context, reqs []crawl.Request) (added, noRoom int, err error) {
	if d.dies() {
		return 0, 0, errKilled
	}
	return d.Queue.Add(ctx, reqs)
}

func (d *dying) Done(ctx context.Context, results []crawl.Result) error {
	if d.dies() {
		return errKilled
	}
	return d.Queue.Done(ctx, results)
}

func (d *dying) Take(ctx context.Context, hosts []string, n int) ([]crawl.Request, error) {
	if d.dies() {
		return nil, errKilled
	}
	return d.Queue.Take(ctx, hosts, n)
}

func (d *dying) TakeLater(ctx context.Context, host string, least, n int) ([]crawl.Request, error) {
	if d.dies() {
		return nil, errKilled
	}
	return d.Queue.TakeLater(ctx, host, least, n)
}

func (d *dying) Lift(ctx context.Context, host string, mark uint32, later int) (more bool, err error) {
	if d.dies() {
		return false, errKilled
	}
	return d.Queue.Lift(ctx, host, mark, later)
}

func (d *dying) Hosts(ctx context.Context, n int) (hosts []string, open bool, err error) {
	if d.dies() {
		return nil, false, errKilled
	}
	return d.Queue.Hosts(ctx, n)
}

func (d *dying) Postponed(ctx context.Context, n int) (largest []crawl.PostponedGroup, all int, err error) {
	if d.dies() {
		return nil, 0, errKilled
	}
	return d.Queue.Postponed(ctx, n)
}

// TestRealPagesGoFirst: the pages of a shop come before nearly all of its filters, with the URLs in a
// file as well.
func TestRealPagesGoFirst(t *testing.T) {
	q, err := sqlitequeue.Open(filepath.Join(t.TempDir(), "urls.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	site := &shop{requests: make(map[string]int)}
	if err := crawlShop(t, site, q); err != nil {
		t.Fatal(err)
	}
	others := 0
	for _, path := range site.order[:items*5/4] {
		if !strings.HasPrefix(path, "/item/") {
			others++
		}
	}
	if others > items/4 || len(site.requests) != 2+items+values*values {
		t.Errorf("%d of the first %d requests weren't for items; %d URLs were asked for: %q",
			others, items*5/4, len(site.requests), site.order[:items*5/4])
	}
}

// TestAHundredKillsKeepLevels: a crawl of a site with a trap that is killed a hundred times loses no
// URL, postpones in the next process what it had postponed, and asks for real pages first.
func TestAHundredKillsKeepLevels(t *testing.T) {
	const seed = 62
	random := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "urls.db")
	site := &shop{requests: make(map[string]int)}
	kills := 0
	isOver := false
	for !isOver {
		q, err := sqlitequeue.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		d := &dying{Queue: q, calls: 1 << 30}
		if kills < 100 {
			d.calls = 3 + random.IntN(6)
		}
		err = crawlShop(t, site, d)
		switch {
		case errors.Is(err, errKilled):
			kills++
		case err != nil:
			t.Fatal(err)
		default:
			isOver = true
		}
		_, before, err := q.Postponed(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		q, err = sqlitequeue.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		_, after, err := q.Postponed(t.Context(), 1)
		if err != nil || after != before {
			t.Errorf("%d URLs were postponed before kill %d, and %d after it (%v)", before, kills, after, err)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
	all := 0
	for _, n := range site.requests {
		all += n
	}
	const urls = 1 + items + values*values + 1 // with robots.txt
	if len(site.requests) != urls {
		t.Errorf("%d of %d URLs were asked for, after %d kills of seed %d", len(site.requests), urls, kills, seed)
	}
	t.Logf("%d kills: %d requests for %d URLs", kills, all, urls)
}

// crawlShop crawls the shop until the Queue dies. Then it returns errKilled.
func crawlShop(t *testing.T, site *shop, q crawl.Queue) error {
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

// TestALargeLiftGoesInSteps: a call writes some thousand URLs at most, and the last one says that all
// came forward.
func TestALargeLiftGoesInSteps(t *testing.T) {
	const (
		number = 4500
		mark   = 7
	)
	q, err := sqlitequeue.Open(filepath.Join(t.TempDir(), "urls.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var reqs []crawl.Request
	for i := range number {
		reqs = append(reqs, crawl.Request{
			URL: fmt.Sprintf("https://a.example/%d", i), Host: "a.example", Later: 1 + i%3, Mark: mark,
		})
	}
	if _, _, err := q.Add(t.Context(), reqs); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{2500, 500, 0, 0} {
		more, err := q.Lift(t.Context(), "a.example", mark, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, left, err := q.Postponed(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if left != want || more != (left > 0) {
			t.Errorf("%d URLs are still postponed, want %d; Lift says that there are more: %v", left, want, more)
		}
	}
}
