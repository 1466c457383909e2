package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/semaphore"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/revisit"
)

// A run is one crawl. The goroutine of Run owns it: no other goroutine reads or writes its fields,
// except for the Crawler, the contexts, the channels and the fields marked as shared. The other
// goroutines report to it by events, see event.
type run struct {
	c     *Crawler
	queue Queue
	owner Owner // the same, if it is one

	recurring Recurring       // the same, if it is one
	postponer Postponer       // the same, if it is one and the crawl postpones URLs
	ctx       context.Context // of the crawl
	starts    context.Context // of waits for a start, and of Discover: it ends when the crawl stops
	endStarts context.CancelFunc
	late      context.Context // ends Grace after ctx
	events    chan event
	workers   chan struct{}       // held by calls of Visit
	room      *room               // of the responses
	reading   *semaphore.Weighted // of bytes of long pages, see readText
	leads     atomic.Bool         // shared: a request of the Client has reached the Transport

	mu        sync.Mutex
	canonical *simplelru.LRU[string, bool] // shared: URLs to which others have given way
	lentEarly *simplelru.LRU[string, bool] // URLs that the Queue has lent before they may be fetched

	frontier      frontier
	asleep        heap[sleeper]
	visiting      int               // number of answered pages whose visit hasn't ended
	kept          int               // bytes of the pages in host.refusals
	spent         int               // number of URLs that count in MaxPages, see countsAsPage
	pages         map[string]int    // those of each host, if MaxPagesPerHost is set
	discovered    map[string]string // by host: the URL with which Discover was called; empty: it has returned
	seeking       int               // number of calls of Discover that haven't ended
	held          map[string]Result // by host: the results of these URLs
	resting       map[string]*rest  // by host, see rest
	asides        int               // number of URLs in host.aside
	gaveAt        int               // number of pages visited when giveAsides was last called
	gaveBefore    bool              // it was called before
	refusedAll    bool              // rules refuse all that the Queue has, twice in a row
	asking        bool              // callRules has a goroutine
	askedAside    time.Time         // when it had one last, or when the run began
	looking       bool              // lookAhead has a goroutine
	looked        int               // index in frontier.waiting of the last host for lookAhead
	postponed     postponed         // as the Queue has counted last
	leftPostponed postponed         // of URLs that are Left
	left          leftCount         // URLs that wait or are lent
	pace          pace
	reported      standing // of the last status
	leftLater     bool     // postponed URLs were given back that aren't asked for
	unlisted      bool     // the Queue may have hosts that aren't in the frontier
	open          bool     // other programs may still add to the Queue

	work     work // the next calls of the Queue
	storing  bool // the Queue is at work
	relisted bool // Queue.Hosts was called since the last URL was taken
	watch    watch
	stopped  bool // nothing is started any more
	err      error

	began   time.Time
	summary Summary
	shown   Progress

	warnings []string // for the next Progress
}

// A sleeper is a request that comes back at its own time.
type sleeper struct {
	at       time.Time
	request  Request
	isBarred bool // its origin's robots.txt couldn't be fetched
}

func (s sleeper) Before(o sleeper) bool { return s.at.Before(o.at) }
func (s sleeper) placed(int)            {}

// Run crawls from urls, and from the requests in the Queue, until nothing is left or ctx is done.
// Then nothing is started any more. A page in flight is still visited and counted if it ends within
// Grace. The rest is Left. If ctx has a deadline, Run ends as soon as nothing can start before it.
// It doesn't wait for a host that is blocked for longer. Summary.Stopped is why URLs were left. Run
// returns an error in three cases. The Queue has failed, or none of urls can be crawled, or
// Config.Client doesn't lead to Config.Transport. If none of urls can be crawled, the error is that
// of the last.
func (c *Crawler) Run(ctx context.Context, urls ...string) (Summary, error) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r := c.newRun(ctx, late)
	defer r.endStarts()
	r.work.add = make([]Request, 0, len(urls))
	var err error
	for _, u := range urls {
		err = r.accept(Request{URL: u})
	}
	// A crawl of invalid URLs alone is a mistake of the caller's. Without any URL, the crawl
	// continues with the requests that the Queue holds.
	invalid := r.summary.Outcomes[Invalid]
	if invalid > 0 && invalid == len(urls) {
		r.callDone(r.work.rejected) // the loop would have done so
		return r.summary, err
	}
	r.work.list = true // the Queue may have hosts from before
	r.loop(cancel)
	r.leaveMemory()
	r.countAsides()
	r.countPostponed()
	r.giveLeave()
	r.report(time.Now(), true)
	return r.summary, r.err
}

