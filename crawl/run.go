package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
)

// lend is the largest number of URLs that Queue.Take lends of a host at once.
const lend = 16

// A run is one crawl. Its fields belong to the goroutine of Run, but for those marked as shared;
// other goroutines send it functions by events.
type run struct {
	c       *Crawler
	queue   Queue
	owner   Owner           // the same, if it is one
	ctx     context.Context // of the crawl
	late    context.Context // ends Grace after ctx
	events  chan func()
	workers chan struct{} // held by calls of Visit
	room    *semaphore.Weighted
	leads   atomic.Bool // shared: a request of the Client has reached the Transport

	mu        sync.Mutex
	canonical map[string]bool // shared: URLs to which others have given way

	frontier   frontier
	asleep     heap[sleeper]
	visiting   int               // number of answered pages whose visit hasn't ended
	kept       int               // bytes of the pages in host.refusals
	pages      map[string]int    // visited, by host, if MaxPagesPerHost is set
	discovered map[string]string // by host: the URL with which Discover was called; empty: it has returned
	seeking    int               // number of calls of Discover that haven't ended
	held       map[string]Result // by host: the results of these URLs
	looking    bool              // look has a goroutine
	looked     int               // index in frontier.waiting of the last host for look
	unlisted   bool              // the Queue may have hosts that aren't in the frontier
	open       bool              // other programs may still add to the Queue

	work    work // the next calls of the Queue
	storing bool // the Queue is at work
	asked   bool // Queue.Hosts was called since the last URL was taken
	stopped bool // nothing is started any more
	err     error

	began   time.Time
	summary Summary
	shown   Progress
}

// A work is the arguments of the Queue's next calls.
type work struct {
	add      []Request
	done     []Result
	back     []Result // of hosts that other processes have, see Owner: they are as Left, uncounted
	rejected []Result // of URLs that the Queue doesn't get, for Config.Done
	want     []string // hosts for Take
	list     bool     // whether Hosts is called
	places   int      // number of hosts for Hosts
}

func (w *work) empty() bool {
	return max(len(w.add), len(w.done), len(w.back), len(w.rejected), len(w.want)) == 0 && !w.list
}

// A sleeper is a request that comes back at a time of its own, see verdict.later.
type sleeper struct {
	at      time.Time
	request Request
}

func (s sleeper) Before(o sleeper) bool { return s.at.Before(o.at) }

// Run crawls from urls, and from what the Queue holds, until nothing is left or ctx is done. Then
// nothing is started any more, and what is in flight is still visited and counted if it ends within
// Grace; the rest is Left. Summary.Stopped is why URLs were left. The error is that of the Queue,
// that of the last of urls if none can be crawled, or that Config.Client doesn't lead to
// Config.Transport.
func (c *Crawler) Run(ctx context.Context, urls ...string) (Summary, error) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r := &run{
		c: c, queue: c.cfg.Queue, ctx: ctx, late: late,
		events: make(chan func(), 256), workers: make(chan struct{}, c.cfg.Workers), room: semaphore.NewWeighted(largeBodies),
		canonical: make(map[string]bool), discovered: make(map[string]string), held: make(map[string]Result),
		began: time.Now(), summary: Summary{Outcomes: make(map[Outcome]int), Errors: make(map[Outcome]error)},
	}
	r.frontier = frontier{hosts: make(map[string]*host), max: cmp.Or(c.cfg.Transport.Limiter().Config().MaxInFlight, maxInFlight)}
	if r.queue == nil {
		r.queue = newMemory(c.cfg.MaxURLs)
	}
	r.owner, _ = r.queue.(Owner)
	if c.cfg.MaxPagesPerHost > 0 {
		r.pages = make(map[string]int)
	}
	var err error
	for _, u := range urls {
		err = r.accept(Request{URL: u})
	}
	if n := r.summary.Outcomes[Invalid]; n > 0 && n == len(urls) {
		r.tell(r.work.rejected)
		return r.summary, err
	}
	r.work.list = true // the Queue may have hosts from before
	r.loop(cancel)
	if m, ok := r.queue.(*memory); ok {
		for req := range m.left {
			res := Result{Request: req, Outcome: Left}
			r.count(res)
			r.tell([]Result{res})
		}
	}
	r.report(time.Now(), true)
	return r.summary, r.err
}

