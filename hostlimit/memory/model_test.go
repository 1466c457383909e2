package memory_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

// The reference model: what a limiter must do, in the plainest way that could be
// found. It keeps lists where the limiter keeps sums, and knows nothing of
// goroutines, timers or wake-ups. It reads the log of a run in virtual time,
// takes from it what came from outside (arrivals, answers, releases,
// cancellations) and the random delays, and predicts every start and every
// refusal to the nanosecond.

type eventKind uint8

// What came from outside, then what the limiter decided.
const (
	arrived eventKind = iota
	left              // Acquire or Start returned the context's error
	goes              // Start is called, later than Acquire has returned
	observed
	renewed
	released
	granted
	started
	refusedTurn
)

func (k eventKind) String() string {
	return [...]string{
		"arrives", "leaves", "calls Start", "is answered", "is renewed", "is released", "has its turn", "starts", "is refused",
	}[k]
}

// An event of a run, in the order in which they happened.
type event struct {
	at     time.Duration
	kind   eventKind
	req    *request
	grant  hostlimit.Grant
	effect hostlimit.Effect
	err    error

	expired bool // by Release; depends on who looked when
}

func (e *event) String() string {
	s := fmt.Sprintf("%v: request %d on host %d %v", e.at, e.req.id, e.req.host, e.kind)
	switch e.kind {
	case observed:
		s += fmt.Sprintf(" (%+v): %+v", e.req.outcome(), e.effect)
	case started:
		s += fmt.Sprintf(": %+v", e.grant)
	case left, refusedTurn:
		s += ": " + e.err.Error()
	}
	return s
}

const forever = time.Duration(math.MaxInt64)

// A modelTime is a time that may be unknown.
type modelTime struct {
	known bool
	at    time.Duration
}

// of returns t on the wall.
func (m *model) of(t modelTime) time.Time {
	if !t.known {
		return time.Time{}
	}
	return m.base.Add(t.at)
}

type modelHost struct {
	id       int
	limits   hostlimit.Limits
	seq      int
	last     time.Duration // stamp of the last start (or its end, with FromEnd) or booking; negative: none
	gap      time.Duration
	by       string     // what decided gap
	holder   *modelTurn // whose stamp that is, if it is in flight
	past     modelStamp // the last start of those that are not in flight any more
	prior    modelTime  // latest stamp of those
	fromEnds bool       // a delay has counted from an end
	adaptive time.Duration
	usual    time.Duration // how long pages take
	modelTrouble
	began   time.Duration // when the count of pages began
	answers int           // pages served since
	ended   bool          // an exchange has ended, from which the delay counts
	gate    []*modelTurn  // called Start, and wait there
	queue   []*modelTurn
	flying  []*modelTurn
	probe   *modelTurn
	idle    bool          // at some arrival since the last start it owed nothing
	untold  int           // leases that have expired and that no start has told of
	full    time.Duration // since when all slots are held; forever: they aren't
	lined   time.Duration // when it came into the line for a place
}

func (h *modelHost) String() string {
	ids := func(turns []*modelTurn) (s []int) {
		for _, w := range turns {
			s = append(s, w.req.id)
		}
		return s
	}
	return fmt.Sprintf("host %d: %d starts, last %v, gap %v, %d refusals until %v, in flight %v, in Start %v, queue %v, full since %v",
		h.id, h.seq, h.last, h.gap, h.inARow(), h.until, ids(h.flying), ids(h.gate), ids(h.queue), h.full)
}

type modelStamp struct {
	at, gap time.Duration
	by      string
}

// later reports whether the gap to s counts, and not that to o.
func (s modelStamp) later(o modelStamp) bool { return s.at > o.at || s.at == o.at && s.gap > o.gap }

type modelTurn struct {
	req              *request
	came             time.Duration // Acquire was called
	arrived          time.Duration // at the queue, then in Start
	stamp            modelStamp    // at is negative: void
	heard            time.Duration // last sign of life; forever in Start
	place            int           // number of its slot
	granted, started bool
	expired          bool
	unanswered       bool // the attempt has failed: the gap counts from its end
	probe            bool // it started alone
	beforeBlock      bool // granted, or started last, before the latest block was set
	slot, wait, hold time.Duration
	idle             time.Duration // of the host before its turn; 0 once it has started
}

