//go:build !race

// A hundred sites in virtual time, one goroutine after the other: the race detector finds nothing
// here and takes ten times as long. make test runs it without.

package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/soak"
)

// A gridSite is a site with a protection of its own, with broken pages, or with an outage. It shares
// nothing with the limiter: it sees when requests start, and answers.
type gridSite struct {
	name     string
	limit    site          // pace that the site allows; nil: any
	status   int           // answer above that pace; 0: none
	cost     time.Duration // how long such an answer takes
	ban      time.Duration // above the pace: 403 for so long
	renewed  bool          // each request begins the ban anew
	broken   float64       // share of the pages that always answer brokenBy
	brokenBy int
	runs     bool // broken pages come in runs of 200
	outFrom  time.Duration
	outTo    time.Duration
	outShare float64       // of the answers during the outage; 0: all of them
	allowed  time.Duration // mean gap that the site allows; 0: any

	rnd      *rand.Rand
	bannedTo time.Duration
	bans     int
}

// isBroken reports whether page u always fails, by a hash that no crawler knows.
func (s *gridSite) isBroken(u int) bool {
	if s.broken == 0 {
		return false
	}
	if s.runs {
		period := int(200 / s.broken)
		at := u % period
		return at >= period/2 && at < period/2+200
	}
	x := uint64(u) * 0x9E3779B97F4A7C15
	x ^= x >> 31
	x *= 0xBF58476D1CE4E5B9
	x ^= x >> 29
	return float64(x>>11)/(1<<53) < s.broken
}

func (s *gridSite) ask(at time.Duration, u int) (status int, latency time.Duration) {
	latency = 50*time.Millisecond + time.Duration(s.rnd.Int64N(int64(100*time.Millisecond)))
	if s.outTo > 0 && at >= s.outFrom && at < s.outTo && (s.outShare == 0 || s.rnd.Float64() < s.outShare) {
		return 503, latency
	}
	if s.ban > 0 && at < s.bannedTo {
		if s.renewed {
			s.bannedTo = at + s.ban
		}
		return 403, latency
	}
	if s.limit != nil && !s.limit.allow(at) {
		if s.ban > 0 {
			s.bannedTo = at + s.ban
			s.bans++
			return 403, latency
		}
		return s.status, max(latency, s.cost)
	}
	if s.isBroken(u) {
		return s.brokenBy, latency
	}
	return 200, latency
}

// A gridCrawler is how pages are chosen. All but the pool ask again.
type gridCrawler struct {
	name    string
	limits  hostlimit.Config
	workers int
	again   bool // a refused page comes back first, and a served one is asked where nothing else tells
	retries int  // of each worker, at its own page
}

var gridCrawlers = []gridCrawler{
	{name: "crawl", workers: 2, again: true},
	{name: "Bulk", workers: 8, retries: 5, limits: hostlimit.Config{
		Delay:   hostlimit.Delay{Min: 200 * time.Millisecond, Adaptive: hostlimit.Longest(hostlimit.Learned, hostlimit.Slower(1))},
		MaxWait: 24 * time.Hour,
	}},
	{name: "pool", workers: 8},
	{name: "Responsive", workers: 1, again: true, limits: hostlimit.Config{
		Concurrency: 1,
		Delay: hostlimit.Delay{
			Min: 250 * time.Millisecond, Max: 750 * time.Millisecond, FromEnd: true,
			Adaptive: hostlimit.Longest(hostlimit.Squared, hostlimit.Learned),
		},
	}},
}

// A gridResult is what the site saw.
type gridResult struct {
	refused15 int   // refusals in the first quarter of an hour
	served    []int // pages by hour
	refused   []int // refusals by hour
	refusedAt []time.Duration
	bans      int       // in all
	delays    []float64 // longest delay in force, by hour, in seconds
}

// A gridRun is one crawl of one site.
type gridRun struct {
	mu     sync.Mutex
	m      hostlimit.Limiter
	c      *gridCrawler
	s      *gridSite
	began  time.Time
	until  time.Duration
	result gridResult

	fresh     int
	back      []int       // to be asked again, the first first
	asked     map[int]int // how often a page was refused
	forbidden []int       // 403s since a page was served
	good      int         // a page that was served; 0: none
	row       int         // refusals without an answer that tells, in a row
	checking  int         // page that was refused twice; what comes next tells
	verify    bool
	banned    bool
}