// maxInFlight is the largest number of flights where the limiter has no bound.
const maxInFlight = 4096

// loop starts what can be started and calls the functions in events, until the crawl is over.
func (r *run) loop(cancel context.CancelFunc) {
	timer := time.NewTimer(none)
	defer timer.Stop()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	done := r.ctx.Done()
	if r.ctx.Err() != nil {
		r.stop(ended(r.ctx))
	}
	for {
		r.giveUpDead(time.Now())
		wait := r.launch(time.Now())
		r.store()
		if r.over() {
			return
		}
		timer.Reset(wait)
		select {
		case event := <-r.events:
			event()
			for range len(r.events) {
				(<-r.events)()
			}
		case <-timer.C:
		case <-ticker.C:
			r.report(time.Now(), false)
			r.giveBack()
			r.work.list = r.work.list || r.open || r.owner != nil || r.unlisted && !r.stopped && r.places() > 0
			r.look(time.Now())
		case <-done:
			done = nil
			r.stop(ended(r.ctx))
			defer time.AfterFunc(r.c.cfg.Grace, cancel).Stop()
		}
	}
}

// ended returns the error of a context that is done, with its cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// launch starts all that can be started. wait is the time until there may be more.
func (r *run) launch(now time.Time) (wait time.Duration) {
	if r.stopped {
		return none
	}
	for len(r.asleep) > 0 && !r.asleep[0].at.After(now) {
		s := r.asleep.pop()
		r.frontier.back(r.host(s.request.Host), s.request)
	}
	for wait = 0; wait == 0; {
		if r.stopped || r.crowded() {
			wait = none
			break
		}
		var fl *flight
		if fl, wait = r.frontier.take(now); fl != nil {
			r.asked = false
			r.limit(fl.h)
			r.want(fl.h)
			if !r.lost(fl) && !r.tooLong(fl, now) && !r.enough(fl) {
				go r.ask(fl)
			}
		}
	}
	if len(r.asleep) > 0 {
		wait = min(wait, r.asleep[0].at.Sub(now))
	}
	return wait
}

// Transport.Next is called every now and then for a host that waits for longer than patient: a
// person may have lifted its block, or changed its limits. There are maxLooks calls a second.
const (
	patient  = 2 * time.Second
	maxLooks = 100
)

// look calls Transport.Next for some of the hosts that wait, and moves them up if it is earlier.
func (r *run) look(now time.Time) {
	if r.looking {
		return
	}
	waiting := r.frontier.waiting
	urls := make(map[*host]string)
	for range min(len(waiting), maxLooks) {
		r.looked = (r.looked + 1) % len(waiting)
		t := waiting[r.looked]
		if req, ok := t.h.next(); ok && t.at.Sub(now) > patient {
			urls[t.h] = req.URL
		}
	}
	if len(urls) == 0 {
		return
	}
	r.looking = true
	go func() {
		sooner := make(map[*host]time.Time)
		var spent []*host
		defer func() {
			r.events <- func() {
				r.looking = false
				for h := range sooner {
					h.tooLate = nil
				}
				for _, h := range spent {
					if h.tooLate == nil { // else that is known
						sooner[h] = now
					}
				}
				r.frontier.moveUp(sooner)
			}
		}()
		for h, url := range urls {
			var at time.Time
			err := guarded("the Transport, asked for "+url, func() (err error) {
				at, err = r.c.cfg.Transport.Next(r.late, url)
				return err
			})
			if err != nil {
				at = retryAt(err)
			}
			switch {
			case !at.IsZero():
				sooner[h] = at
			case errors.Is(err, politeness.ErrBudget): // no time will come
				spent = append(spent, h)
			}
		}
	}()
}