// newRun returns a run that hasn't begun. The context late ends Grace after ctx.
func (c *Crawler) newRun(ctx, late context.Context) *run {
	r := &run{
		c:          c,
		queue:      c.cfg.Queue,
		ctx:        ctx,
		late:       late,
		events:     make(chan event, 256),
		workers:    make(chan struct{}, c.cfg.Workers),
		room:       newRoom(c.cfg.MaxHeld, c.cfg.MaxBody),
		reading:    semaphore.NewWeighted(readAtOnce),
		canonical:  newURLs(),
		lentEarly:  newURLs(),
		discovered: make(map[string]string),
		held:       make(map[string]Result),
		resting:    make(map[string]*rest),
		askedAside: time.Now(),
		began:      time.Now(),
		left:       leftCount{n: -1},
		summary: Summary{
			Outcomes: make(map[Outcome]int),
			Statuses: make(map[int]int),
			Errors:   make(map[Outcome]error),
			Changes:  make(map[revisit.Change]int),
		},
		frontier: frontier{
			hosts: make(map[string]*host),
			max:   min(cmp.Or(c.cfg.Transport.Limiter().Config().MaxInFlight, maxInFlight), mostInFlight),
		},
	}
	if r.queue == nil {
		r.queue = newMemory(c.cfg.MaxURLs)
	}
	r.starts, r.endStarts = context.WithCancel(ctx)
	r.owner, _ = r.queue.(Owner)
	r.recurring, _ = r.queue.(Recurring)
	if postponer, ok := r.queue.(Postponer); ok && c.cfg.Traps != TrapsIgnored {
		r.postponer = postponer
		r.frontier.rule = newRule(c.cfg.Traps)
	}
	if c.cfg.MaxPagesPerHost > 0 {
		r.pages = make(map[string]int)
	}
	return r
}

// mostURLs is how many URLs are remembered to which others have given way, and how many that were
// lent early: a crawl may watch for years.
const mostURLs = 1 << 16

func newURLs() *simplelru.LRU[string, bool] {
	urls, _ := simplelru.NewLRU[string, bool](mostURLs, nil) // an error is for 0 and less
	return urls
}

// leaveMemory counts the URLs that the Queue in memory still has at the end: they are lost with it,
// while a Queue of the user's keeps its own for the next Run.
func (r *run) leaveMemory() {
	m, ok := r.queue.(*memory)
	if !ok {
		return
	}
	for req := range m.left {
		if r.revisits() && isSources(req.URL) {
			continue
		}
		res := Result{Request: req, Outcome: Left}
		res.Why = r.frontier.rule.why(&req)
		r.count(res)
		r.callDone([]Result{res})
	}
}

// giveLeave returns the unspent part that the Transport has taken to a kept budget.
func (r *run) giveLeave() {
	_ = guarded("the budget", func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), givingBack)
		defer cancel()
		return r.c.cfg.Transport.GiveBack(ctx)
	})
}

// givingBack bounds the time that a kept budget may take at the end of the Run.
const givingBack = 10 * time.Second

// maxInFlight is the largest number of flights where the limiter has no bound. A bound above
// mostInFlight is as good as none, and shares of it would overflow.
const (
	maxInFlight  = 4096
	mostInFlight = 1 << 20
)

// loop starts flights and visits that can be started, and applies events, until the crawl is over.
func (r *run) loop(cancel context.CancelFunc) {
	timer := time.NewTimer(none)
	defer timer.Stop()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	done := r.ctx.Done()
	if r.ctx.Err() != nil {
		r.stop(ended(r.ctx)) // before anything starts: the select below comes later
	}
	for {
		r.endWaits(time.Now())
		wait := r.launch(time.Now())
		r.feed()
		r.store()
		if r.over() {
			return
		}
		timer.Reset(wait)
		select {
		case event := <-r.events:
			event.apply(r)
			// After many events, the steps above cost as much as after one.
			for range len(r.events) {
				(<-r.events).apply(r)
			}
		case <-timer.C: // launch finds the host whose time has come
		case <-ticker.C:
			r.tick()
		case <-done:
			done = nil // it stays closed, and select would choose it forever
			r.stop(ended(r.ctx))
			defer time.AfterFunc(r.c.cfg.Grace, cancel).Stop()
		}
	}
}

