package promises_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A chaos is a crawl in which everything goes wrong that can: sites that refuse,
// redirect, drip, drop, and change their robots.txt; callers that leave, leak and
// hurry; a budget that runs out.
type chaos struct {
	*testing.T
	rng     *rand.Rand
	web     *politenesstest.Web
	hosts   *memory.Limiter
	budget  *budget.Memory
	log     bytes.Buffer
	records evidence.Recorder
	client  *http.Client
	limits  budget.Limits

	bodies atomic.Int64 // request bodies handed in, less those closed
}

// runChaos runs a crawl, waits until it is over, and hands it to check.
func runChaos(t *testing.T, seed uint64, check func(c *chaos)) {
	synctest.Test(t, func(t *testing.T) {
		c := &chaos{T: t, rng: rand.New(rand.NewPCG(seed, 1)), web: politenesstest.NewWeb()}
		var err error
		c.hosts, err = memory.New(hostlimit.Config{
			Concurrency: 1 + c.rng.IntN(3), MaxInFlight: c.rng.IntN(6), SlotTimeout: c.duration(20 * time.Second), LeaseTTL: time.Hour,
			MaxWait: c.rare(10 * time.Second), MaxHosts: 1 + c.rng.IntN(10),
			Delay:   hostlimit.Delay{Min: 100 * time.Millisecond, Max: 100*time.Millisecond + c.duration(time.Second)},
			Backoff: backoff.Refusals{Statuses: []int{403, 503}, Network: c.rng.IntN(2) == 0},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.limits = budget.Limits{
			Pages: int64(c.rng.IntN(2) * (20 + c.rng.IntN(60))), PagesPerHost: int64(c.rng.IntN(2) * 15),
			Bytes: int64(c.rng.IntN(2) * 20_000), Duration: c.rare(10 * time.Minute), WarnAt: 0.8,
		}
		c.budget = budget.New(c.limits)
		sink := logtest.New(t, &c.log, evidence.LogConfig{Chained: true})
		tr, err := politeness.New(politeness.Config{
			UserAgent: agent, Base: c.web, Limiter: c.hosts, Budget: c.budget,
			Robots:   robotscache.Config{RecordText: true, ServeStale: c.rng.IntN(2) == 0},
			Retry:    politeness.Retry{Max: c.rng.IntN(3)},
			Response: politeness.ResponseLimits{MaxBytes: 3000, Reject: []string{"image/*"}, CheckIndexing: true},
			Evidence: evidence.Multi(sink, &c.records),
		})
		if err != nil {
			t.Fatal(err)
		}
		c.client = &http.Client{Transport: tr}
		c.build(4)
		c.crawl()
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
		check(c)
	})
}

func (c *chaos) duration(most time.Duration) time.Duration {
	return time.Duration(c.rng.Int64N(int64(most))) + 1
}

// rare returns 0 as often as not.
func (c *chaos) rare(most time.Duration) time.Duration {
	if c.rng.IntN(2) == 0 {
		return 0
	}
	return c.duration(most)
}

// build scripts n sites.
func (c *chaos) build(n int) {
	for i := range n {
		site := c.web.Site(fmt.Sprintf("https://%d.example", i)).Latency(c.duration(2 * time.Second))
		rules := "User-agent: auditbot\nDisallow: /private\n"
		if c.rng.IntN(2) == 0 {
			rules += fmt.Sprintf("Crawl-delay: %.1f\n", 3*c.rng.Float64())
		}
		switch c.rng.IntN(5) {
		case 0:
			site.RobotsStatus(503)
		case 1:
		default:
			site.Robots(rules)
		}
		site.Page("/page", strings.Repeat("x", c.rng.IntN(2000))).Page("/private", "secret")
		site.Handle("/huge", politenesstest.Bytes(1<<20))
		site.Handle("/drip", politenesstest.Drip("drop", 5, c.duration(time.Second)))
		site.Handle("/away", http.RedirectHandler(fmt.Sprintf("https://%d.example/page", c.rng.IntN(n)), http.StatusFound))
		site.Handle("/trap", http.RedirectHandler("/private", http.StatusFound))
		site.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
		site.Handle("/image", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/png")
			_, _ = io.WriteString(w, "png")
		}))
		site.Handle("/flaky", politenesstest.InTurn(politenesstest.Drop(), politenesstest.Status(500), politenesstest.Text("ok")))
		site.Handle("/busy", politenesstest.InTurn(
			politenesstest.Status(429, "Retry-After", fmt.Sprint(c.rng.IntN(20))), politenesstest.Status(403), politenesstest.Text("ok")))
		time.AfterFunc(c.duration(5*time.Minute), func() { site.Robots("User-agent: *\nDisallow: /page\nCrawl-delay: 4\n") })
		down := c.duration(5 * time.Minute)
		time.AfterFunc(down, func() { site.Down(syscall.ECONNREFUSED) })
		time.AfterFunc(down+c.duration(time.Minute), func() { site.Down(nil) })
		time.AfterFunc(c.duration(5*time.Minute), func() { site.Storm(20 * time.Second) })
	}
}