// enough reports whether no more pages of a host may be visited (MaxPagesPerHost). Then it gives
// the host's URLs up, or puts them back while others are under way that may not be visited.
func (r *run) enough(fl *flight) bool {
	h, limit := fl.h, r.c.cfg.MaxPagesPerHost
	visited, underWay := r.pages[h.key], h.open-len(h.urls)
	if limit == 0 || visited+underWay <= limit || fl.good {
		return false
	}
	r.frontier.finish(fl, 0)
	if visited < limit {
		h.at = fl.began.Add(time.Second)
		r.putBack(fl)
		if underWay == 1+h.refusals.size() {
			r.apply(h, h.refusals.dry())
		}
		return true
	}
	r.putBack(fl)
	r.giveUp(h, Result{Outcome: EnoughOfHost})
	return true
}

// tooLong reports whether the host of fl has refused for too long. Then it gives the URLs up.
func (r *run) tooLong(fl *flight, now time.Time) bool {
	h := fl.h
	if h.closed == nil && h.refusals.closed(now, r.c.cfg.Patience, r.c.cfg.Tries) {
		h.close()
	}
	if h.closed == nil {
		return false
	}
	r.frontier.finish(fl, 0)
	r.putBack(fl)
	r.giveUp(h, *h.closed)
	return true
}

// giveUp ends the URLs of h that are at hand, with res.
func (r *run) giveUp(h *host, res Result) {
	for _, res.Request = range r.atHand(h) {
		r.done(res, nil)
	}
	r.want(h) // the Queue may have further ones, which are given up as well
}

// atHand returns the URLs of h that are at hand, which h hasn't any more then.
func (r *run) atHand(h *host) (reqs []Request) {
	for _, p := range h.refusals.giveBack() {
		r.kept -= p.kept
		reqs = append(reqs, p.request)
	}
	reqs, h.urls = append(reqs, h.urls...), nil
	return reqs
}

// owns reports whether the host key is still this process's, see Owner. Where Owns panics it isn't,
// and err isn't nil.
func (r *run) owns(key string) (owns bool, err error) {
	if r.owner == nil {
		return true, nil
	}
	err = guarded("Owns of the Queue", func() error { owns = r.owner.Owns(key); return nil })
	return owns, err
}

// lost reports whether another process has the host of fl by now. Then it gives the URLs back.
func (r *run) lost(fl *flight) bool {
	owns, err := r.owns(fl.h.key)
	if !owns {
		r.leave(fl, err)
	}
	return !owns
}

// leave gives the URLs of fl's host back, which another process has. err is that of owns.
func (r *run) leave(fl *flight, err error) {
	r.abort(err)
	r.frontier.finish(fl, 0)
	r.putBack(fl)
	r.giveBack()
}

// giveBack gives the URLs at hand back of hosts that other processes have by now.
func (r *run) giveBack() {
	for _, h := range r.frontier.hosts {
		if h.open == 0 {
			continue
		}
		owns, err := r.owns(h.key)
		if r.abort(err); owns {
			continue
		}
		for _, req := range r.atHand(h) {
			r.work.back = append(r.work.back, Result{Request: req, Outcome: Left})
		}
		h.more = false
	}
}

// crowded reports whether nothing may be started until something has ended: the visits, or the
// Queue, don't keep up, or there are as many pages under way as may still be visited.
func (r *run) crowded() bool {
	return r.visiting > 4*r.c.cfg.Workers || len(r.work.done) > 1000 || len(r.work.add)+len(r.work.rejected) > 10*maxLinks || r.full()
}

// full reports whether as many pages are under way as may still be visited.
func (r *run) full() bool {
	limit := r.c.cfg.MaxPages
	return limit > 0 && r.summary.Outcomes[Visited]+r.frontier.inFlight()+r.visiting >= limit
}