// tick does the work that no event triggers, once a second.
func (r *run) tick() {
	r.wantLeft(time.Now())
	r.report(time.Now(), false)
	r.giveBack()
	// Queue.Hosts finds URLs of other programs while the Queue is open, renews the lease of an
	// Owner, and yields the hosts that had no room before.
	roomForHosts := r.unlisted && !r.stopped && r.places() > 0
	if r.open || r.owner != nil || roomForHosts {
		r.work.list = true
	}
	r.endWatch(time.Now())
	r.wantPostponed(time.Now())
	r.lookAhead(time.Now())
	r.askAside(time.Now())
}

// ended returns the error of a context that is done, with its cause.
func ended(ctx context.Context) error {
	err := ctx.Err()
	cause := context.Cause(ctx)
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// launch starts all that can be started. It returns the time until there may be more.
func (r *run) launch(now time.Time) time.Duration {
	if r.stopped {
		return none
	}
	r.wake(now)
	wait := r.launchDue(now)
	if len(r.asleep) > 0 {
		wait = min(wait, r.asleep[0].at.Sub(now))
	}
	return wait
}

// wake gives the sleepers back to their hosts when their time has come.
func (r *run) wake(now time.Time) {
	for len(r.asleep) > 0 && !r.asleep[0].at.After(now) {
		r.awake(r.asleep.pop())
	}
}

// launchDue starts the requests of the hosts that are due. It returns the time until the next host
// is.
func (r *run) launchDue(now time.Time) time.Duration {
	for {
		// Both may come to be true in this loop: by a panic of Owns, and by each start.
		if r.stopped || r.crowded() {
			return none
		}
		fl, wait := r.frontier.take(now)
		if fl == nil {
			return wait
		}
		r.relisted = false // the Queue may have further URLs when this one is done
		r.watch = watch{}
		r.refusedAll = false
		r.limit(fl.h)
		r.want(fl.h)
		// Each of them puts the URL back, or gives it up, where it reports true.
		if !r.lost(fl) && !r.tooLong(fl, now) && !r.enough(fl) && !r.askSources(fl) {
			go r.ask(fl)
		}
	}
}

// Transport.Next is called at times for a host that waits for longer than patient, because an
// operator may have lifted its block or changed its limits. There are maxLooks calls a second.
const (
	patient  = 2 * time.Second
	maxLooks = 100
)

// lookAhead calls Transport.Next for some of the hosts that wait, and moves them up if it is
// earlier.
func (r *run) lookAhead(now time.Time) {
	if r.looking {
		return // the limiter is slow: one goroutine is enough to wait for it
	}
	waiting := r.frontier.waiting
	urls := make(map[*host]string)
	// The index goes round, so that each host has its turn, also of more than maxLooks of them.
	for range min(len(waiting), maxLooks) {
		r.looked = (r.looked + 1) % len(waiting)
		next := waiting[r.looked]
		if req, ok := next.h.next(); ok && next.at.Sub(now) > patient {
			urls[next.h] = req.URL
		}
	}
	if len(urls) == 0 {
		return
	}
	r.looking = true
	go r.callNext(urls)
}

// callNext calls Transport.Next for each host of urls, in a separate goroutine.
func (r *run) callNext(urls map[*host]string) {
	seen := lookedAhead{
		began:  time.Now(),
		sooner: make(map[*host]time.Time),
		spent:  make(map[*host]bool),
	}
	defer func() { r.events <- seen }()
	for h, url := range urls {
		at, err := guardedValue("the Transport, asked for "+url, func() (time.Time, error) {
			return r.c.cfg.Transport.Next(r.late, url)
		})
		if err != nil {
			at = retryAt(err)
		}
		switch {
		case !at.IsZero():
			seen.sooner[h] = at
		case errors.Is(err, politeness.ErrBudget): // no time will come
			seen.spent[h] = true
		}
	}
}

// A lookedAhead has the results of callNext.
type lookedAhead struct {
	began  time.Time
	sooner map[*host]time.Time // when hosts may be asked
	spent  map[*host]bool      // hosts for which the budget has nothing left
}

func (e lookedAhead) apply(r *run) {
	r.looking = false
	for h := range e.sooner {
		h.tooLate = nil // there is a time for it again
	}
	// The refusal of a spent budget ends the URLs of its host now, because waiting is useless. A host
	// that is too late for the budget's time has had this refusal, and waits for the end of that time.
	for h := range e.spent {
		if h.tooLate == nil {
			e.sooner[h] = e.began
		}
	}
	r.frontier.moveUp(e.sooner)
}

// enough reports whether no more pages of a host may be visited (MaxPagesPerHost). Then it gives
// the host's URLs up, or puts them back while others are under way that may not be pages.
func (r *run) enough(fl *flight) bool {
	h := fl.h
	limit := r.c.cfg.MaxPagesPerHost
	if limit == 0 || fl.good { // a page that was served before isn't visited again
		return false
	}
	visited := r.pages[h.key]
	underWay := h.open - len(h.urls) - len(h.aside) - h.barredURLs
	if visited+underWay <= limit {
		return false
	}
	r.frontier.finish(fl, 0)
	if visited >= limit {
		r.putBack(fl)
		r.giveUp(h, Result{Outcome: EnoughOfHost})
		return true
	}
	// A page under way may fail, which leaves a visit for this URL.
	h.at = fl.began.Add(time.Second)
	r.putBack(fl)
	if underWay == 1+h.refusals.size() {
		// Beside fl only pages in h.refusals are under way. They wait for a response of the host,
		// and fl, which would bring it, waits for them.
		r.apply(h, h.refusals.dry())
	}
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
	// h stays closed, so further URLs that the Queue lends of it have this outcome, too.
	r.frontier.finish(fl, 0)
	r.putBack(fl) // to those at hand, which giveUp ends
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

// atHand returns the URLs of h that are at hand, and takes them away from h.
func (r *run) atHand(h *host) []Request {
	var reqs []Request
	for _, p := range h.refusals.giveBack() {
		r.kept -= p.kept // their answers, such as 403, are dropped with their bodies
		reqs = append(reqs, p.request)
	}
	reqs = append(reqs, h.urls...)
	h.urls = nil
	return reqs
}

// owns reports whether the host key is still this process's, see Owner. If Owns panics, the host
// isn't, and err is the panic.
func (r *run) owns(key string) (owns bool, err error) {
	if r.owner == nil {
		return true, nil
	}
	return guardedValue("Owns of the Queue", func() (bool, error) { return r.owner.Owns(key), nil })
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
			continue // Owns is about hosts of which something is lent
		}
		owns, err := r.owns(h.key)
		r.abort(err)
		if owns {
			continue
		}
		// The other process counts them.
		for _, req := range r.atHand(h) {
			r.work.back = append(r.work.back, Result{Request: req, Outcome: Left})
		}
		for _, a := range r.takeAsides(h) {
			r.work.back = append(r.work.back, Result{Request: a.request, Outcome: Left})
		}
		h.more = false
	}
}