var chaosPaths = []string{
	"/page", "/page", "/private", "/huge", "/drip", "/away", "/trap", "/loop", "/image", "/flaky", "/busy", "/missing",
}

// crawl fetches with many callers, in all manners, for some minutes.
func (c *chaos) crawl() {
	var group sync.WaitGroup
	for range 30 {
		rng := rand.New(rand.NewPCG(c.rng.Uint64(), 2))
		group.Go(func() {
			for range 6 {
				time.Sleep(time.Duration(rng.Int64N(int64(time.Minute))))
				c.fetch(rng, fmt.Sprintf("https://%d.example%s", rng.IntN(5), chaosPaths[rng.IntN(len(chaosPaths))])) // 4.example is unknown to DNS
			}
		})
	}
	group.Wait()
	time.Sleep(10 * time.Minute) // the sites' own timers
}

// counted is a request body that is missed until it is closed.
type counted struct {
	io.Reader
	open *atomic.Int64
	once sync.Once
}

func (b *counted) Close() error {
	b.once.Do(func() { b.open.Add(-1) })
	return nil
}

func (c *chaos) fetch(rng *rand.Rand, rawURL string) {
	ctx := c.Context()
	if rng.IntN(4) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.Int64N(int64(20*time.Second))))
		defer cancel()
	}
	method, body := http.MethodGet, io.Reader(nil)
	if rng.IntN(5) == 0 {
		c.bodies.Add(1)
		method, body = http.MethodPost, &counted{Reader: strings.NewReader("form"), open: &c.bodies}
	}
	req, err := http.NewRequestWithContext(ctx, method, rawURL, body)
	if err != nil {
		c.Error(err)
		return
	}
	resp, err := c.client.Do(req)
	if err != nil {
		c.typed(err)
		return
	}
	defer resp.Body.Close()
	switch rng.IntN(3) {
	case 0: // closed unread
	case 1:
		_, _ = io.CopyN(io.Discard, resp.Body, 10)
	default:
		if _, err := io.Copy(io.Discard, resp.Body); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, syscall.ECONNREFUSED) {
			c.typed(err)
		}
	}
}

// typed fails unless err is one that a caller can tell from others: a refusal, or what
// the web or the caller's deadline did, as it is.
func (c *chaos) typed(err error) {
	for _, theirs := range []error{context.DeadlineExceeded, syscall.ECONNREFUSED, io.EOF} {
		if errors.Is(err, theirs) {
			return
		}
	}
	var ours *politeness.Error
	if !errors.As(err, &ours) && !strings.Contains(err.Error(), "stopped after 10 redirects") {
		c.Errorf("an error that isn't an *Error: %v", err)
	}
}

func forEachChaos(t *testing.T, check func(c *chaos)) {
	t.Helper()
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runChaos(t, seed, check) })
	}
}

// The first promise, seen from the web and proved from the log.
func TestNoTwoStartsCloserNeverMoreThanConcurrencyNoneIntoABlock(t *testing.T) {
	forEachChaos(t, func(c *chaos) {
		cfg := c.hosts.Config()
		for _, v := range c.web.Violations(politenesstest.Rules{Delay: cfg.Delay.Min, Concurrency: cfg.Concurrency, Refusals: []int{429, 403, 503}}) {
			if v.Kind != politenesstest.Block || !c.inFlightAtARefusal(v.Earlier) {
				c.Errorf("on the web: %v", v)
			}
		}
		if n := cfg.MaxInFlight; n > 0 {
			if got := mostAtOnce(c.web.Requests()); got > n {
				c.Errorf("%d in flight, MaxInFlight %d", got, n)
			}
		}
		report, err := audit.Check(&c.log)
		if err != nil {
			c.Fatal(err)
		}
		for _, v := range report.Violations {
			c.Errorf("in the log: %v", v)
		}
	})
}

// inFlightAtARefusal reports whether r was refused by a host that had just refused
// another request: the first refusal sets the block, and those that were under
// way then neither lengthen it nor count again.
func (c *chaos) inFlightAtARefusal(r politenesstest.Request) bool {
	host := func(r politenesstest.Request) string { return strings.Split(r.URL, "/")[2] }
	for _, o := range c.web.Requests() {
		refused := o.Status == 429 || o.Status == 403 || o.Status == 503 || o.Status == 0
		if o.Seq != r.Seq && refused && host(o) == host(r) && !o.End.Before(r.Start) && !o.Answered.After(r.Answered) {
			return true
		}
	}
	return false
}