// underWay reports whether a page, a call of Discover, or the Queue may still lead to URLs.
func (r *run) underWay() bool {
	return max(r.frontier.inFlight(), r.visiting, r.seeking) > 0 || r.storing || !r.work.empty()
}

// over reports whether the crawl has ended.
func (r *run) over() bool {
	if r.underWay() || r.looking {
		return false
	}
	if limit := r.c.cfg.MaxPages; limit > 0 && r.summary.Outcomes[Visited] >= limit {
		r.stop(fmt.Errorf("crawl: MaxPages, %d, are visited", limit))
	}
	if !r.stopped && len(r.frontier.hosts) == 0 && !r.asked {
		r.asked, r.work.list = true, true // another program may have filled the Queue
	}
	for _, res := range r.held { // Discover was cut off; the next Run calls it again
		r.work.rejected = append(r.work.rejected, res)
		res.Outcome = Left
		r.work.back = append(r.work.back, res)
	}
	clear(r.held)
	r.store()
	return !r.storing && (r.stopped || len(r.frontier.hosts) == 0 && !r.open)
}

// abort stops the crawl with err, unless that is nil. Run returns the first one.
func (r *run) abort(err error) {
	if err != nil {
		r.err = cmp.Or(r.err, err)
		r.stop(err)
	}
}

// stop ends the starts, and gives back the URLs that are at hand.
func (r *run) stop(why error) {
	if r.stopped {
		return
	}
	r.summary.Stopped = why
	r.stopped = true
	for _, h := range r.frontier.hosts {
		r.giveUp(h, Result{Outcome: Left})
	}
	for _, s := range r.asleep {
		r.done(Result{Request: s.request, Outcome: Left}, nil)
	}
	r.asleep = nil
}

// count adds res to the summary.
func (r *run) count(res Result) {
	r.summary.Outcomes[res.Outcome]++
	if res.Err != nil && r.summary.Errors[res.Outcome] == nil {
		r.summary.Errors[res.Outcome] = res.Err
	}
}

// done counts the result of a request, and hands it to the Queue with what the page has led to.
func (r *run) done(res Result, found []Request) {
	r.count(res)
	if r.pages != nil && res.Outcome == Visited {
		r.pages[res.Host]++
	}
	if res.URL == r.discovered[res.Host] { // the Queue has what Discover finds before
		r.held[res.Host] = res
	} else {
		r.work.done = append(r.work.done, res)
	}
	for _, req := range found {
		if r.pages != nil && r.pages[req.Host] >= r.c.cfg.MaxPagesPerHost {
			r.reject(Result{Request: req, Outcome: EnoughOfHost})
			continue
		}
		r.work.add = append(r.work.add, req)
	}
}

// reject counts the result of a URL that the Queue doesn't get.
func (r *run) reject(res Result) {
	r.count(res)
	if r.c.cfg.Done != nil {
		r.work.rejected = append(r.work.rejected, res)
	}
}

// tell calls Config.Done for each of results.
func (r *run) tell(results []Result) {
	for _, res := range results {
		if r.c.cfg.Done != nil {
			_ = guarded("Done of "+res.URL, func() error {
				r.c.cfg.Done(res)
				return nil
			})
		}
	}
}

// accept adds a request from Run or Discover, if its URL can be fetched.
func (r *run) accept(req Request) error {
	url, err := Normalize(req.URL)
	var key string
	if err == nil {
		err = guarded("HostKey of "+url, func() error {
			key, err = r.c.cfg.Transport.HostKey(url)
			return err
		})
	}
	if err != nil {
		err = fmt.Errorf("crawl: %q: %w", req.URL, err)
		r.reject(Result{Request: req, Outcome: Invalid, Err: err})
		return err
	}
	r.work.add = append(r.work.add, Request{URL: url, Host: key, Depth: req.Depth, Priority: clipped(req.Priority)})
	return nil
}

// clipped returns a priority in 32 bits, which is what a Queue keeps.
func clipped(priority int) int { return min(max(priority, math.MinInt32), math.MaxInt32) }