// crowded reports whether nothing may be started until something has ended: the visits, or the
// Queue, don't keep up, or there are as many pages under way as may still be visited.
func (r *run) crowded() bool {
	slowVisits := r.visiting > 0 && (r.visiting-1)/4 >= r.c.cfg.Workers // more than four for each worker
	slowQueue := len(r.work.done) > 1000 || len(r.work.add)+len(r.work.rejected) > 10*maxLinks
	return slowVisits || slowQueue || r.full()
}

// full reports whether as many pages are under way as may still be visited.
func (r *run) full() bool {
	// Each page under way may be visited. If one isn't, launch is called at its end, and finds room.
	limit := r.c.cfg.MaxPages
	return limit > 0 && r.spent+r.frontier.inFlight()+r.visiting >= limit
}

// underWay reports whether a page, a call of Discover, or the Queue may still lead to URLs.
func (r *run) underWay() bool {
	return max(r.frontier.inFlight(), r.visiting, r.seeking) > 0 || r.storing || !r.work.empty()
}

// over reports whether the crawl has ended.
func (r *run) over() bool {
	if r.underWay() || r.looking || r.asking {
		return false
	}
	limit := r.c.cfg.MaxPages
	if limit > 0 && r.spent >= limit {
		r.stop(fmt.Errorf("%w: %d pages", ErrMaxPages, limit))
	}
	idle := r.allAside()
	if idle && r.asides > 0 && !r.giveAsides(time.Now()) {
		return false
	}
	if !r.stopped && idle && !r.relisted {
		// Another program may have filled the Queue since it was asked. One call is enough: if it
		// yields nothing, the next one would be made at once as well, and so on.
		r.relisted = true
		r.work.list = true
	}
	// The end of the crawl has cut Discover off, see stop. Its URL waits in the Queue, so that the
	// next Run calls Discover again. Config.Done receives the outcome of the page.
	for _, res := range r.held {
		r.work.rejected = append(r.work.rejected, res)
		res.Outcome = Left
		r.work.back = append(r.work.back, res)
	}
	clear(r.held)
	r.store()
	if r.storing {
		return false
	}
	nothingLeft := len(r.frontier.hosts) == 0 && (!r.open || r.refusedAll || r.leftLater)
	return r.stopped || nothingLeft && !r.waits(time.Now())
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
	r.endStarts()
	for _, h := range r.frontier.hosts {
		r.giveUp(h, Result{Outcome: Left})
		for _, a := range r.takeAsides(h) {
			r.doneAside(a)
		}
	}
	for _, s := range r.asleep { // which stand at no host
		r.done(Result{Request: s.request, Outcome: Left}, nil)
	}
	r.asleep = nil
}

