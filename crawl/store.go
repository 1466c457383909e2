package crawl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"time"
)

// lend is the largest number of URLs that Queue.Take lends of a host at once.
const lend = 16

// A work is the arguments of the Queue's next calls. They gather while an earlier call is at work:
// the slower the Queue, the more each call gets.
type work struct {
	add      []Request
	sources  []Request // for Add: nothing of them is counted
	done     []Result
	back     []Result          // of hosts that other processes have, see Owner: they are as Left, uncounted
	rejected []Result          // of URLs that the Queue doesn't get, for Config.Done
	handed   []chan<- struct{} // closed when the Queue has add, see seeker
	want     []string          // hosts for Take
	lift     []lifting         // marks for Lift
	later    []seeking         // hosts for TakeLater
	count    bool              // whether Postponed is called
	left     bool              // whether the URLs that are left are counted
	list     bool              // whether Hosts is called
	next     bool              // whether Recurring.Next is called
	places   int               // number of hosts for Hosts
}

// A lifting is a call of Postponer.Lift.
type lifting struct {
	host  string
	mark  uint32
	later int
}

// A seeking is a call of Postponer.TakeLater.
type seeking struct {
	host  string
	least int
}

func (w *work) empty() bool {
	toPut := max(len(w.add), len(w.sources), len(w.done), len(w.back), len(w.rejected), len(w.handed), len(w.lift))
	toGet := max(len(w.want), len(w.later))
	return toPut+toGet == 0 && !w.list && !w.next && !w.count && !w.left
}

// addLift adds a call of Lift, unless it is to be made anyway.
func (w *work) addLift(l lifting) {
	if !slices.Contains(w.lift, l) {
		w.lift = append(w.lift, l)
	}
}

// want asks the Queue for more URLs of h if it has few.
func (r *run) want(h *host) {
	r.trim(h)
	if h.hasFew() && h.more && !h.wanted && !r.stopped {
		h.wanted = true // until the response: one question at a time
		r.work.want = append(r.work.want, h.key)
	}
}

// expect notes that the Queue may have URLs of the host key, none of which goes before the rank at.
func (r *run) expect(key string, at rank) {
	isLeft := r.frontier.rule.leaves && at.later > 0
	if r.rests(key) || isLeft {
		return
	}
	if r.frontier.hosts[key] == nil && r.places() <= 0 {
		r.unlisted = true // Queue.Hosts yields it once there is room
		return
	}
	h := r.host(key)
	if !h.more || at.compare(h.queued) < 0 {
		h.queued = at
	}
	h.more = true
	h.postpones = h.postpones || at.later > 0
	r.want(h)
}

// mostHosts returns the number of hosts for which there is room in memory, with lend URLs each.
func (r *run) mostHosts() int { return max(1, r.c.cfg.MaxURLs/lend) }

// places returns the number of further hosts for which there is room.
func (r *run) places() int { return r.mostHosts() - len(r.frontier.hosts) }

// store calls the Queue with r.work, unless an earlier call hasn't ended.
func (r *run) store() {
	if r.storing {
		return
	}
	// A call for each host that leaves would be too many: tick makes the call if there is less
	// room.
	if !r.stopped && r.unlisted && r.places() >= max(1, r.c.cfg.MaxURLs/lend/2) {
		r.work.list = true
	}
	if r.work.empty() {
		return
	}
	call := &calledQueue{work: r.work, open: r.open, err: errGone}
	r.work = work{done: make([]Result, 0, len(call.done))} // about as many come again, and a Result is large
	r.storing = true
	if call.list {
		r.unlisted = false // unless its answer is full again
	}
	if !r.stopped {
		call.places = max(0, r.places())
	}
	go r.callQueue(call)
}