// pick chooses the next page; good is whether the answer is thrown away.
func (r *gridRun) pick() (u int, good bool) {
	if r.c.again && r.good != 0 && (r.verify || r.banned || r.checking != 0 || r.row >= 3 && r.row%2 == 1) {
		return r.good, true
	}
	if len(r.back) > 0 && r.c.again {
		u, r.back = r.back[0], r.back[1:]
		return u, false
	}
	r.fresh++
	return r.fresh, false
}

// answered decides what becomes of page u.
func (r *gridRun) answered(u int, good bool, status int) {
	switch {
	case status == 200:
		r.row = 0
		if r.checking != 0 && r.checking != u {
			r.checking = 0 // its own trouble: never asked again
		}
		if r.banned {
			r.back, r.banned = append(r.back, r.forbidden...), false
		}
		r.forbidden, r.verify = r.forbidden[:0], false
		if !good {
			r.good = u
		}
	case status == 403:
		if r.verify || r.banned {
			r.verify, r.banned = false, true
		}
		if !good {
			r.forbidden = append(r.forbidden, u)
			r.verify = !r.banned && len(r.forbidden) >= 5
		}
	default:
		r.row++
		if r.checking != 0 && r.checking != u {
			r.back, r.checking = append(r.back, r.checking), 0
		}
		if good {
			return
		}
		if r.asked[u]++; r.asked[u]%2 == 0 {
			r.checking = u
		} else if r.asked[u] < 5 {
			r.back = append([]int{u}, r.back...)
		}
	}
}

// exchange asks for one page in its turn, and returns its status.
func (r *gridRun) exchange(ctx context.Context, choose func() (int, bool)) (u int, good bool, status int, e hostlimit.Effect, ok bool) {
	l, err := r.m.Acquire(ctx, "example.com", 0)
	if err != nil {
		return 0, false, 0, e, false
	}
	defer l.Release()
	g, err := l.Start(ctx)
	at := time.Since(r.began)
	if err != nil || at >= r.until {
		return 0, false, 0, e, false
	}
	r.mu.Lock()
	u, good = choose()
	status, latency := r.s.ask(at, u)
	hour := int(at / time.Hour)
	if status == 200 && !good {
		r.result.served[hour]++
	}
	if status != 200 {
		r.result.refused[hour]++
		r.result.refusedAt = append(r.result.refusedAt, at)
		if at < 15*time.Minute {
			r.result.refused15++
		}
	}
	r.result.delays[hour] = max(r.result.delays[hour], g.Delay.Seconds())
	r.mu.Unlock()
	time.Sleep(latency)
	o := hostlimit.Outcome{Status: status, Latency: latency, Resource: uint64(u)}
	if status == 0 {
		o.Err = fmt.Errorf("no response")
	}
	return u, good, status, l.Observe(o), true
}

func (r *gridRun) work(ctx context.Context) {
	for {
		u, good, status, e, ok := r.exchange(ctx, r.pick)
		if !ok {
			return
		}
		if r.c.again {
			r.mu.Lock()
			r.answered(u, good, status)
			r.mu.Unlock()
			continue
		}
		schedule := backoff.Fibonacci{}
		for n := 1; n <= r.c.retries && status != 200 && status != 403 && !e.Own; n++ {
			if wait := schedule.Delay(n); time.Until(e.Until) < wait { // else the wait for the turn is as long
				time.Sleep(wait)
			}
			_, _, status, e, ok = r.exchange(hostlimit.WithPriority(ctx, max(0, 2-n)), func() (int, bool) { return u, false })
			if !ok {
				return
			}
		}
	}
}

// crawlGrid crawls a site for some hours of the calling bubble.
func crawlGrid(t *testing.T, c *gridCrawler, s gridSite, hours int) gridResult {
	s.rnd = rand.New(rand.NewPCG(1, 99))
	r := &gridRun{m: newMemory(t, c.limits), c: c, s: &s, began: time.Now(), until: time.Duration(hours) * time.Hour, asked: map[int]int{}}
	r.result.served, r.result.refused, r.result.delays = make([]int, hours), make([]int, hours), make([]float64, hours)
	var wg sync.WaitGroup
	for range c.workers {
		wg.Go(func() { r.work(t.Context()) })
	}
	wg.Wait()
	r.result.bans = s.bans
	return r.result
}

