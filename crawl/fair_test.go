package crawl_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/soak"
)

// A crowd is a thousand hosts, h0 to h999. It is a http.RoundTripper of the fewest possible steps,
// and counts what it has answered, by second and by kind.
type crowd struct {
	kind   func(host string) string // "quick", "slow", "drip", "blocked" or "patient"
	quick  time.Duration            // what a quick host takes
	robots bool                     // every host is quick with its robots.txt
	mu     sync.Mutex
	began  time.Time
	counts map[string][60]int
	flying int
	most   int
}

func (c *crowd) RoundTrip(req *http.Request) (*http.Response, error) {
	kind := c.kind(req.URL.Host)
	resp := &http.Response{
		StatusCode: http.StatusOK, Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("page")),
	}
	robots := req.URL.Path == "/robots.txt"
	if robots {
		text := "User-agent: *\nAllow: /\n"
		if kind == "patient" {
			text += "Crawl-delay: 30\n"
		}
		resp.Body = io.NopCloser(strings.NewReader(text))
	}
	c.mu.Lock()
	c.flying++
	c.most = max(c.most, c.flying)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.flying--
	}()
	took := c.quick
	switch {
	case kind == "slow" && !(robots && c.robots):
		took = 2 * time.Second
	case kind == "drip" && !robots:
		resp.Body = &drip{ctx: req.Context()}
	case kind == "blocked" && !robots:
		resp.StatusCode = http.StatusTooManyRequests
		resp.Header.Set("Retry-After", "3600")
	}
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	if !robots {
		c.mu.Lock()
		defer c.mu.Unlock()
		counts := c.counts[kind]
		counts[min(59, int(time.Since(c.began)/time.Second))]++
		c.counts[kind] = counts
	}
	return resp, nil
}

// A drip is a body of a byte a second.
type drip struct{ ctx context.Context }

func (d *drip) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
		return copy(p, "."), nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

func (d *drip) Close() error { return nil }

// kinds makes the first hosts of a crowd of another kind: n of each.
func kinds(n map[string]int) func(host string) string {
	return func(host string) string {
		var number int
		_, _ = fmt.Sscanf(host, "h%d.example", &number)
		for _, kind := range []string{"slow", "blocked", "drip", "patient"} {
			if number < n[kind] {
				return kind
			}
			number -= n[kind]
		}
		return "quick"
	}
}

