package crawl

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-politeness/politeness/crawl/internal/traps"
)

// A frontier decides which URL is asked for next. Its methods are pure steps: none waits, or reads
// the clock.
//
// A host is in one of five places:
//
//	place    event                       next
//	nowhere  put: it has a URL, a slot   waiting  until host.at
//	waiting  take: host.at has come      due      in its class, by its charge
//	waiting  take: host.at is later now  waiting
//	due      take: a free connection     asking   a flight asks Transport.Next
//	due      take: its site has no room  parked   until a flight of the site ends
//	parked   finish, of its site         nowhere  put: waiting
//	asking   started: it may start       nowhere  put: waiting, until the gap is over
//	asking   finish: it may not yet      nowhere  put: waiting, until the time from Next
//
// A host has a slot for each flight that its limits allow. After a refusal it has one slot beside
// the flights that were under way then, until a page is served; see refusals.
//
// If max connections are in flight, connections are scarce. Then three rules keep slow hosts from
// occupying all of them:
//
//   - Each host is charged with the time for which it occupies connections (start-time fair
//     queueing). A host that takes 2 s for a response is next after the others have had 2 s, too.
//   - A connection can't be taken back from a host. So slow hosts, and hosts that haven't answered
//     yet, together occupy at most their part of the hosts, or as many as quick hosts can spare.
//   - The hosts of a site occupy at most as many as a few hosts would, or as other sites can spare:
//     see site. So a domain with any number of names, which was quick and becomes slow, takes few
//     connections from the others.
type frontier struct {
	hosts   map[string]*host
	sites   map[string]*site // of hosts, by sitekey.Of
	waiting heap[timed]
	due     [4]heap[ready] // of quick, slow, fresh and unknown hosts

	max      int           // most flights
	perSite  int           // most flights of a site, by the limiter; 0 or less: it has no bound
	flights  [2]int        // of quick and of slow hosts
	number   [2]int        // of quick and of slow hosts
	unknowns int           // flights of unknown hosts
	demand   float64       // mean number of connections that the quick hosts could use
	served   time.Duration // virtual time: the charge at which the last host was served
	usual    time.Duration // about the median of the times that exchanges take
	samples  int           // number of exchanges in usual
	rule     rule          // which URLs of a host go first
}

// The classes of due hosts. flights and number have only the first two. A host is slow until it has
// proved to be quick. A fresh host has answered only for its robots.txt, and nothing else is in
// flight. Its first page goes before the pages of slow hosts. Otherwise robots.txt of all hosts
// would be fetched before any page. robots.txt of an unknown host hasn't been fetched.
const (
	quick = iota
	slow
	fresh
	unknown
)

// A host is one key of the Transport.
type host struct {
	key  string
	site *site
	urls []Request // at hand, the next one first, by their ranks unless unsorted

	unsorted bool // until the next step of the frontier, see sort

	aside  []aside // set aside: the user's own rules refuse them
	open   int     // requests lent by the Queue that aren't done: urls, aside, and those under way
	more   bool    // the Queue may have further ones
	wanted bool    // the Queue is being asked for them

	rule      *rule       // of the frontier; nil: URLs go in the order in which they came
	queued    rank        // of the first URL that the Queue may have, if more is set
	postpones bool        // the Queue may have postponed ones
	turns     traps.Turns // of its levels
	putBacks  int         // URLs put back so far, less perTurn for each URL taken
	seeks     bool        // the Queue is being asked for postponed ones
	hasSought bool        // it was asked, for the next turn

	at      time.Time     // earliest next start
	calm    time.Time     // until then it has a rest before a trial, see refusals.trial
	why     string        // reason of at; empty: the delay between requests
	tooLate error         // the budget's refusal, if its time is over before at
	wakes   time.Time     // when the first of its sleepers comes back
	gap     time.Duration // least time between two starts
	place   place
	index   int // in frontier.waiting, if it waits

	slots       int // most flights
	flights     int
	probes      int               // flights that were taken alone
	robotsAsked bool              // its robots.txt has been asked for
	barred      map[string]barred // by origin; nil: none was
	reached     string            // origin whose robots.txt was fetched last
	barredURLs  int               // number of its sleepers that are of barred origins

	refusals refusals
	answers  tally
	closed   *Result // the result of its URLs, because it has refused for too long; nil: they are fetched

	pace     int           // quick or slow
	usual    time.Duration // moving mean of the times that its exchanges take; 0: there was none
	demand   float64       // mean number of connections that it could use; 0 for a slow one
	charged  time.Duration // virtual time of its next start, see frontier
	tieBreak uint32        // random, if all else is equal: in the order of arrival, slow hosts might all be first
}

