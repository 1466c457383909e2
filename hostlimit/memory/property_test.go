package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/soak"

	"github.com/go-politeness/politeness/hostlimit/memory"
)

// A program is a random crawl: a Config, and requests that come when they want.
type program struct {
	seed     uint64
	cfg      hostlimit.Config
	refusals backoff.Refusals // cfg.Backoff, complete
	requests []*request
}

type request struct {
	id, host   int
	at         time.Duration // arrival
	floor      time.Duration
	deadline   time.Duration   // of its context, from the arrival; 0: none
	cancel     time.Duration   // by the caller, from the arrival; 0: never
	latency    time.Duration   // start to the answer
	body       time.Duration   // answer, or the last Renew, to release
	dawdle     time.Duration   // turn to Start; 0: at once
	unsent     bool            // released after dawdle, without a Start
	again      []time.Duration // from each Start to a further one
	renews     []time.Duration // from the answer on, from each Renew to a further one
	status     int             // 0: a network error
	retryAfter time.Duration
	err        error // of a network error
	refused    string
	reset      time.Duration
	method     string
	page       bool
	aside      bool
	silent     bool // released without an answer
	twice      bool // every call of the lease is made again later, when it must do nothing
}

func (r *request) outcome() hostlimit.Outcome {
	return hostlimit.Outcome{
		Status: r.status, Latency: r.latency, RetryAfter: r.retryAfter, Err: r.err, Aside: r.aside, Refused: r.refused, Reset: r.reset, Method: r.method, Page: r.page,
		Resource: uint64(r.id % 5), // 0: not known
	}
}

// gone is when the request's context is done, from the arrival.
func (r *request) gone() time.Duration {
	d := forever
	if r.deadline > 0 {
		d = r.deadline
	}
	if r.cancel > 0 {
		d = min(d, r.cancel)
	}
	return d
}

func (p *program) maxWait() time.Duration {
	if p.cfg.MaxWait == 0 {
		return time.Hour
	}
	return p.cfg.MaxWait
}

func (p *program) inARow() int {
	if p.refusals.InARow == 0 {
		return 5
	}
	return p.refusals.InARow
}

// sites is the number of sites that the hosts of a program belong to.
const sites = 3

// siteOf is the site of a host.
func siteOf(host int) int { return host % sites }

func key(host int) string { return fmt.Sprintf("host-%d.site%d.example", host, siteOf(host)) }

// number is the host of a key.
func number(key string) int {
	name, _, _ := strings.Cut(key, ".")
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "host-"))
	return n
}

// limits of a host, every field spelt out: the first host has its own.
func (p *program) limits(host int) hostlimit.Limits {
	l := hostlimit.Limits{Concurrency: p.cfg.Concurrency, Delay: p.cfg.Delay}
	if p.cfg.Override != nil {
		if o, ok := p.cfg.Override(key(host)); ok {
			l = o
		}
	}
	return l
}