// crawlCrowd crawls a crowd for a while, in virtual time.
func crawlCrowd(t *testing.T, c *crowd, hosts, maxInFlight, pages int, d time.Duration) crawl.Summary {
	t.Helper()
	c.began, c.counts = time.Now(), make(map[string][60]int)
	transport, err := politeness.New(politeness.Config{
		UserAgent: userAgent, Base: c,
		Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: 200 * time.Millisecond, Max: 200 * time.Millisecond}, MaxInFlight: maxInFlight},
	})
	if err != nil {
		t.Fatal(err)
	}
	crawler, err := crawl.New(crawl.Config{
		Transport: transport, Grace: time.Second,
		Visit: func(context.Context, *crawl.Page) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for page := range pages {
		for host := range hosts {
			urls = append(urls, fmt.Sprintf("http://h%d.example/%d", host, page))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(d, cancel).Stop()
	summary, err := crawler.Run(ctx, urls...)
	if err != nil {
		t.Fatal(err)
	}
	return summary
}

// TestNoHostStopsTheCrawl: blocked, slow, dripping and patient hosts take nothing from the others.
// There are fewer crowds without POLITENESS_LONG=1.
func TestNoHostStopsTheCrawl(t *testing.T) {
	crowds := []struct{ hosts, slow, seconds int }{{1000, 300, 3}, {100, 30, 8}, {1000, 0, 2}, {1000, 50, 2}}
	for _, tt := range crowds[:soak.Size(2, 4, 4)] {
		t.Run(fmt.Sprintf("%d of %d slow", tt.slow, tt.hosts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &crowd{quick: 10 * time.Millisecond, kind: kinds(map[string]int{"slow": tt.slow, "blocked": 10, "drip": 1, "patient": 1})}
				crawlCrowd(t, c, tt.hosts, 0, 5*tt.seconds+1, time.Duration(tt.seconds)*time.Second)
				for second := 1; second < tt.seconds; second++ {
					possible := 5 * (tt.hosts - tt.slow - 12)
					if got := c.counts["quick"][second]; got < possible*95/100 {
						t.Errorf("second %d: %d pages of the quick hosts, of %d possible", second, got, possible)
					}
					if second%2 == 0 && second >= 6 { // two at once on each host, of 2 s, after robots.txt and a first page
						if got, possible := sum(c.counts["slow"], second, second+2), 2*tt.slow; got < possible*95/100 {
							t.Errorf("second %d: %d pages of the slow hosts in 2 s, of %d possible", second, got, possible)
						}
					}
				}
				if n := sum(c.counts["patient"], 0, tt.seconds); n != 0 {
					t.Errorf("%d pages of the host with a crawl-delay of 30 s", n)
				}
				if n := sum(c.counts["blocked"], 0, tt.seconds); n > 20 {
					t.Errorf("%d requests to 10 hosts that block", n)
				}
			})
		})
	}
}

func sum(counts [60]int, from, to int) (n int) {
	for _, c := range counts[from:to] {
		n += c
	}
	return n
}

// TestSlowHostsGetTheirShare: where connections are scarce, slow hosts hold no more of them than
// their part of the hosts, and the quick ones get most of what the others allow. There are fewer
// crowds without POLITENESS_LONG=1.
func TestSlowHostsGetTheirShare(t *testing.T) {
	const hosts, places, seconds = 250, 16, 26
	crowds := []struct {
		slow   int
		quick  time.Duration
		robots bool
	}{
		{75, 10 * time.Millisecond, true},
		{75, 100 * time.Millisecond, true},
		{12, 10 * time.Millisecond, false},
		{75, 10 * time.Millisecond, false},
		{75, time.Millisecond, true},
	}
	for _, tt := range crowds[:soak.Size(3, 5, 5)] {
		t.Run(fmt.Sprintf("%d slow, quick ones take %v, quick robots %v", tt.slow, tt.quick, tt.robots), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &crowd{quick: tt.quick, robots: tt.robots, kind: kinds(map[string]int{"slow": tt.slow})}
				crawlCrowd(t, c, hosts, places, 5*seconds+1, seconds*time.Second)
				// When all hosts are known: the first pages of 75 slow ones alone hold all places
				// for 9 s.
				const from, to = seconds - 12, seconds
				others := places - places*float64(tt.slow)/hosts
				possible := (to - from) * min(5*float64(hosts-tt.slow), others/tt.quick.Seconds())
				if got := sum(c.counts["quick"], from, to); float64(got) < 0.8*possible {
					t.Errorf("%d pages of the quick hosts, of %.0f possible", got, possible)
				}
				if tt.robots && sum(c.counts["slow"], from, to) == 0 {
					t.Error("no page of the slow hosts")
				}
				if c.most > places {
					t.Errorf("%d requests in flight", c.most)
				}
			})
		})
	}
}

// TestFullRate: a host gets what its limits allow, whatever decides its delay.
func TestFullRate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits hostlimit.Config
		robots string
		took   time.Duration // of an answer
		least  time.Duration // for 20 pages after the first
	}{
		{"delay", hostlimit.Config{Delay: hostlimit.Delay{Min: 300 * time.Millisecond}}, "", 10 * time.Millisecond, 20 * 300 * time.Millisecond},
		{"random", hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second, Max: time.Second + time.Millisecond}}, "", 10 * time.Millisecond, 20 * time.Second},
		{"crawl-delay", hostlimit.Config{}, "Crawl-delay: 1.37\n", 10 * time.Millisecond, 20 * 1370 * time.Millisecond},
		{"from the end", hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Second, FromEnd: true}}, "", 500 * time.Millisecond, 20 * 1500 * time.Millisecond},
		{"two at once", hostlimit.Config{Delay: hostlimit.Delay{Min: 100 * time.Millisecond}}, "", 2 * time.Second, 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.politeness.Hosts = tt.limits
				r.Site("https://example.com").Robots("User-agent: *\n"+tt.robots).Handle("/", page("")).Latency(tt.took)
				var times []time.Time
				r.crawl.Visit = func(context.Context, *crawl.Page) error {
					times = append(times, time.Now())
					return nil
				}
				var urls []string
				for i := range 21 {
					urls = append(urls, fmt.Sprintf("https://example.com/%d", i))
				}
				r.crawl.Workers = 1
				r.run(t.Context(), t, urls...)
				if took := times[20].Sub(times[0]); took > tt.least*102/100 {
					t.Errorf("20 pages took %v, which could be done in %v", took, tt.least)
				}
			})
		})
	}
}