// count adds res to the summary.
func (r *run) count(res Result) {
	r.summary.Outcomes[res.Outcome]++
	if res.Outcome == Visited {
		r.summary.Statuses[res.Status]++
	}
	if res.Change != "" && res.Change != revisit.Same {
		r.summary.Changes[res.Change]++
	}
	if res.Outcome == Unchanged && res.Status == http.StatusNotModified {
		r.summary.NotModified++
	}
	if res.Outcome == Left && res.Later > 0 {
		r.leftPostponed.add(nameOf(res.URL, res.Mark), 1)
	}
	if res.Err != nil && r.summary.Errors[res.Outcome] == nil {
		r.summary.Errors[res.Outcome] = res.Err
	}
}

// done counts the result of a request, and hands it to the Queue with the URLs that the page has
// led to.
func (r *run) done(res Result, found []Request) {
	r.plan(&res, nil)
	r.finish(res, found)
}

// finish is done for a result that says when its URL is due again.
func (r *run) finish(res Result, found []Request) {
	if r.revisits() && isSources(res.URL) {
		r.doneSources(res, true)
		return
	}
	res.Why = r.frontier.rule.ended(&res.Request)
	r.count(res)
	if res.countsAsPage() {
		r.spent++
	}
	if r.pages != nil && res.countsAsPage() {
		r.pages[res.Host]++
	}
	switch {
	case res.URL == r.discovered[res.Host]:
		// Discover is still at work for this URL. The Queue gets the URLs that it finds first, or
		// a kill in between would lose them.
		r.held[res.Host] = res
	case r.mayServeLater(res):
		r.leaveBarred(res)
	default:
		r.work.done = append(r.work.done, res)
	}
	r.work.add = slices.Grow(r.work.add, len(found))
	for _, req := range found {
		// The Queue needn't keep, nor lend, a URL that can't be visited any more.
		if r.pages != nil && r.pages[req.Host] >= r.c.cfg.MaxPagesPerHost {
			r.reject(Result{Request: req, Outcome: EnoughOfHost})
			continue
		}
		r.work.add = append(r.work.add, req)
	}
}

// mayServeLater reports whether res is of a start URL in a lasting Queue, and its host has refused
// every request of this Run. It may have banned the crawler before, and serve the next Run.
func (r *run) mayServeLater(res Result) bool {
	_, isMemory := r.queue.(*memory)
	if isMemory || res.Outcome != Refused || res.Depth > 0 {
		return false
	}
	h := r.frontier.hosts[res.Host]
	return h != nil && !h.refusals.serves && !h.refusals.first.IsZero()
}