// A place is where a host stands, see frontier.
type place uint8

const (
	nowhere place = iota
	inWaiting
	inDue
	parked
	asking
)

// A timed host waits.
type timed struct {
	at time.Time
	h  *host
}

func (t timed) Before(o timed) bool { return t.at.Before(o.at) }
func (t timed) placed(index int)    { t.h.index = index }

// A ready host is due.
type ready struct {
	priority int
	charged  time.Duration
	h        *host
}

func (r ready) placed(int) {}

func (r ready) Before(o ready) bool {
	order := cmp.Or(
		cmp.Compare(o.priority, r.priority),
		cmp.Compare(r.charged, o.charged),
		cmp.Compare(r.h.tieBreak, o.h.tieBreak),
	)
	return order < 0
}

// A flight is one URL that was taken.
type flight struct {
	h       *host
	request Request
	first   bool   // asks for robots.txt of an unknown host
	probe   bool   // taken alone: the host has refused
	good    bool   // for refusals.good
	again   bool   // for refusals.again
	started bool   // its request goes out; see started
	told    saying // refusals.told, when it was taken
	doubt   saying // row of responses that a page which was served before is to check
	sparse  kind   // refusals.sparse, when it was taken

	startedAt time.Time
	gapEnds   time.Time // host.at by its start

	alive  bool   // robots.txt was fetched, so its origin isn't barred
	hand   string // cause of a block by an operator, see handBlock; empty: none, or not known
	began  time.Time
	pace   int           // of the host, when it was taken
	charge time.Duration // added to host.charged when it was taken
}

func (f *frontier) inFlight() int { return f.flights[quick] + f.flights[slow] }

// host returns the host of key, and makes it if need be.
func (f *frontier) host(key string) *host {
	h := f.hosts[key]
	if h == nil {
		h = &host{key: key, slots: 1, pace: slow, charged: f.served, tieBreak: rand.Uint32(), rule: &f.rule}
		f.hosts[key] = h
		h.site = f.site(key)
		h.site.hosts++
		f.number[slow]++
	}
	return h
}

// forget drops h if it has no URL left, at hand, under way or in the Queue.
func (f *frontier) forget(h *host) {
	if h.open > 0 || h.more || h.wanted {
		return
	}
	if f.hosts[h.key] != h {
		return // it was forgotten before, and its key may belong to a new host
	}
	delete(f.hosts, h.key)
	f.number[h.pace]--
	f.demand -= h.demand
	f.forgetSite(h)
	f.rule.forget(h.key)
}

// class returns the index in due of h.
func (h *host) class() int {
	switch {
	case !h.robotsAsked:
		return unknown
	case h.usual == 0 && h.flights == 0:
		return fresh
	}
	return h.pace
}

// close gives up the URLs of h, which has refused for too long.
func (h *host) close() {
	h.closed = &Result{
		Outcome: Refused,
		Status:  h.refusals.status,
		Err:     fmt.Errorf("crawl: its host is given up: %v", &h.refusals),
	}
}

// A source is where the next request of a host comes from.
type source uint8

const (
	noSource  source = iota // there is none
	fromGood                // host.refusals.good
	fromAgain               // host.refusals.again
	fromURLs                // host.urls
)

// source returns where the next request of h comes from.
func (h *host) source() source {
	s := &h.refusals
	// If robots.txt of a host wasn't asked for, the response for a page that was served before is
	// of no use. It is of no use either if no page waits for it.
	useful := h.robotsAsked && len(h.urls)+s.size() > 0
	switch {
	case useful && s.asksGood():
		return fromGood
	case s.again.URL != "": // before others: the host's state depends on its answer
		return fromAgain
	case h.isReady():
		return fromURLs
	}
	return noSource
}

// next returns the request that is taken next; ok is false if there is none.
func (h *host) next() (req Request, ok bool) {
	switch h.source() {
	case fromGood:
		return h.refusals.good, true
	case fromAgain:
		return h.refusals.again, true
	case fromURLs:
		return h.urls[0], true
	}
	return req, false
}

// put queues h, if it stands nowhere and has a URL and a free slot.
func (f *frontier) put(h *host) {
	f.sort(h)
	if h.place != nowhere || h.source() == noSource || h.flights >= h.slots {
		return
	}
	if h.refusals.alone() && h.probes > 0 {
		return // one request at a time shows how the host answers now
	}
	h.place = inWaiting
	f.waiting.push(timed{h.at, h})
}