func grid() (sites []gridSite) {
	for _, status := range []int{503, 500, 429} {
		name := func(s string) string { return fmt.Sprintf("%s, %d", s, status) }
		sites = append(sites,
			gridSite{name: name("1 a second, no burst"), status: status, limit: &tokenBucket{refill: time.Second, burst: 1}, allowed: time.Second},
			gridSite{name: name("1 a second, burst of 5"), status: status, limit: &tokenBucket{refill: time.Second, burst: 6}, allowed: time.Second},
			gridSite{name: name("2 a second, no burst"), status: status, limit: &tokenBucket{refill: time.Second / 2, burst: 1}, allowed: time.Second / 2},
			gridSite{name: name("10 a minute, no burst"), status: status, limit: &tokenBucket{refill: 6 * time.Second, burst: 1}, allowed: 6 * time.Second},
			gridSite{name: name("60 in fixed minutes"), status: status, limit: &fixedWindow{n: 60, window: time.Minute}, allowed: time.Second},
			gridSite{name: name("10 in fixed 10 s"), status: status, limit: &fixedWindow{n: 10, window: 10 * time.Second}, allowed: time.Second},
			gridSite{name: name("60 in any minute"), status: status, limit: &slidingWindow{n: 60, window: time.Minute}, allowed: time.Second},
			gridSite{name: name("10 in any 10 s"), status: status, limit: &slidingWindow{n: 10, window: 10 * time.Second}, allowed: time.Second},
		)
	}
	for _, ban := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute} {
		for _, renewed := range []bool{false, true} {
			sites = append(sites,
				gridSite{name: fmt.Sprintf("ban of %v, renewed %v, above 10 in 10 s", ban, renewed), ban: ban, renewed: renewed, limit: &slidingWindow{n: 10, window: 10 * time.Second}, allowed: time.Second},
				gridSite{name: fmt.Sprintf("ban of %v, renewed %v, above 100 in a minute", ban, renewed), ban: ban, renewed: renewed, limit: &slidingWindow{n: 100, window: time.Minute}, allowed: 600 * time.Millisecond},
			)
		}
	}
	for _, by := range []int{503, 500, 403} {
		for _, share := range []float64{0.01, 0.05, 0.10} {
			sites = append(sites, gridSite{name: fmt.Sprintf("%.0f %% of the pages are %d", 100*share, by), broken: share, brokenBy: by})
		}
	}
	return append(sites,
		gridSite{name: "5 % of the pages are 503, 200 in a row", broken: 0.05, brokenBy: 503, runs: true},
		gridSite{name: "out for 10 minutes", outFrom: 10 * time.Minute, outTo: 20 * time.Minute},
		gridSite{name: "30 % of the answers for 10 minutes", outFrom: 10 * time.Minute, outTo: 20 * time.Minute, outShare: 0.3},
		gridSite{name: "tarpit of 10 s, then 500", status: 500, cost: 10 * time.Second, limit: &slidingWindow{n: 10, window: 10 * time.Second}, allowed: time.Second},
		gridSite{name: "free"},
	)
}

// A gridBound is what a crawler has from a site at most and at least; see TestGrid.
type gridBound struct {
	refused15 int     // refusals in the first quarter of an hour
	refused   int     // refusals in the second hour
	share     float64 // of the pages that site and delays allow, in the second hour
	bans      int     // in two hours
}

// bound returns the bound of c at s: what the study of the rule promises, with room for delays that
// are drawn at random. Where a row of a crawler is worse than the others, the rule's trade is told.
func (s *gridSite) bound(c *gridCrawler) gridBound {
	const unbounded = 1 << 20
	asks := c.name == "crawl" || c.name == "Responsive"
	switch {
	case s.ban > 0:
		return gridBound{refused15: 12, refused: 12, bans: 3}
	case s.runs && asks:
		return gridBound{unbounded, unbounded, 0.7, 0}
	case s.runs: // who can't ask a page that was served takes it for an outage
		return gridBound{20, 20, 0, 0}
	case s.broken > 0 && s.brokenBy == 403:
		return gridBound{unbounded, unbounded, 0.95, 0}
	case s.broken > 0:
		least := map[string][3]float64{
			"crawl": {0.9, 0.78, 0.65}, "Bulk": {0.88, 0.68, 0.46}, "pool": {0.9, 0.84, 0.76}, "Responsive": {0.9, 0.78, 0.7},
		}[c.name]
		return gridBound{unbounded, unbounded, least[int(s.broken*100+0.5)/5], 0}
	case s.outTo > 0:
		return gridBound{80, 5, 0.95, 0}
	case s.cost > 0 && (c.name == "crawl" || c.name == "Bulk"):
		return gridBound{30, 60, 0.7, 0}
	case s.cost > 0: // hardly more than a tenth of the answers are refusals
		return gridBound{180, 700, 0.5, 0}
	case s.limit == nil:
		return gridBound{0, 0, 0.97, 0}
	case s.status == 429:
		return gridBound{40, 80, 0.7, 0}
	case c.name == "pool": // a burst that is over looks like broken pages
		return gridBound{260, 900, 0.7, 0}
	case s.allowed == time.Second && asks: // windows let many pages pass between two refusals
		return gridBound{170, 600, 0.7, 0}
	}
	return gridBound{80, 80, 0.69, 0}
}