// leaveBarred leaves the URL of res, which is counted, in the Queue for the next Run. Nothing
// further is taken of its host in this one.
func (r *run) leaveBarred(res Result) {
	if r.c.cfg.Done != nil {
		r.work.rejected = append(r.work.rejected, res)
	}
	res.Outcome = Left
	r.work.back = append(r.work.back, res)
	r.resting[res.Host] = &rest{given: r.givenOf(res.Host)}
	r.frontier.hosts[res.Host].more = false
}

// countsAsPage reports whether a URL counts in MaxPages and MaxPagesPerHost: Visit was called for
// it, or it was asked for and refused. A URL that is Refused with its host, and wasn't asked for,
// has cost the site nothing.
func (res *Result) countsAsPage() bool {
	switch res.Outcome {
	case Visited, VisitFailed:
		return true
	case Refused:
		return res.Tries > 0
	}
	return false
}

// reject counts the result of a URL that the Queue doesn't get.
func (r *run) reject(res Result) {
	r.count(res)
	if r.c.cfg.Done != nil {
		r.work.rejected = append(r.work.rejected, res)
	}
}

// callDone calls Config.Done for each of results.
func (r *run) callDone(results []Result) {
	if r.c.cfg.Done == nil {
		return
	}
	for _, res := range results {
		// A panic is logged. It is no reason to end a crawl, nor to leave out the other results.
		_ = guarded("Done of "+res.URL, func() error {
			r.c.cfg.Done(res)
			return nil
		})
	}
}

// accept adds a request from Run or Discover, if its URL can be fetched.
func (r *run) accept(req Request) error {
	url, err := Normalize(req.URL)
	var key string
	if err == nil {
		// Config.HostKey of the Transport is a function of the user's.
		key, err = guardedValue("HostKey of "+url, func() (string, error) {
			return r.c.cfg.Transport.HostKey(url)
		})
	}
	if err == nil && len(req.Data) > MaxData {
		err = errLongData
	}
	if err != nil {
		err = fmt.Errorf("crawl: %q: %w", req.URL, err)
		req.Data = clippedData(req.Data)
		r.reject(Result{Request: req, Outcome: Invalid, Err: err})
		return err
	}
	r.work.add = append(r.work.add, Request{
		URL:      url,
		Host:     key,
		Depth:    req.Depth,
		Priority: clipped(req.Priority),
		Data:     req.Data,
		Modified: req.Modified,
	})
	return nil
}

// clipped returns a priority in 32 bits, the range that a Queue keeps.
func clipped(priority int) int { return min(max(priority, math.MinInt32), math.MaxInt32) }

// host returns the host of key.
func (r *run) host(key string) *host {
	h, ok := r.frontier.hosts[key]
	if !ok {
		h = r.frontier.host(key)
		r.limit(h)
	}
	return h
}

// limit sets the limits of h, which an operator may change while the crawl runs. After a panic of
// Override they stay unchanged.
func (r *run) limit(h *host) {
	_ = guarded("the limits of "+h.key, func() error {
		limits := r.c.cfg.Transport.Limiter().Config().Of(h.key)
		// With limits that are invalid the limiter refuses the host's requests, and says why.
		h.slots = max(1, limits.Concurrency)
		h.gap = limits.Delay.Min
		return nil
	})
}

// paced is the reason of a wait if host.why is empty.
const paced = "its delay between requests"

// usedUp is HostState.BlockedBy of a host whose rate limit has nothing left.
const usedUp = "rate limit"

// askingForState bounds the time in which a limiter returns the state of a host. The crawl stands
// still meanwhile, and a limiter with a server may hang.
const askingForState = 500 * time.Millisecond