// callQueue calls the Queue, and Config.Done, in a separate goroutine.
func (r *run) callQueue(call *calledQueue) {
	growStack()
	defer func() { r.events <- call }()
	ctx := context.WithoutCancel(r.ctx) // results are kept after the end
	call.postponer = r.postponer
	call.err = guarded("the Queue", func() error { return call.put(ctx, r.queue) })
	// After the Queue: a URL that Done has seen isn't fetched again.
	r.callDone(call.rejected)
	r.callDone(call.done)
	if call.err == nil {
		call.err = guarded("the Queue", func() error { return call.get(ctx, r.queue) })
	}
}

// A calledQueue has the arguments and the results of the calls of callQueue.
type calledQueue struct {
	work
	postponer Postponer // nil: the Queue is none
	added     int       // by Add
	noRoom    int
	taken     []Request
	takenLate []Request // by TakeLater
	unlifted  []lifting // of those whose Lift has left some
	hosts     []string
	open      bool
	due       time.Time // by Next
	postponed postponed
	stillLeft leftCount
	err       error
}

// put calls the methods of q that take something. The URLs that a page has led to are added before
// the page is done, so a kill in between loses no URL.
func (c *calledQueue) put(ctx context.Context, q Queue) error {
	if len(c.add) > 0 { // Queues needn't expect an empty call
		var err error
		c.added, c.noRoom, err = q.Add(ctx, c.add)
		if err != nil {
			return err
		}
	}
	if len(c.sources) > 0 {
		if _, _, err := q.Add(ctx, c.sources); err != nil {
			return err
		}
	}
	ended := c.ended()
	if len(ended) > 0 {
		if err := q.Done(ctx, ended); err != nil {
			return err
		}
	}
	for _, l := range c.lift {
		more, err := c.postponer.Lift(ctx, l.host, l.mark, l.later)
		if err != nil {
			return err
		}
		if more {
			c.unlifted = append(c.unlifted, l)
		}
	}
	return nil
}

// ended returns the results for Queue.Done.
func (c *calledQueue) ended() []Result {
	if len(c.back) == 0 {
		return c.done // results are large, and each page has one
	}
	return append(c.back, c.done...)
}

// get calls the methods of q that return something.
func (c *calledQueue) get(ctx context.Context, q Queue) error {
	if len(c.want) > 0 {
		var err error
		c.taken, err = q.Take(ctx, c.want, lend)
		if err != nil {
			return err
		}
	}
	for _, l := range c.later {
		taken, err := c.postponer.TakeLater(ctx, l.host, l.least, 1)
		if err != nil {
			return err
		}
		c.takenLate = append(c.takenLate, taken...)
	}
	if c.count {
		if err := c.postponed.count(ctx, c.postponer); err != nil {
			return err
		}
	}
	if c.left {
		c.stillLeft.count(ctx, q.(counter))
	}
	if c.list {
		var err error
		c.hosts, c.open, err = q.Hosts(ctx, c.places)
		if err != nil {
			return err
		}
	}
	recurring, ok := q.(Recurring)
	if !c.next || !ok {
		return nil
	}
	var err error
	c.due, err = recurring.Next(ctx)
	return err
}