// host returns the host of key.
func (r *run) host(key string) *host {
	if h := r.frontier.hosts[key]; h != nil {
		return h
	}
	h := r.frontier.host(key)
	r.limit(h)
	return h
}

// limit sets the limits of h, which a person may change while the crawl runs. After a panic of
// Override they stay as they were.
func (r *run) limit(h *host) {
	_ = guarded("the limits of "+h.key, func() error {
		limits := r.c.cfg.Transport.Limiter().Config().Of(h.key)
		h.slots, h.gap = limits.Concurrency, limits.Delay.Min
		return nil
	})
}

// want asks the Queue for more URLs of h if it has few.
func (r *run) want(h *host) {
	if h.more && !h.asked && len(h.urls) <= lend/4 && !r.stopped {
		h.asked = true
		r.work.want = append(r.work.want, h.key)
	}
}

// known notes that the Queue may have URLs of the host key.
func (r *run) known(key string) {
	if r.frontier.hosts[key] == nil && r.places() <= 0 {
		r.unlisted = true
		return
	}
	h := r.host(key)
	h.more = true
	r.want(h)
}

// places returns the number of further hosts for which there is room.
func (r *run) places() int { return max(1, r.c.cfg.MaxURLs/lend) - len(r.frontier.hosts) }

// store calls the Queue with r.work, unless an earlier call hasn't ended.
func (r *run) store() {
	if r.storing {
		return
	}
	if !r.stopped && r.unlisted && r.places() >= max(1, r.c.cfg.MaxURLs/lend/2) { // loop sees to it where there is less room
		r.work.list = true
	}
	if r.work.empty() {
		return
	}
	w := r.work
	r.work, r.storing = work{}, true
	if w.list {
		r.unlisted = false
	}
	if w.places = max(0, r.places()); r.stopped {
		w.places = 0
	}
	go func() {
		var added, noRoom int
		var taken []Request
		var hosts []string
		open, err := r.open, errGone
		defer func() {
			r.events <- func() {
				r.open = open
				r.stored(&w, added, noRoom, taken, hosts, err)
			}
		}()
		ctx := context.WithoutCancel(r.ctx) // results are kept after the end
		err = guarded("the Queue", func() (err error) {
			if len(w.add) > 0 {
				added, noRoom, err = r.queue.Add(ctx, w.add)
			}
			if ended := append(w.back, w.done...); err == nil && len(ended) > 0 {
				err = r.queue.Done(ctx, ended)
			}
			return err
		})
		r.tell(append(w.rejected, w.done...))
		if err == nil {
			err = guarded("the Queue", func() (err error) {
				if len(w.want) > 0 {
					taken, err = r.queue.Take(ctx, w.want, lend)
				}
				if err == nil && w.list {
					hosts, open, err = r.queue.Hosts(ctx, w.places)
				}
				return err
			})
		}
	}()
}

// stored notes the results of the Queue's calls with w.
func (r *run) stored(w *work, added, noRoom int, taken []Request, hosts []string, err error) {
	r.storing = false
	r.abort(err)
	r.summary.Outcomes[NoRoom] += noRoom
	if r.err == nil { // else added may be too small
		r.summary.Outcomes[Duplicate] += len(w.add) - added - noRoom
	}
	for _, key := range w.want {
		r.host(key).asked, r.host(key).more = false, false
	}
	got := make(map[string]int)
	for _, req := range taken {
		h := r.host(req.Host)
		got[req.Host]++
		h.more = got[req.Host] == lend
		h.open++
		if r.stopped {
			r.done(Result{Request: req, Outcome: Left}, nil)
			continue
		}
		h.urls = append(h.urls, req)
		r.frontier.put(h)
	}
	if added > 0 {
		for _, req := range w.add {
			r.known(req.Host)
		}
	}
	for _, key := range hosts {
		r.known(key)
	}
	r.unlisted = r.unlisted || w.list && len(hosts) >= w.places
	for _, key := range w.want {
		h := r.host(key)
		r.want(h)
		r.settle(h)
		r.frontier.forget(h)
	}
	for _, res := range append(w.back, w.done...) {
		h := r.host(res.Host)
		h.open--
		r.settle(h)
		r.frontier.forget(h)
	}
}