func mostAtOnce(requests []politenesstest.Request) int {
	most := 0
	for _, r := range requests {
		n := 0
		for _, o := range requests {
			if !o.Start.After(r.Start) && o.End.After(r.Start) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// The second: what was sent is within the budget, to the page and the byte.
func TestNonePastTheBudget(t *testing.T) {
	forEachChaos(t, func(c *chaos) {
		u, err := c.budget.Usage(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		pages, perHost, bytes := int64(0), map[string]int64{}, int64(0)
		for _, d := range c.records.Decisions(evidence.Started, evidence.Fetched) {
			switch {
			case d.RobotsTxt:
			case d.Type == evidence.Fetched:
				bytes += d.Bytes
			case d.Redirects == 0 && d.Attempt == 1 && !c.neverSent(d):
				pages++
				perHost[d.Host]++
			}
		}
		if u.Pages != pages || c.limits.Pages > 0 && pages > c.limits.Pages {
			c.Errorf("%d pages sent, %d counted, limit %d", pages, u.Pages, c.limits.Pages)
		}
		if u.Bytes != bytes || c.limits.Bytes > 0 && bytes > c.limits.Bytes {
			c.Errorf("%d bytes read, %d counted, limit %d", bytes, u.Bytes, c.limits.Bytes)
		}
		for host, n := range perHost {
			if c.limits.PagesPerHost > 0 && n > c.limits.PagesPerHost {
				c.Errorf("%d pages of %s, limit %d", n, host, c.limits.PagesPerHost)
			}
		}
		for _, d := range c.records.Decisions(evidence.Started) {
			if late := d.Start.Sub(u.Started); c.limits.Duration > 0 && !d.RobotsTxt && late >= c.limits.Duration && !c.neverSent(d) {
				c.Errorf("%s started %v after the first, limit %v", d.URL, late, c.limits.Duration)
			}
		}
	})
}

// neverSent reports whether a turn was given back unused.
func (c *chaos) neverSent(started evidence.Decision) bool {
	for _, d := range c.records.Decisions(evidence.Failed) {
		if d.Trip == started.Trip && d.Seq == started.Seq && d.Reason != "" && d.Err == "" {
			return true
		}
	}
	return false
}

// The third: every slot, page and body is given back on every path.
func TestNothingIsLost(t *testing.T) {
	forEachChaos(t, func(c *chaos) {
		for h, err := range c.hosts.List(t.Context()) {
			if err != nil || h.InFlight != 0 || h.Waiters != 0 {
				c.Errorf("%s: %d slots held, %d waiting", h.Key, h.InFlight, h.Waiters)
			}
		}
		if n := c.bodies.Load(); n != 0 {
			c.Errorf("%d request bodies were not closed", n)
		}
		ends := map[uint64]int{}
		for _, d := range c.records.Decisions() {
			switch {
			case d.Type == evidence.Started:
				ends[d.Trip<<16|d.Seq]++
			case (d.Type == evidence.Fetched || d.Type == evidence.Failed) && d.Seq != 0:
				ends[d.Trip<<16|d.Seq]--
			}
			if d.Host == "" && d.Type != evidence.PolicyStated || d.Time.IsZero() || d.Transport == "" {
				c.Errorf("record %+v lacks host or time", d)
			}
			if u, err := url.Parse(d.URL); err != nil || u.User != nil {
				c.Errorf("record with URL %q", d.URL)
			}
		}
		for key, n := range ends {
			if n != 0 {
				c.Errorf("trip %d, start %d: started less ended is %d", key>>16, key&0xffff, n)
			}
		}
	})
}

// The fifth, at the root: noise costs bounded time and memory and never panics.
// (The fourth, that no goroutine outlives its call, is what every bubble checks.)
func TestBadInputCostsBoundedTimeAndMemory(t *testing.T) {
	bodies := map[string]string{
		"noise":    string(make([]byte, 100_000)) + "\xff\xfe" + strings.Repeat("\x00:\r\n", 1000),
		"stars":    "User-agent: *\nDisallow: /" + strings.Repeat("*", 500<<10),
		"patterns": "User-agent: *\n" + strings.Repeat("Disallow: /*a*a*a*a*b\n", 20_000),
		"NULs":     strings.Repeat("\x00", 500<<10),
		"html":     "<!doctype html>" + strings.Repeat("<p>", 10_000),
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			virtually(t, politeness.Config{}, func(b *bubble) {
				b.site.Robots(body)
				b.site.Handle("/", politenesstest.Status(429, "Retry-After", strings.Repeat("9", 100)))
				_, _ = b.get("https://example.com/" + strings.Repeat("a", 2000))
				at, err := b.t.Next(b.Context(), "https://example.com/")
				if err == nil && at.Sub(b.began) > 25*time.Hour {
					b.Errorf("blocked until %v by a Retry-After of 100 digits", at)
				}
			})
		})
	}
}