// back gives back a request that was taken. It is the next one to be taken of its host.
func (f *frontier) back(h *host, r Request) {
	r.back = true
	h.urls = append([]Request{r}, h.urls...)
	f.put(h)
}

// moveUp sets host.at of hosts that wait to the given times, where these are earlier.
func (f *frontier) moveUp(sooner map[*host]time.Time) {
	if len(sooner) == 0 {
		return
	}
	for h, at := range sooner {
		at = h.afterRest(at)
		if h.place == inWaiting && at.Before(h.at) {
			f.advance(h, at)
		}
	}
}

// afterRest returns at, or the end of the rest of h if that is later.
func (h *host) afterRest(at time.Time) time.Time {
	if h.calm.After(at) {
		return h.calm
	}
	return at
}

// advance sets host.at of h to an earlier time.
func (f *frontier) advance(h *host, at time.Time) {
	h.at = at
	if h.place == inWaiting {
		f.waiting[h.index].at = at
		f.waiting.fix(h.index)
	}
}

// unstart takes back that fl has started: its answer came from a cache, and its host wasn't asked.
// The time of a later start stays, and so does one until which the host was put off.
func (f *frontier) unstart(fl *flight) {
	if fl.started && fl.h.at.Equal(fl.gapEnds) {
		f.advance(fl.h, fl.startedAt)
	}
}

// none is the wait if only the end of a flight can bring the next one.
const none time.Duration = math.MaxInt64

// credit is how far the charge of a host that has waited may lie behind that of the others.
const credit = time.Second

// take takes the next URL. If there is none, wait is the time until there may be one.
func (f *frontier) take(now time.Time) (fl *flight, wait time.Duration) {
	f.queueDue(now)
	h := f.pick()
	if h != nil {
		return f.takeOf(h, now), 0
	}
	// Without a free connection the end of a flight has to come first, however many hosts are due.
	if len(f.waiting) == 0 || f.inFlight() >= f.max {
		return nil, none
	}
	return nil, f.waiting[0].at.Sub(now)
}

// queueDue moves the hosts whose time has come from waiting to due.
func (f *frontier) queueDue(now time.Time) {
	for len(f.waiting) > 0 && !f.waiting[0].at.After(now) {
		h := f.waiting.pop().h
		if h.at.After(now) { // it was put off meanwhile
			f.waiting.push(timed{h.at, h})
			continue
		}
		req, ok := h.next()
		if !ok { // its URLs were given up
			h.place = nowhere
			continue
		}
		h.place = inDue
		// Without this bound a host that has waited for an hour would have an hour of connections
		// before any other host's turn.
		h.charged = max(h.charged, f.served-credit)
		f.due[h.class()].push(ready{req.Priority, h.charged, h})
	}
}

// takeOf takes the next URL of h, which has one.
func (f *frontier) takeOf(h *host, now time.Time) *flight {
	fl := &flight{
		h:      h,
		first:  !h.robotsAsked,
		probe:  h.refusals.alone(),
		told:   h.refusals.told,
		sparse: h.refusals.sparse,
		began:  now,
		pace:   h.pace,
		charge: h.usual, // a guess: finish puts it right
	}
	f.load(fl)
	h.place = asking
	h.at = now
	h.tooLate = nil
	h.flights++
	h.site.flights++
	if fl.first {
		f.unknowns++
	}
	if fl.probe {
		h.probes++
	}
	f.flights[fl.pace]++
	// Virtual time moves on with the host that is served, and the host's next turn is as far away
	// as it is likely to hold the connection.
	f.served = max(f.served, h.charged)
	h.charged += fl.charge
	return fl
}

// load moves the next request of its host to fl.
func (f *frontier) load(fl *flight) {
	h := fl.h
	fl.request, _ = h.next()
	switch h.source() {
	case fromGood:
		fl.good = true // the page stays in refusals, and is fetched as often as needed
		fl.doubt = h.refusals.doubt
	case fromAgain:
		fl.again = true
		h.refusals.again = Request{}
	case fromURLs:
		i := f.turn(h)
		fl.request = h.urls[i]
		fl.request.back = false
		copy(h.urls[1:], h.urls[:i])
		h.urls[0] = Request{} // for the garbage collector
		h.urls = h.urls[1:]
	}
}

// started notes that fl starts now. Its host may start another flight when its gap is over.
func (f *frontier) started(fl *flight, now time.Time) {
	h := fl.h
	h.at = h.afterRest(now.Add(h.gap))
	fl.startedAt = now
	fl.gapEnds = h.at
	h.why = ""
	h.tooLate = nil
	h.place = nowhere // so that another slot of the host may take its next URL
	fl.started = true
	f.put(h)
}