type model struct {
	p      *program
	now    time.Duration
	hosts  map[int]*modelHost
	turns  map[*request]*modelTurn
	line   []*modelHost
	flying map[int]int // by party
	base   time.Time

	outputs map[*request][]*event // at this instant, not yet predicted
	going   []*modelTurn          // granted at this instant, and call Start in it
}

// check compares the log of a run with the model.
func (p *program) check(base time.Time, log []*event) error {
	if p.most() > 0 {
		return p.checkTogether(base, log)
	}
	byHost := make(map[int][]*event) // without a common bound each host lives alone
	for _, e := range log {
		byHost[e.req.host] = append(byHost[e.req.host], e)
	}
	for _, log := range byHost {
		if err := p.checkTogether(base, log); err != nil {
			return err
		}
	}
	return nil
}

// most is how many requests may be in flight over all hosts, or over those of a site; 0: any number.
// A program has one of these bounds at most.
func (p *program) most() int { return max(p.cfg.MaxInFlight, p.cfg.PerSite, 0) }

// party is what the bound of most holds for, of which h is one.
func (p *program) party(h *modelHost) int {
	if p.cfg.PerSite > 0 {
		return siteOf(h.id)
	}
	return 0
}

func (p *program) checkTogether(base time.Time, log []*event) error {
	m := &model{p: p, base: base, flying: make(map[int]int), hosts: make(map[int]*modelHost), turns: make(map[*request]*modelTurn), outputs: make(map[*request][]*event)}
	for len(log) > 0 {
		next := min(m.next(), log[0].at)
		m.advance(next)
		touched := m.due()
		n := 0
		for n < len(log) && log[n].at == m.now {
			n++
		}
		for _, e := range log[:n] {
			touched = append(touched, m.host(e.req.host))
			if e.kind >= granted {
				m.outputs[e.req] = append(m.outputs[e.req], e)
			}
		}
		for _, e := range log[:n] {
			if e.kind < granted {
				if err := m.input(e); err != nil {
					return err
				}
			}
		}
		log = log[n:]
		if err := m.settle(touched); err != nil {
			return err
		}
		for _, es := range m.outputs {
			e := es[0]
			return fmt.Errorf("%v, but the model has it wait: %v; %v in flight, in line: %v", e, m.host(e.req.host), m.flying, m.line)
		}
	}
	return nil
}

func (m *model) host(id int) *modelHost {
	h := m.hosts[id]
	if h == nil {
		h = &modelHost{id: id, limits: m.p.limits(id), full: forever, last: -1, past: modelStamp{at: -1}}
		m.hosts[id] = h
	}
	return h
}

// earliest is when the gap to the start before is over.
func (h *modelHost) earliest(floor time.Duration) time.Duration {
	if h.last < 0 {
		return 0
	}
	return h.last + max(h.gap, floor)
}

// pace makes s the start from which the gap counts; holder is its turn, if in flight.
func (h *modelHost) pace(s modelStamp, holder *modelTurn) {
	h.last, h.gap, h.by, h.holder = s.at, s.gap, s.by, holder
	h.raise(h.adaptive, "adaptive")
	h.raise(h.learned, "learned")
}

// raise makes the gap longer, if it is shorter than that.
func (h *modelHost) raise(d time.Duration, by string) bool {
	if h.last < 0 || d <= h.gap {
		return false
	}
	h.gap, h.by = d, by
	return true
}

// void takes the stamp of w away.
func (h *modelHost) void(w *modelTurn) {
	w.stamp.at = -1
	if h.probe == w {
		h.probe = nil
	}
	if h.holder != w {
		return
	}
	s, holder := h.past, (*modelTurn)(nil)
	for _, o := range h.flying {
		if o.stamp.at >= 0 && o.stamp.later(s) {
			s, holder = o.stamp, o
		}
	}
	h.pace(s, holder)
}

// passes reports whether nothing keeps w from the start that it calls for.
func (m *model) passes(h *modelHost, w *modelTurn) bool {
	if m.closed(h, m.now) || h.alone && h.probe != nil && h.probe != w {
		return false
	}
	return h.holder == w || h.earliest(w.req.floor) <= m.now
}