// generate makes a program of n requests or so from a seed.
func generate(seed uint64, n int) *program {
	r := rand.New(rand.NewPCG(seed, 1))
	span := func(least, most time.Duration) time.Duration {
		return least + time.Duration(r.Int64N(int64(most-least)))
	}
	chance := func(percent int) bool { return r.IntN(100) < percent }

	p := &program{seed: seed}
	p.refusals = backoff.Refusals{
		Policy:        backoff.Fibonacci{Unit: span(100*time.Millisecond, 20*time.Second), Cap: 10 * time.Minute},
		MaxRetryAfter: span(time.Second, time.Hour),
		Forgive:       span(30*time.Minute, 40*time.Minute),
		Network:       chance(30),
		AtLeast:       chance(30),
	}
	if chance(50) {
		p.refusals.InARow = 1 + r.IntN(5)
	}
	if chance(50) {
		p.refusals.Policy = backoff.Doubling{Start: span(time.Second, time.Minute), Cap: time.Hour}
	}
	if chance(40) {
		p.refusals.Statuses = append([]int{403, 503}, backoff.Range(520, 530)...)
	}
	delay := func() hostlimit.Delay {
		if chance(15) {
			return hostlimit.Delay{DangerouslyNone: true, Ceiling: time.Minute}
		}
		d := hostlimit.Delay{Min: span(time.Millisecond, 3*time.Second), Ceiling: span(3*time.Second, time.Minute)}
		if chance(50) {
			d.Max = d.Min + span(0, time.Second)
		}
		if chance(60) {
			d.Adaptive = [...]hostlimit.Adaptive{
				hostlimit.Fixed, hostlimit.Squared, hostlimit.Proportional(5), hostlimit.Throttle(2),
				hostlimit.Longest(hostlimit.Learned, hostlimit.Proportional(5)), hostlimit.Longest(hostlimit.Learned, hostlimit.Slower(2)),
			}[r.IntN(6)]
		}
		return d
	}
	p.cfg = hostlimit.Config{
		Concurrency: 1 + r.IntN(4),
		Delay:       delay(),
		LeaseTTL:    span(20*time.Second, 6*time.Minute),
		MaxHosts:    1_000_000,
		Backoff:     p.refusals,
		PerSite:     -1,
	}
	if chance(70) {
		p.cfg.SlotTimeout = span(time.Second, 30*time.Second)
	}
	if chance(20) {
		p.cfg.Concurrency, p.cfg.Delay.FromEnd = 1, true
	}
	if chance(10) { // a run begins at midnight
		for n := range 1 + r.IntN(3) {
			from := time.Duration(n)*time.Hour + span(0, 20*time.Minute)
			p.cfg.Windows = append(p.cfg.Windows, hostlimit.Window{From: from, To: from + span(time.Minute, 30*time.Minute)})
		}
		if chance(50) {
			p.cfg.Windows = append(p.cfg.Windows, hostlimit.Window{From: 23 * time.Hour, To: span(time.Second, 10*time.Minute)})
		}
	}
	hosts := 1 + r.IntN(1+n/(1+r.IntN(200)))
	if chance(40) {
		p.cfg.MaxWait = span(time.Second, 10*time.Minute)
	}
	if chance(30) {
		p.cfg.MaxInFlight = 1 + r.IntN(20)
		// Of hosts that become ready at one instant, any may have the place. So none are: by hours, or
		// by gaps of one length that count from an end and from the start that it allows.
		p.cfg.Windows, p.cfg.Delay.FromEnd = nil, false
		hosts = min(hosts, 30) // the model looks at all of them at each event
	}
	// By a source of its own, so that the programs of known seeds stay as they are.
	own := rand.New(rand.NewPCG(seed, 2))
	if p.cfg.MaxInFlight == 0 && own.IntN(100) < 40 {
		p.cfg.PerSite = p.cfg.Concurrency + own.IntN(6)
		p.cfg.Windows, p.cfg.Delay.FromEnd = nil, false // as for MaxInFlight
		hosts = min(hosts, 30)
	}
	small := chance(15)
	if small {
		p.cfg.MaxHosts = 1 + r.IntN(8)
		p.cfg.Delay.Adaptive = hostlimit.Fixed // a lesson may be forgotten; a debt not
	}
	if chance(30) {
		own := hostlimit.Limits{Concurrency: 1 + r.IntN(6), Delay: delay()}
		if small {
			own.Delay.Adaptive = hostlimit.Fixed
		}
		p.cfg.Override = func(k string) (hostlimit.Limits, bool) { return own, k == key(0) }
	}

	// Hosts that refuse do so all the time: storms, not single refusals.
	// Who may start later than the turn is had must know the delay: it isn't random.
	late := chance(50) && !small
	if late {
		p.cfg.Delay.Max = 0
		if override := p.cfg.Override; override != nil {
			p.cfg.Override = func(k string) (hostlimit.Limits, bool) {
				l, ok := override(k)
				l.Delay.Max = 0
				return l, ok
			}
		}
	}

	refusing := r.IntN(60)
	length := span(time.Second, time.Duration(1+n/hosts)*4*time.Second)
	slow := span(10*time.Millisecond, 5*time.Second)
	leaks := r.IntN(5)
	for id := range n {
		q := &request{
			id:      id,
			host:    r.IntN(1 + r.IntN(hosts)),
			at:      span(0, length),
			latency: span(1, slow),
			body:    span(1, slow),
			status:  200,
			silent:  chance(3),
			twice:   chance(10),
		}
		if chance(20) && !small {
			q.floor = span(0, 10*time.Second)
		}
		if chance(30) {
			q.deadline = span(time.Millisecond, 5*time.Minute)
		}
		if chance(15) {
			q.cancel = span(1, time.Minute)
		}
		switch {
		case chance(refusing):
			q.status = []int{429, 429, 429, 403, 503, 525, 451, 200}[r.IntN(8)]
			if q.status == 200 {
				q.refused = "a challenge"
			}
			if chance(40) {
				q.retryAfter = span(1, 2*time.Minute)
			}
		case chance(10):
			q.status = []int{0, 404, 500, 502, 301, 401, 402, 407, 408, 425}[r.IntN(10)]
		}
		if q.status == 0 && max(p.cfg.MaxInFlight, p.cfg.PerSite) > 0 {
			q.status = 504
		}
		if q.status == 0 {
			q.err = []error{errors.New("connection reset"), context.Canceled, context.DeadlineExceeded}[r.IntN(3)]
		}
		if chance(3) {
			q.reset = span(1, 2*time.Minute)
		}
		if chance(5) { // words that few hosts use, and answers about the request
			q.status = []int{400, 405, 406, 409, 413, 420, 430, 501, 999}[r.IntN(9)]
			q.err = nil
			q.method = []string{"", "GET", "HEAD"}[r.IntN(3)]
			q.page = chance(50)
			if chance(30) {
				q.retryAfter = span(1, 2*time.Minute)
			}
		}
		q.aside = chance(5)
		if chance(leaks) {
			q.body = p.cfg.LeaseTTL + span(-time.Minute, 3*time.Minute)
			q.body = max(q.body, 1)
		}
		if chance(leaks) && !small { // what is forgotten with a host could be asked for then
			q.latency = p.cfg.LeaseTTL + span(1, time.Minute) // answers when its lease has expired
		}
		if late {
			in := min(p.cfg.LeaseTTL, 20*time.Second)
			if chance(25) {
				q.dawdle = span(1, in/2)
				if chance(50) {
					q.dawdle = span(1, 3*time.Millisecond)
				}
				q.unsent = chance(25)
			}
			for chance(20) {
				q.again = append(q.again, span(1, in/4))
			}
			for q.body < p.cfg.LeaseTTL && chance(20) {
				q.renews = append(q.renews, span(1, p.cfg.LeaseTTL-time.Second))
			}
			if len(q.again)+len(q.renews) > 0 {
				// No two alike: two delays of half of one latency would end when the other's answer comes, and
				// which of the two is first is nobody's promise.
				q.latency = min(q.latency, p.cfg.LeaseTTL/2-time.Duration(id))
			}
			if len(q.renews) > 0 { // the time until then may depend on who looks
				q.renews[0] = min(q.renews[0], p.cfg.LeaseTTL/3)
			}
		}
		p.requests = append(p.requests, q)
	}
	return p
}