// nextWhy returns why the host key waits. why is the reason that the crawl knows. It asks the
// limiter, because other users of the limiter, and operators, block hosts too.
func (r *run) nextWhy(key, why string) string {
	state, err := guardedValue("the state of "+key, func() (hostlimit.HostState, error) {
		ctx, cancel := context.WithTimeout(r.ctx, askingForState)
		defer cancel()
		return r.c.cfg.Transport.Limiter().State(ctx, key)
	})
	_, byHand := rules.ByHand(state.BlockedBy)
	// The crawl's own reason, such as a status, says more than the block that it has led to. But the
	// crawl doesn't know of an operator's block.
	switch {
	case state.BlockedBy == usedUp && why == paced:
		return "the site's quota of requests is used up until then"
	case byHand:
		return "blocked " + state.BlockedBy
	case state.BlockedBy != "" && why == paced:
		return "blocked (" + state.BlockedBy + ")"
	case err != nil && why == paced:
		return paced + ", or a block"
	}
	return why
}

// waiting yields the hosts that can't be asked for a URL for more than a second before or after
// now.
func (r *run) waiting(now time.Time, yield func(WaitingHost) bool) {
	for _, h := range r.frontier.hosts {
		w, ok := r.waitOf(h, now)
		if !ok {
			continue
		}
		ahead := w.Until.Sub(now)
		behind := now.Sub(h.at)
		if max(ahead, behind) > time.Second && !yield(w) {
			return
		}
	}
}

// waitOf returns why no page of h is asked for, however short the wait is. ok is false if h has no
// URL to wait with.
func (r *run) waitOf(h *host, now time.Time) (w WaitingHost, ok bool) {
	w = WaitingHost{Host: h.key}
	_, hasNext := h.next()
	switch {
	case !hasNext && h.wakes.After(now): // all that it has sleeps, after a refusal
		w.Until = h.wakes
		w.Why = h.refusals.String()
		if h.refusals.row == 0 {
			w.Why = cmp.Or(h.whyBarred(), w.Why)
		}
	case !hasNext: // its URLs are in flight, being visited, or wanted from the Queue
		return w, false
	case h.at.After(now): // also behind pages in flight
		w.Until = h.at
		w.Why = cmp.Or(h.why, paced)
	case !h.robotsAsked && h.place == asking:
		w.Why = "its robots.txt"
	case h.place == parked:
		w.Why = "a connection for its site"
	case h.place == inDue:
		w.Why = "a connection, or a call of Visit"
	case h.flights == 1:
		w.Why = "its page in flight"
	default:
		w.Why = fmt.Sprintf("its %d pages in flight", h.flights)
	}
	return w, true
}

// report calls Config.Progress.
func (r *run) report(now time.Time, done bool) {
	r.summary.Elapsed = now.Sub(r.began)
	r.reportStatus(now, done)
	if r.c.cfg.Progress == nil {
		return
	}
	p := Progress{
		Summary:  r.summary,
		Hosts:    len(r.frontier.hosts),
		InFlight: r.frontier.inFlight(),
		Open:     r.open,
		Done:     done,
		Lost:     guarded("Err of an Evidence", r.c.cfg.Transport.EvidenceErr),
		Warnings: r.warnings,
		Waiting:  func(yield func(WaitingHost) bool) { r.waiting(now, yield) },
	}
	r.warnings = nil
	if w := &r.watch; w.asked && !r.stopped && !done {
		p.Due = w.next
	}
	p.findNext()
	r.explainNext(&p) // which may ask a server, and does so once for each wait
	// The run continues to change its maps, and the user may keep a Progress.
	p.Outcomes = maps.Clone(p.Outcomes)
	p.Statuses = maps.Clone(p.Statuses)
	p.Errors = maps.Clone(p.Errors)
	p.Rules = maps.Clone(p.Rules)
	p.Changes = maps.Clone(p.Changes)
	p.Postponed = maps.Clone(p.Postponed)
	passed := p.Elapsed - r.shown.Elapsed
	if passed > 0 {
		p.Rate = float64(p.Visited()-r.shown.Visited()) / passed.Seconds()
	}
	r.shown = p
	_ = guarded("Progress", func() error {
		r.c.cfg.Progress(p)
		return nil
	})
}

// explainNext asks the limiter for the reason in p, if the crawl is idle.
func (r *run) explainNext(p *Progress) {
	if _, idle := p.idle(); !idle {
		return
	}
	if p.Next == r.shown.Next && p.NextAt.Equal(r.shown.NextAt) {
		p.NextWhy = r.shown.NextWhy // the limiter needn't be asked each second
		return
	}
	p.NextWhy = r.nextWhy(p.Next, p.NextWhy)
}