// pick takes the next host out of due that has a URL; nil: there is none.
func (f *frontier) pick() *host {
	for {
		class, ok := f.choose()
		if !ok {
			return nil
		}
		h := f.due[class].pop().h
		f.sort(h)
		switch {
		case h.source() == noSource:
			h.place = nowhere // its URLs were given back meanwhile, or the Queue has one that goes first
		case !f.park(h):
			return h
		}
	}
}

// choose returns the class of the next host.
func (f *frontier) choose() (class int, ok bool) {
	if f.inFlight() >= f.max {
		return 0, false
	}
	for i := range f.due {
		if len(f.due[i]) == 0 || !f.hasRoom(i) {
			continue
		}
		if !ok || f.due[i][0].Before(f.due[class][0]) {
			class = i
			ok = true
		}
	}
	return class, ok
}

// hasRoom reports whether hosts of a class may have one more connection.
func (f *frontier) hasRoom(class int) bool {
	if class == quick {
		return true
	}
	room := f.roomOfSlow()
	if f.flights[slow] >= room {
		return false
	}
	switch {
	case class == fresh:
		return true
	case len(f.due[fresh]) > 0:
		return false // their first pages go before, see the classes
	case class == unknown:
		return f.unknowns < room-room/4 // robots.txt of hosts to come leaves a quarter for pages
	}
	// The next slow host goes on only if it is ahead of the next unknown one. Otherwise unknown
	// hosts might never have their turn.
	slows := f.due[slow]
	unknowns := f.due[unknown]
	return len(unknowns) == 0 || slows[0].Before(unknowns[0])
}

// roomOfSlow returns the number of connections that slow, fresh and unknown hosts may have
// together: their part of the hosts or, if that is more, all that the quick ones can spare.
func (f *frontier) roomOfSlow() int {
	hosts := f.number[slow] + f.number[quick]
	part := f.max * f.number[slow] / max(1, hosts) // none: the last one was forgotten while it was due
	// The demand is a mean. A quarter more, and two connections, are for the quick hosts that happen
	// to be due together.
	spare := f.max - 2 - int(1.25*f.demand)
	return max(2, part, spare)
}

// finish ends the flight fl. took is the time of its exchange; 0: there was none.
func (f *frontier) finish(fl *flight, took time.Duration) {
	h := fl.h
	if !fl.started { // else the host may be asking for another flight
		h.place = nowhere
	}
	h.flights--
	h.site.flights--
	f.flights[fl.pace]-- // h.pace may be another one by now
	h.charged += took - fl.charge
	if fl.first {
		f.unknowns--
	}
	if fl.probe {
		h.probes--
	}
	if fl.alive {
		h.reach(fl.request.URL)
	}
	// A quick robots.txt proves nothing: it may come from a cache. A slow one comes from the host.
	isPage := took > 0 && !fl.first
	isSlow := took > 4*f.usual && f.usual > 0
	if isPage || isSlow {
		f.judge(h, took)
	}
	f.put(h)
	f.unpark(h.site)
}

// judge adds the time that an exchange of h took to its mean, and sets its pace.
func (f *frontier) judge(h *host, took time.Duration) {
	if h.usual == 0 {
		h.usual = took
	}
	h.usual = (h.usual + took) / 2 // the last few count most: a host may become slow
	f.sample(took)
	if h.place == inDue || f.hosts[h.key] != h {
		return // it stands in the queue of its pace, or was forgotten
	}
	f.number[h.pace]--
	f.demand -= h.demand
	h.site.demand -= h.demand
	h.pace = quick
	// It starts a request each gap or, if all its slots are taken by then, whenever one is free.
	between := max(h.gap, h.usual/time.Duration(h.slots), 1) // of many slots a part of a nanosecond is left
	h.demand = float64(h.usual) / float64(between)
	if h.usual > 4*f.usual {
		h.pace = slow
		h.demand = 0 // it has the room of the slow ones
	}
	f.number[h.pace]++
	f.demand += h.demand
	h.site.demand += h.demand
}

// sample moves usual towards the median, in steps that get smaller with the number of samples.
func (f *frontier) sample(took time.Duration) {
	step := f.usual / time.Duration(min(64, 2+f.samples/4))
	f.samples++
	switch {
	case f.usual == 0:
		f.usual = took
	case took > f.usual:
		f.usual += step + 1
	case took < f.usual:
		f.usual -= step
	}
}