// A player runs a program in virtual time and keeps the log.
type player struct {
	base time.Time
	mu   sync.Mutex
	used map[time.Duration]bool
	log  []*event
}

// at sleeps until no earlier than t, and so that nothing else comes from outside at the
// same instant: then the log has one order only.
func (p *player) at(t time.Duration) time.Duration {
	p.mu.Lock()
	for t <= time.Since(p.base) || p.used[t] {
		t++
	}
	p.used[t] = true
	p.mu.Unlock()
	time.Sleep(t - time.Since(p.base))
	return t
}

func (p *player) note(kind eventKind, r *request) *event {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := &event{at: time.Since(p.base), kind: kind, req: r}
	p.log = append(p.log, e)
	return e
}

func (p *player) play(t testing.TB, m hostlimit.Limiter, r *request) {
	p.at(r.at)
	ctx, cancel := context.WithTimeout(t.Context(), min(r.gone(), 1e6*time.Hour)) // a lost turn is seen, not waited for for ever
	defer cancel()
	if r.cancel > 0 && r.cancel == r.gone() {
		ctx, cancel = context.WithCancel(t.Context())
		if r.deadline > 0 {
			ctx, cancel = context.WithTimeout(ctx, r.deadline)
		}
		stop := time.AfterFunc(r.cancel, cancel)
		defer stop.Stop()
		defer cancel()
	}
	p.note(arrived, r)
	l, err := m.Acquire(ctx, key(r.host), r.floor)
	now := time.Since(p.base)
	if err != nil {
		kind := refusedTurn
		if err == ctx.Err() { //nolint:errorlint // Acquire promises the context's error itself
			kind = left
		}
		p.note(kind, r).err = err
		return
	}
	p.note(granted, r)
	if r.unsent {
		p.at(now + r.dawdle)
		e := p.note(released, r)
		e.expired = l.Release()
		return
	}
	waits := append([]time.Duration{r.dawdle}, r.again...)
	for _, wait := range waits {
		if wait > 0 {
			p.at(now + wait)
			p.note(goes, r)
		}
		g, err := l.Start(ctx)
		now = time.Since(p.base)
		if err != nil {
			kind := refusedTurn
			if err == ctx.Err() { //nolint:errorlint // Start promises the context's error itself
				kind = left
			}
			p.note(kind, r).err = err
			p.at(now + time.Second)
			e := p.note(released, r)
			e.expired = l.Release()
			return
		}
		p.note(started, r).grant = g
	}

	if !r.silent {
		now = p.at(now + r.latency)
		e := p.note(observed, r)
		e.effect = l.Observe(r.outcome())
	}
	for _, wait := range r.renews {
		now = p.at(now + wait)
		p.note(renewed, r)
		l.Renew()
	}
	now = p.at(now + r.body)
	e := p.note(released, r)
	e.expired = l.Release()
	if r.twice {
		if _, err := l.Start(ctx); err == nil {
			t.Errorf("request %d started after its Release", r.id)
		}
		p.at(now + time.Second)
		l.Observe(hostlimit.Outcome{Status: 429, RetryAfter: time.Hour})
		l.Release()
	}
}