// open is the earliest time from t on that lies in one of the windows.
func (m *model) open(t time.Duration) time.Duration {
	if len(m.p.cfg.Windows) == 0 {
		return t
	}
	const day = 24 * time.Hour
	best := forever
	for _, w := range m.p.cfg.Windows {
		for from := t.Truncate(day) + w.From - day; from <= t+day; from += day {
			to := from - w.From + w.To
			if w.To < w.From {
				to += day
			}
			if t < to {
				best = min(best, max(t, from))
			}
		}
	}
	return best
}

// first is the earliest start that can be foreseen.
func (m *model) first(h *modelHost, floor time.Duration) time.Duration {
	return m.open(max(m.now, h.earliest(floor), h.until))
}

// closed reports whether a block or the hours forbid a start at t.
func (m *model) closed(h *modelHost, t time.Duration) bool { return t < h.until || m.open(t) > t }

func (m *model) blocked(h *modelHost) bool {
	return m.closed(h, m.now) || h.alone && h.probe != nil
}

func (h *modelHost) isFull() bool { return len(h.flying) >= h.limits.Concurrency }

// ready reports whether nothing but a common place keeps the head from starting.
func (m *model) ready(h *modelHost) bool {
	return len(h.gate) == 0 && len(h.queue) > 0 && !m.blocked(h) && !h.isFull() && h.earliest(h.queue[0].req.floor) <= m.now
}

// next is the next time at which something happens by itself.
func (m *model) next() time.Duration {
	t := forever
	for _, h := range m.hosts {
		if at := m.nextOf(h); at > m.now {
			t = min(t, at)
		}
	}
	if len(m.line) > 0 {
		for _, h := range m.hosts {
			for _, f := range h.flying {
				if at := f.due(m.p); at > m.now {
					t = min(t, at)
				}
			}
		}
	}
	return t
}

func (m *model) nextOf(h *modelHost) time.Duration {
	var head *modelTurn
	switch {
	case len(h.gate) > 0:
		head = h.gate[0]
	case len(h.queue) > 0:
		head = h.queue[0]
	default:
		return forever
	}
	t := forever
	soon := func(at time.Duration) {
		if at > m.now {
			t = min(t, at)
		}
	}
	soon(h.earliest(head.req.floor))
	soon(h.until)
	soon(h.until + m.p.refusals.Forgive)
	soon(m.open(m.now))
	for _, w := range m.p.cfg.Windows { // they close
		const day = 24 * time.Hour
		soon(m.now.Truncate(day) + w.To)
		soon(m.now.Truncate(day) + w.To + day)
	}
	soon(head.arrived + m.p.maxWait())
	for _, w := range slices.Concat(h.gate, h.queue) {
		if d := w.req.deadline; d > 0 {
			soon(w.came + d)
		}
	}
	if h.isFull() && len(h.gate) == 0 && m.p.cfg.SlotTimeout > 0 {
		soon(max(head.arrived, h.full) + m.p.cfg.SlotTimeout)
	}
	for _, f := range h.flying {
		soon(f.due(m.p))
	}
	return t
}

// due is when w expires.
func (w *modelTurn) due(p *program) time.Duration {
	if w.heard == forever {
		return forever
	}
	return w.heard + p.cfg.LeaseTTL
}

// advance books the time until t.
func (m *model) advance(t time.Duration) {
	for _, h := range m.hosts {
		for _, w := range h.gate {
			if d := t - m.now; m.blocked(h) {
				w.hold += d
			} else {
				w.wait += d
			}
		}
		for _, w := range h.queue {
			switch d := t - m.now; {
			case m.blocked(h):
				w.hold += d
			case len(h.gate) == 0 && (h.isFull() || slices.Contains(m.line, h)):
				w.slot += d
			default:
				w.wait += d
			}
		}
	}
	m.now = t
}

// due returns the hosts that may have something to do by now: where places are
// counted over all hosts, an expired lease of any may matter.
func (m *model) due() []*modelHost {
	var due []*modelHost
	for _, h := range m.hosts {
		if len(h.queue) > 0 || len(h.gate) > 0 || m.p.most() > 0 {
			due = append(due, h)
		}
	}
	return due
}

