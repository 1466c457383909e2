package crawl

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
)

// A countingMemory counts the requests that come back to it, and wait.
type countingMemory struct {
	*memory

	back int
}

func (c *countingMemory) Done(ctx context.Context, results []Result) error {
	for _, r := range results {
		if r.waits {
			c.back++
		}
	}
	return c.memory.Done(ctx, results)
}

// A flickering web has one host, of whose pages some bring something new, so that their marks fall and
// rise all the time.
type flickering struct{ links int }

func (f flickering) RoundTrip(req *http.Request) (*http.Response, error) {
	n, _ := strconv.Atoi(req.URL.Query().Get("page"))
	var b strings.Builder
	b.WriteString("<p>List")
	if n*7919%100 < 27 {
		word := strings.Map(func(r rune) rune { return r - '0' + 'a' }, strconv.Itoa(n))
		fmt.Fprintf(&b, "<p>All about %s", word)
	}
	for i := range f.links {
		fmt.Fprintf(&b, `<a href="/list?page=%d">x</a>`, n*f.links+i+1)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader(b.String())),
	}, nil
}

// TestPutBacksHaveABound: if marks fall and rise all the time, the waiting URLs don't go back and forth
// with them. The work for a page has a bound.
func TestPutBacksHaveABound(t *testing.T) {
	const pages = 2000
	transport, err := politeness.New(politeness.Config{
		UserAgent: "TestBot/1.0 (+https://example.com/bot)", Base: flickering{links: 50},
		Hosts: hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	q := &countingMemory{memory: newMemory(1 << 20)}
	s, err := Run(t.Context(), Config{
		Transport: transport, Queue: q, Follow: SameHost, MaxPages: pages,
		Visit: func(context.Context, *Page) error { return nil },
	}, "http://example.com/list?page=0")
	if err != nil {
		t.Fatal(err)
	}
	most := firstPutBacks + perTurn*s.Visited()
	t.Logf("%d URLs were put back, for %d pages", q.back, s.Visited())
	// Some come back that aren't postponed, since too many are at hand.
	if q.back > 2*most || s.Visited() != pages {
		t.Errorf("%d URLs were put back, for %d pages; want %d at most", q.back, s.Visited(), 2*most)
	}
}