// run plays p against a Memory and checks the log with the model.
func (p *program) run(t *testing.T) (seen tally, err error) {
	synctest.Test(t, func(t *testing.T) {
		m, newErr := memory.New(p.cfg)
		if newErr != nil {
			err = newErr
			return
		}
		pl := &player{base: time.Now(), used: make(map[time.Duration]bool)}
		var wg sync.WaitGroup
		for _, r := range p.requests {
			wg.Go(func() { pl.play(t, m, r) })
		}
		wg.Wait()
		seen.count(pl.log)
		err = p.check(pl.base, pl.log)
		for st, failure := range m.List(t.Context()) {
			if failure != nil {
				t.Fatal(failure)
			}
			if st.InFlight != 0 || st.Waiters != 0 {
				err = errors.Join(err, fmt.Errorf("in the end: %+v", st))
			}
		}
	})
	return seen, err
}

// A tally is what happened in the runs. A property test that never met a storm
// or a leak would prove nothing about them.
type tally struct {
	requests, starts, refusals, left                 int
	slotWaits, delayWaits, blockWaits                int
	blocks, cleared, probes, expired, deadline, late int
	takenBack, unsent, again, gated, renewed         int
}

func (c *tally) count(log []*event) {
	called := make(map[*request]time.Duration)
	for _, e := range log {
		switch e.kind {
		case arrived:
			c.requests++
		case left:
			c.left++
		case refusedTurn:
			c.refusals++
			if errors.Is(e.err, context.DeadlineExceeded) {
				c.deadline++
			}
		case goes:
			c.again++
			called[e.req] = e.at
		case renewed:
			c.renewed++
		case released:
			c.unsent += one(e.req.unsent)
		case started:
			c.starts++
			c.gated += one(called[e.req] > 0 && called[e.req] < e.at)
			c.slotWaits += one(e.grant.WaitSlot > 0)
			c.delayWaits += one(e.grant.WaitDelay > 0)
			c.blockWaits += one(e.grant.WaitBlock > 0)
			c.probes += one(e.grant.Probe)
			for _, k := range e.grant.TakenBack {
				c.expired += one(k.Key == key(e.req.host))
				c.takenBack += one(k.Key != key(e.req.host))
			}
		case observed:
			c.blocks += one(e.effect.Blocked)
			c.cleared += one(e.effect.Cleared)
			c.late += one(e.effect.Refusals > 0 && !e.effect.Blocked)
		}
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (c *tally) add(d tally) {
	c.requests += d.requests
	c.starts += d.starts
	c.refusals += d.refusals
	c.left += d.left
	c.slotWaits += d.slotWaits
	c.delayWaits += d.delayWaits
	c.blockWaits += d.blockWaits
	c.blocks += d.blocks
	c.cleared += d.cleared
	c.probes += d.probes
	c.expired += d.expired
	c.deadline += d.deadline
	c.late += d.late
	c.takenBack += d.takenBack
	c.unsent += d.unsent
	c.again += d.again
	c.gated += d.gated
	c.renewed += d.renewed
}

// shrink drops requests as long as the program still fails, for a minute at most.
func (p *program) shrink(t *testing.T, err error) (*program, error) {
	begun := time.Now()
	for size := len(p.requests) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(p.requests) && time.Since(begun) < time.Minute; {
			smaller := *p
			smaller.requests = slices.Delete(slices.Clone(p.requests), from, from+size)
			var e error
			for try := 0; try < 3 && e == nil; try++ { // the limiter's random delays differ
				_, e = smaller.run(t)
			}
			if e != nil {
				p, err = &smaller, e
			} else {
				from += size
			}
		}
	}
	return p, err
}

func (p *program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %+v\n", p.seed, p.cfg)
	fmt.Fprintf(&b, "refusals %+v\n", p.refusals)
	for _, r := range p.requests {
		fmt.Fprintf(&b, "%+v\n", *r)
	}
	return b.String()
}

// sizeOf returns how many requests the program of a seed has.
func sizeOf(seed uint64) int {
	if seed%97 == 0 {
		return 8000 // thousands of hosts
	}
	return []int{30, 100, 300, 1000}[seed%4]
}

// TestProgramsThatFoundAFault plays those of which a limiter once failed one, and rarely another.
func TestProgramsThatFoundAFault(t *testing.T) {
	for _, seed := range []uint64{
		192541062143682, // the first in line for a place wasn't let in when one was free
		255140922659903, // a learned delay grew to more than four times itself, by a nanosecond
	} {
		p := generate(seed, sizeOf(seed))
		if _, err := p.run(t); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestPropertyAgainstModel plays random crawls in virtual time and compares
// every start, wait, refusal and effect with the reference model, to the
// nanosecond. POLITENESS_SEED replays one program.
func TestPropertyAgainstModel(t *testing.T) {
	total := 30_000
	if testing.Short() {
		total = 10_000
	}
	var all tally
	programs := 0
	for seed := range soak.Seeds(t, total, total) { // that many if each were of one request
		programs++
		p := generate(seed, sizeOf(seed))
		seen, err := p.run(t)
		if err != nil {
			t.Logf("seed %d: %v", seed, err)
			small, err := p.shrink(t, err)
			t.Fatalf("%v\nwith %v", err, small)
		}
		if all.add(seen); all.requests >= total && soak.Share(t) == 0 {
			break
		}
	}
	t.Logf("%+v", all)
	if least := min(all.starts, all.refusals, all.left, all.slotWaits, all.delayWaits, all.blockWaits, all.blocks,
		all.cleared, all.probes, all.expired, all.deadline, all.late, all.unsent, all.again, all.gated, all.renewed); least < all.requests/1000 && programs > 1 {
		t.Errorf("something hardly happened: %+v", all)
	}
}