func (m *model) leastGap(h *modelHost, floor, before time.Duration) time.Duration {
	return max(h.limits.Delay.Min, floor, before)
}

// latest is the last start that is of use to w.
func (m *model) latest(w *modelTurn) (t time.Duration, byContext bool) {
	t = w.arrived + m.p.maxWait()
	if d := w.req.deadline; d > 0 && w.came+d-1 < t {
		return w.came + d - 1, true
	}
	return t, false
}

func (m *model) input(e *event) error {
	h := m.host(e.req.host)
	w := m.turns[e.req]
	if e.kind == goes || e.kind == renewed {
		w.heard = m.now
	}
	m.tidy(h)
	switch e.kind {
	case goes:
		return m.goes(h, w)
	case arrived:
		w = &modelTurn{req: e.req, came: m.now, arrived: m.now, stamp: modelStamp{at: -1}}
		h.idle = h.idle || len(h.queue) == 0 && len(h.flying) == 0 && h.earliest(0) <= m.now && !h.alone && m.now >= h.until
		m.turns[e.req] = w
		h.queue = append(h.queue, w)
		if latest, _ := m.latest(w); m.bound(h, w) > latest {
			return m.refuse(h, w, m.bound(h, w), m.late(h, w))
		}
	case left:
		if m.now != max(w.came+w.req.gone(), w.arrived) {
			return fmt.Errorf("%v, but its context ends after %v", e, w.req.gone())
		}
		h.leave(w, m.now)
	case observed:
		return m.observe(h, w, e)
	case released:
		m.land(h, w)
		if w.expired && !e.expired {
			h.untold-- // nobody had looked: it ends now
			h.part(w, m.now)
		}
	}
	return nil
}

// bound is the earliest start of w, which is in the queue.
func (m *model) bound(h *modelHost, w *modelTurn) time.Duration {
	ahead := slices.Concat(h.gate, h.queue)
	at := m.first(h, ahead[0].req.floor)
	for i := 1; ahead[i-1] != w; i++ {
		at += m.leastGap(h, ahead[i].req.floor, ahead[i-1].req.floor)
	}
	return m.open(at)
}

// again is when w should come back, which has waited for what has no known end.
func (m *model) again(h *modelHost, w *modelTurn) time.Duration {
	if at := m.bound(h, w); at > m.now {
		return at
	}
	at := m.now + m.now - w.arrived
	for _, f := range h.flying {
		at = min(at, f.due(m.p))
	}
	return at
}

// tidy is what time alone does to a host.
func (m *model) tidy(h *modelHost) {
	for _, w := range slices.Clone(h.flying) {
		if w.due(m.p) <= m.now {
			w.expired = true
			h.untold++
			m.land(h, w)
		}
	}
	if h.alone && m.now >= h.until+m.p.refusals.Forgive {
		h.clear()
	}
}

// part makes w, which ends at that time, one of those that aren't in flight any more.
func (h *modelHost) part(w *modelTurn, at time.Duration) {
	if w.started && w.stamp.at >= 0 && (!h.prior.known || w.stamp.at > h.prior.at) {
		h.prior = modelTime{true, w.stamp.at}
	}
	if w.started && (h.limits.Delay.FromEnd || w.unanswered) {
		h.ended, h.fromEnds = true, true
		w.stamp.at = at
		if since := (modelStamp{h.last, h.gap, h.by}); h.holder != w && w.stamp.later(since) {
			h.pace(w.stamp, w)
			if since.at >= 0 {
				h.raise(since.at+since.gap-h.last, since.by)
			}
		}
		if w.stamp.at >= h.last {
			h.holder, h.last = w, w.stamp.at
		}
	}
	switch {
	case !w.started:
		h.void(w)
	case h.holder == w:
		h.holder, h.past = nil, modelStamp{h.last, h.gap, h.by}
	case w.stamp.later(h.past):
		h.past = w.stamp
	}
}