// paced is why hosts wait whose host.why is empty.
const paced = "its delay between requests"

// askingForState bounds the time in which a limiter says why a host is blocked: the crawl stands
// still meanwhile, and one whose state is on a server may not answer.
const askingForState = 500 * time.Millisecond

// nextWhy returns why the host waits that goes first, where why is known of it without its limiter:
// others who share the limiter, and people, block hosts too.
func (r *run) nextWhy(key, why string) string {
	var state hostlimit.HostState
	err := guarded("the state of "+key, func() (err error) {
		ctx, cancel := context.WithTimeout(r.ctx, askingForState)
		defer cancel()
		state, err = r.c.cfg.Transport.Limiter().State(ctx, key)
		return err
	})
	_, byHand := hostlimit.Debt{Cause: state.BlockedBy}.ByHand()
	switch {
	case byHand, state.BlockedBy != "" && why == paced:
		return "blocked " + state.BlockedBy
	case err != nil && why == paced:
		return paced + ", or a block"
	}
	return why
}

// waiting yields the hosts that can't be asked for a URL for more than a second before or after
// now.
func (r *run) waiting(now time.Time, yield func(Wait) bool) {
	for _, h := range r.frontier.hosts {
		w := Wait{Host: h.key}
		_, ok := h.next()
		switch {
		case !ok && h.wakes.After(now):
			w.Until, w.Why = h.wakes, h.refusals.String()
		case !ok:
			continue
		case h.at.After(now): // also behind pages in flight
			w.Until, w.Why = h.at, cmp.Or(h.why, paced)
		case !h.robotsAsked && h.place == asking:
			w.Why = "its robots.txt"
		case h.place == inDue:
			w.Why = "a connection, or a call of Visit"
		case h.flights == 1:
			w.Why = "its page in flight"
		default:
			w.Why = fmt.Sprintf("its %d pages in flight", h.flights)
		}
		if max(w.Until.Sub(now), now.Sub(h.at)) > time.Second && !yield(w) {
			return
		}
	}
}

// report calls Config.Progress.
func (r *run) report(now time.Time, done bool) {
	r.summary.Elapsed = now.Sub(r.began)
	if r.c.cfg.Progress == nil {
		return
	}
	p := Progress{
		Summary: r.summary, Hosts: len(r.frontier.hosts), InFlight: r.frontier.inFlight(), Open: r.open, Done: done,
	}
	if err := guarded("Err of an Evidence", func() error { p.Lost = r.c.cfg.Transport.EvidenceErr(); return nil }); err != nil {
		p.Lost = err
	}
	p.Waiting = func(yield func(Wait) bool) { r.waiting(now, yield) }
	for w := range p.Waiting {
		if p.Next == "" || !w.Until.IsZero() && (p.NextAt.IsZero() || w.Until.Before(p.NextAt)) {
			p.Next = w.Host
			p.NextAt = w.Until
			p.NextWhy = w.Why
		}
	}
	if _, idle := p.idle(); idle && p.Next == r.shown.Next && p.NextAt.Equal(r.shown.NextAt) {
		p.NextWhy = r.shown.NextWhy
	} else if idle {
		p.NextWhy = r.nextWhy(p.Next, p.NextWhy)
	}
	p.Outcomes, p.Errors = maps.Clone(p.Outcomes), maps.Clone(p.Errors)
	if passed := p.Elapsed - r.shown.Elapsed; passed > 0 {
		p.Rate = float64(p.Visited()-r.shown.Visited()) / passed.Seconds()
	}
	r.shown = p
	_ = guarded("Progress", func() error {
		r.c.cfg.Progress(p)
		return nil
	})
}