// apply notes the results of the Queue's calls.
func (c *calledQueue) apply(r *run) {
	r.storing = false
	for _, taken := range c.handed {
		close(taken)
	}
	r.open = c.open
	if c.next {
		r.watch.next = c.due
	}
	r.abort(c.err)
	r.summary.Outcomes[NoRoom] += c.noRoom
	if r.err == nil { // else c.added may be too small
		r.summary.Outcomes[Duplicate] += len(c.add) - c.added - c.noRoom
	}
	for _, key := range c.want {
		h := r.host(key)
		h.wanted = false
		h.more = false // until a full answer, below, says that there are more
	}
	r.lent(c.taken)
	for _, req := range c.takenLate {
		r.lentOne(req)
	}
	for _, l := range c.later {
		if h := r.frontier.hosts[l.host]; h != nil {
			h.seeks = false
			h.hasSought = true
			r.frontier.put(h)
		}
	}
	if c.count {
		r.showPostponed(&c.postponed)
	}
	if c.left {
		r.left = c.stillLeft
	}
	if c.added > 0 { // which of them, the Queue doesn't say
		for _, req := range c.add {
			r.expect(req.Host, rankOf(&req))
		}
	} else {
		for _, req := range c.add {
			if !req.Modified.IsZero() { // a hint may have made it due
				r.expect(req.Host, first)
			}
		}
	}
	for _, req := range c.sources {
		r.expect(req.Host, first)
	}
	// A Take that was at work meanwhile hasn't seen these.
	for _, l := range c.lift {
		r.expect(l.host, rank{priority: math.MaxInt, later: l.later})
	}
	if !r.stopped {
		for _, l := range c.unlifted {
			r.work.addLift(l)
		}
	}
	for _, res := range c.back {
		if res.waits {
			r.expect(res.Host, rankOf(&res.Request))
		}
	}
	for _, key := range c.hosts {
		r.expect(key, first)
		r.mayPostpone(key)
	}
	if c.list && len(c.hosts) >= c.places {
		r.unlisted = true // the response is full, so there may be others
	}
	for _, key := range c.want {
		h := r.host(key)
		r.want(h) // it may have more than lend URLs, and few at hand
		r.frontier.put(h)
		r.leftWith(h)
	}
	for _, res := range c.ended() {
		h := r.host(res.Host)
		h.open--
		r.leftWith(h)
	}
}

// lent takes in the requests that Take has lent.
func (r *run) lent(taken []Request) {
	number := make(map[string]int)
	for _, req := range taken {
		h := r.host(req.Host)
		number[req.Host]++
		// Fewer than were asked for: it has no others.
		h.more = number[req.Host] == lend && !r.rests(req.Host)
		h.queued = rankOf(&req) // the last one's: Take goes by ranks
		r.lentOne(req)
	}
}

// lentOne takes in a request that the Queue has lent. Its host is put after all of them.
func (r *run) lentOne(req Request) {
	h := r.host(req.Host)
	h.open++
	if r.stopped {
		r.done(Result{Request: req, Outcome: Left}, nil)
		return
	}
	if err := r.fetchable(req.URL); err != nil {
		r.done(Result{Request: req, Outcome: Invalid, Err: err}, nil)
		return
	}
	r.frontier.postpone(h, &req)
	h.insert(req)
}

// fetchable returns why a URL that the Queue lends can't be fetched. Others may write to a Queue,
// and put there what Normalize lets no URL be. Only this process writes to the Queue in memory.
func (r *run) fetchable(rawURL string) error {
	if _, isMemory := r.queue.(*memory); isMemory {
		return nil
	}
	if len(rawURL) > maxURL {
		return fmt.Errorf("crawl: a URL of %d bytes from the Queue", len(rawURL))
	}
	normal, err := Normalize(rawURL)
	if err != nil || normal == rawURL {
		return err
	}
	// Another spelling is the Queue's own affair. A password would be sent.
	u, err := url.Parse(rawURL)
	if err == nil && u.User != nil {
		return errors.New("crawl: a URL with a user name from the Queue")
	}
	return err
}

// insert adds a request to those at hand, behind all that have its rank or one before it: by
// Priority alone, where no URL is postponed.
func (h *host) insert(req Request) {
	i := len(h.urls)
	for i > 0 && h.goesBefore(&req, &h.urls[i-1]) {
		i--
	}
	h.urls = slices.Insert(h.urls, i, req)
}

// append adds a request to those at hand, behind all of them. It is sorted by its rank later.
func (h *host) append(req Request) {
	h.urls = append(h.urls, req)
	h.unsorted = true
}

func (h *host) goesBefore(a, b *Request) bool {
	if h.rule.isOn() {
		return compareRanks(a, b) < 0
	}
	return a.Priority > b.Priority
}

// leftWith ends waits that are over now that h has all that the Queue could give: those of pages
// in h.refusals, if nothing else is to come, and that of h itself, if it has no URL left.
func (r *run) leftWith(h *host) {
	r.settle(h)
	r.frontier.forget(h)
}