// land takes w from the requests in flight, if it still is.
func (m *model) land(h *modelHost, w *modelTurn) {
	if i := slices.Index(h.flying, w); i >= 0 {
		h.flying = slices.Delete(h.flying, i, i+1)
		m.flying[m.p.party(h)]--
		at := m.now
		if w.expired {
			at = w.due(m.p)
		}
		h.part(w, at)
	}
	if h.probe == w {
		h.probe = nil
	}
}

// lasting is the block that an answer asks for itself, and the block that it sets as the
// n-th refusal in a row.
func (p *program) lasting(o hostlimit.Outcome, n int) (asked, set time.Duration) {
	asked = o.Reset
	heeded := o.RetryAfter > 0 && (o.Status >= 300 || p.refuses(o))
	if heeded {
		asked = o.RetryAfter
	}
	asked = min(asked, p.refusals.MaxRetryAfter)
	switch policy := p.refusals.Policy.(type) {
	case backoff.Doubling:
		set = doubling(n, policy.Start, policy.Cap)
	case backoff.Fibonacci:
		set = fibonacci(n, policy.Unit, policy.Cap)
	}
	if p.cannot(o) {
		set = fibonacci(n, time.Second, 10*time.Minute)
	}
	if p.mayOutlast(o) {
		set = outlasting(n, 10*time.Minute)
	}
	if set = max(set, asked); heeded && !p.refusals.AtLeast {
		set = asked
	}
	return asked, set
}

// doubling and fibonacci are the n-th lengths of a block, as the guide has them.
func doubling(n int, start, longest time.Duration) time.Duration {
	for ; n > 1 && start < longest; n-- {
		start *= 2
	}
	return min(start, longest)
}

func fibonacci(n int, unit, longest time.Duration) time.Duration {
	before, at := time.Duration(0), unit
	for ; n > 1 && at < longest; n-- {
		before, at = at, before+at
	}
	return min(at, longest)
}

// mayOutlast reports whether pauses go on after the longest of the guide's own steps.
func (p *program) mayOutlast(o hostlimit.Outcome) bool {
	return o.Status != 0 && p.refusals.Policy == backoff.Policy(backoff.Fibonacci{Unit: time.Second, Cap: 10 * time.Minute})
}

// outlasting is the n-th of Fibonacci steps of a second that double after two of the longest, to 4 h.
func outlasting(n int, longest time.Duration) time.Duration {
	at := fibonacci(n, time.Second, longest)
	for k := n; k > 2 && fibonacci(k-2, time.Second, longest) == longest; k-- {
		at = min(2*at, 4*time.Hour)
	}
	return at
}

// refuses reports whether an answer is a refusal by itself.
func (p *program) refuses(o hostlimit.Outcome) bool {
	return o.Refused != "" || o.Status == 429 || slices.Contains(p.refusals.Statuses, o.Status) || o.Status == 503 && o.RetryAfter > 0 && p.refusals.AtLeast ||
		o.Status == 0 && p.refusals.Network && !p.left(o)
}

// cannot reports whether an answer is of a host that doesn't refuse but can't.
func (p *program) cannot(o hostlimit.Outcome) bool {
	return (o.Status == 0 || o.Status == 408 || o.Status == 425 || o.Status/100 == 5) && !p.refuses(o) && !p.asksWrongly(o)
}

// left reports whether the caller gave up.
func (p *program) left(o hostlimit.Outcome) bool {
	return o.Err == context.Canceled || o.Err == context.DeadlineExceeded //nolint:errorlint // the program's own
}

// forbids reports whether an answer is a 403 or the like.
func (p *program) forbids(o hostlimit.Outcome) bool {
	known := slices.Contains([]int{404, 408, 410, 425}, o.Status)
	return o.Status >= 400 && o.Status/100 != 5 && !known && !p.refuses(o) && !p.asksWrongly(o)
}

// asksWrongly reports whether an answer is about the request, and about nothing else.
func (p *program) asksWrongly(o hostlimit.Outcome) bool {
	get := o.Method == "" || o.Method == "GET"
	switch o.Status {
	case 400, 405, 409:
		return !get || !o.Page || o.Conditional
	case 406:
		return !get || o.Conditional
	case 501:
		return !get
	}
	return slices.Contains([]int{407, 411, 412, 413, 414, 415, 416, 417, 421, 422, 423, 424, 426, 428, 431}, o.Status)
}