// allows returns the pages an hour that s and the delays of c allow.
func (s *gridSite) allows(c *gridCrawler) float64 {
	gap := map[string]time.Duration{
		"crawl": 350 * time.Millisecond, "Bulk": 200 * time.Millisecond, "pool": 350 * time.Millisecond,
		"Responsive": 600 * time.Millisecond, // with the time that an answer takes
	}[c.name]
	return float64(time.Hour) / float64(max(gap, s.allowed)) * (1 - s.broken)
}

// TestGrid holds crawlers of four kinds to bounds at sites that limit, ban, break and go down: each at
// each site with POLITENESS_LONG=1, and one of them, by turns, without.
func TestGrid(t *testing.T) {
	every := soak.Size(len(gridCrawlers), 1, 1)
	for i := range grid() {
		for j := range gridCrawlers {
			if (i+j)%every != 0 {
				continue
			}
			s, c := grid()[i], &gridCrawlers[j] // a site of its own for each
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := crawlGrid(t, c, s, 2)
					share, want := float64(r.served[1])/s.allows(c), s.bound(c)
					if r.refused15 > want.refused15 || r.refused[1] > want.refused || share < want.share || r.bans > want.bans {
						t.Errorf("share %.2f, want %+v", share, want)
					}
					t.Logf("%-45s %-10s refused in 15 min %4d, by hour %v, served %v, share %.2f, bans %d, longest delay %.2f",
						s.name, c.name, r.refused15, r.refused, r.served, share, r.bans, r.delays)
				})
			})
		}
	}
}

// TestDelaysComeBack: an hour after a refusal that never came again, whatever it was, the delay is
// within 10 % of what it was before, with the limits of each preset that learns.
func TestDelaysComeBack(t *testing.T) {
	second := time.Second
	for name, limits := range map[string]hostlimit.Config{
		"zero value": {},
		"SiteAudit":  {Delay: hostlimit.Delay{Min: second / 5, Max: second / 2}},
		"Bulk": {Delay: hostlimit.Delay{
			Min: second / 5, Max: second / 5, Adaptive: hostlimit.Longest(hostlimit.Learned, hostlimit.Slower(1)),
		}},
		"Responsive": {Concurrency: 1, Delay: hostlimit.Delay{
			Min: second / 2, Max: 3 * second / 2, Adaptive: hostlimit.Longest(hostlimit.Squared, hostlimit.Learned), Ceiling: 24 * time.Hour, FromEnd: true,
		}},
	} {
		for answer, o := range map[string]hostlimit.Outcome{
			"429":       {Status: 429},
			"429 asks":  {Status: 429, RetryAfter: 10 * time.Second},
			"503":       {Status: 503},
			"503 asks":  {Status: 503, RetryAfter: time.Minute},
			"500, late": {Status: 500, Latency: 10 * time.Second},
			"none":      {Err: fmt.Errorf("no response"), Latency: 15 * time.Second},
			"captcha":   {Status: 200, Refused: "captcha"},
		} {
			t.Run(name+", "+answer, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, began := newMemory(t, limits), time.Now()
					var before, after time.Duration
					for n := uint64(1); time.Since(began) < 65*time.Minute; n++ {
						l, err := m.Acquire(t.Context(), "example.com", 0)
						if err != nil {
							t.Fatal(err)
						}
						g, err := l.Start(t.Context())
						if err != nil {
							t.Fatal(err)
						}
						this := hostlimit.Outcome{Status: 200, Latency: 50 * time.Millisecond, Resource: n}
						if n == 100 {
							this = o
							this.Resource = n
						}
						time.Sleep(this.Latency)
						l.Observe(this)
						l.Release()
						switch {
						case n <= 100:
							before = max(before, g.Delay)
						case time.Since(began) > 62*time.Minute:
							after = max(after, g.Delay)
						}
					}
					if after > before+before/10 || after == 0 {
						t.Errorf("the delay is %v an hour after, and was %v", after, before)
					}
				})
			})
		}
	}
}
