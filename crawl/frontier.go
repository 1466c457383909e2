package crawl

import (
	"math"
	"math/rand/v2"
	"time"
)

// A frontier decides which URL is asked for next. Its methods are pure steps: none waits, or looks
// at a clock.
//
// A host is in one of three places. In waiting it stands by the time at which it may be asked. When
// that has come it is due, and stands by its fair share: whoever has held connections for the least
// time goes first. It is in neither while it has no URL at hand or no free slot. Connections are
// scarce where max of them are in flight; then two rules keep slow hosts from holding all of them:
//
//   - Each host is charged with the time for which it holds connections (start-time fair queueing), so
//     one that takes 2 s for an answer has its next turn after the others have had 2 s as well.
//   - A connection can't be taken back from a host, so slow ones, and those of which it isn't known
//     yet, hold no more of them together than their part of the hosts, or than the quick ones can
//     spare.
type frontier struct {
	hosts   map[string]*host
	waiting heap[timed]
	due     [4]heap[ready] // of quick, slow, fresh and unknown hosts

	max      int           // most flights
	flights  [2]int        // flights to quick and to slow hosts
	number   [2]int        // quick and slow hosts
	unknowns int           // flights to unknown hosts
	demand   float64       // connections for which the quick hosts have use, in the mean
	served   time.Duration // what the host that was asked last had been charged before
	usual    time.Duration // about the median of what an exchange takes
	samples  int           // that usual is made of
}

// Indexes of due; the first two also of flying and number. A host is slow until it has proved to be
// quick. A fresh one has answered for its robots.txt only: its first page goes before what other
// slow hosts want, or all would be met before any is crawled. An unknown one hasn't been asked at all.
const (
	quick = iota
	slow
	fresh
	unknown
)

// A host is one key of the Transport.
type host struct {
	key  string
	urls []Request // at hand, the next one first

	open  int  // requests that were lent by the Queue, and aren't done: urls and those under way
	more  bool // the Queue may have further ones
	asked bool // the Queue is being asked for them

	at          time.Time     // not to be asked before
	why         string        // why not; empty: its pace
	gap         time.Duration // that is surely between two starts
	slots       int           // most flights
	flights     int
	asking      bool // whether it is its turn
	place       place
	robotsAsked bool // its robots.txt has been asked for
	busy        bool // its last answer was 429 or 503
	refusals    int  // times in a row that it couldn't be asked at all

	pace     int           // quick or slow
	usual    time.Duration // moving mean of what an exchange takes; 0: unknown
	demand   float64       // connections for which it has use, in the mean; 0 for a slow one
	charged  time.Duration // see frontier
	tieBreak uint32        // goes before where all else is equal: slow hosts needn't come mixed with quick ones
}

// A place is where a host stands.
type place uint8

const (
	nowhere place = iota
	inWaiting
	inDue
)

// A timed host waits.
type timed struct {
	at time.Time
	h  *host
}

func (t timed) Before(o timed) bool { return t.at.Before(o.at) }

// A ready host is due.
type ready struct {
	priority int
	charged  time.Duration
	h        *host
}

func (r ready) Before(o ready) bool {
	if r.priority != o.priority {
		return r.priority > o.priority
	}
	if r.charged != o.charged {
		return r.charged < o.charged
	}
	return r.h.tieBreak < o.h.tieBreak
}

// A flight is one URL that was taken.
type flight struct {
	h        *host
	request  Request
	first    bool // the host has not been met yet
	started  bool // it was the host's turn
	finished bool // it is said, or about to be, that it has landed; its own goroutine's
	began    time.Time
	pace     int
	charge   time.Duration // what the host was charged in advance
}

func (f *frontier) inFlight() int { return f.flights[quick] + f.flights[slow] }

// host returns the host of key, which is made if need be.
func (f *frontier) host(key string) *host {
	h := f.hosts[key]
	if h == nil {
		h = &host{key: key, slots: 1, pace: slow, charged: f.served, tieBreak: rand.Uint32()}
		f.hosts[key] = h
		f.number[slow]++
	}
	return h
}

// forget drops h if nothing is known to be left of it.
func (f *frontier) forget(h *host) {
	if h.open == 0 && !h.more && !h.asked && f.hosts[h.key] == h {
		delete(f.hosts, h.key)
		f.number[h.pace]--
		f.demand -= h.demand
	}
}

// class is the line in which h stands when it is due.
func (h *host) class() int {
	switch {
	case !h.robotsAsked:
		return unknown
	case h.usual == 0:
		return fresh
	}
	return h.pace
}

// put queues h, if it can be asked for a URL.
func (f *frontier) put(h *host) {
	slots := h.slots
	if h.usual == 0 || h.busy {
		slots = 1 // until it is known how long it holds a connection, and whether it answers again
	}
	if h.place == nowhere && len(h.urls) > 0 && h.flights < slots && !h.asking {
		h.place = inWaiting
		f.waiting.push(timed{h.at, h})
	}
}

// back returns a request that was taken: it is the first that is taken again of its host.
func (f *frontier) back(h *host, r Request) {
	h.urls = append([]Request{r}, h.urls...)
	f.put(h)
}

// moveUp lets hosts that wait be asked at the given times, where these are earlier than theirs.
func (f *frontier) moveUp(sooner map[*host]time.Time) {
	if len(sooner) == 0 {
		return
	}
	for i, t := range f.waiting {
		if at, ok := sooner[t.h]; ok && at.Before(t.h.at) {
			t.h.at = at
			f.waiting[i].at = at
			f.waiting.fix(i) // what it changes places with has been seen: it stands nearer to the top
		}
	}
}

// none is how long there is to wait when only an end of a flight can bring the next one.
const none time.Duration = math.MaxInt64

// credit is what a host can save up while it wants no connection, or waits for its pace.
const credit = time.Second

// take takes the next URL. Where there is none, it says how long to wait for it.
func (f *frontier) take(now time.Time) (fl *flight, wait time.Duration) {
	for len(f.waiting) > 0 && !f.waiting[0].at.After(now) {
		h := f.waiting.pop().h
		if h.at.After(now) { // it was put off meanwhile
			f.waiting.push(timed{h.at, h})
			continue
		}
		if len(h.urls) == 0 { // they were given up
			h.place = nowhere
			continue
		}
		h.place = inDue
		h.charged = max(h.charged, f.served-credit)
		f.due[h.class()].push(ready{h.urls[0].Priority, h.charged, h})
	}
	class, ok := f.choose()
	if !ok {
		if len(f.waiting) == 0 || f.inFlight() >= f.max {
			return nil, none
		}
		return nil, f.waiting[0].at.Sub(now)
	}
	h := f.due[class].pop().h
	if class == unknown {
		f.unknowns++
	}
	fl = &flight{h: h, request: h.urls[0], first: !h.robotsAsked, began: now, pace: h.pace, charge: h.usual}
	h.urls[0] = Request{}
	h.urls = h.urls[1:]
	h.place, h.asking = nowhere, true
	h.flights++
	f.flights[h.pace]++
	f.served = max(f.served, h.charged)
	h.charged += fl.charge
	return fl, 0
}

// started says that the host of fl is being asked, from now on: it may be asked for another URL
// when its gap is over.
func (f *frontier) started(fl *flight, now time.Time) {
	h := fl.h
	h.at, h.why, h.asking, fl.started = now.Add(h.gap), "", false, true
	f.put(h)
}

// choose says in which line the next host stands.
func (f *frontier) choose() (class int, ok bool) {
	if f.inFlight() >= f.max {
		return 0, false
	}
	for i := range f.due {
		if len(f.due[i]) > 0 && f.hasRoom(i) && (!ok || f.due[i][0].Before(f.due[class][0])) {
			class, ok = i, true
		}
	}
	return class, ok
}

// hasRoom reports whether hosts of a class may have one more connection.
func (f *frontier) hasRoom(class int) bool {
	if class == quick {
		return true
	}
	part := f.max * f.number[slow] / (f.number[slow] + f.number[quick])
	room := max(2, part, f.max-2-int(1.25*f.demand))
	if f.flights[slow] >= room {
		return false
	}
	slows, unmets := f.due[slow], f.due[unknown]
	switch {
	case class == fresh:
		return true
	case len(f.due[fresh]) > 0:
		return false
	case class == unknown:
		return f.unknowns < room-room/4
	}
	return len(unmets) == 0 || slows[0].Before(unmets[0])
}

// finish ends the flight fl. took is the time of its exchange; 0: there was none.
func (f *frontier) finish(fl *flight, took time.Duration) {
	h := fl.h
	h.asking = h.asking && fl.started // by another flight
	h.flights--
	f.flights[fl.pace]--
	h.charged += took - fl.charge
	if fl.first {
		f.unknowns--
	}
	switch {
	case took > 0 && !fl.first:
		f.judge(h, took)
	case took > 4*f.usual && f.usual > 0: // robots.txt tells of slow hosts only: it may come from a cache
		f.judge(h, took)
	}
	f.put(h)
}

// judge learns from an exchange of h, which took so long.
func (f *frontier) judge(h *host, took time.Duration) {
	if h.usual == 0 {
		h.usual = took
	}
	h.usual = (h.usual + took) / 2
	f.sample(took)
	if h.place == inDue {
		return // its pace is where it stands
	}
	f.number[h.pace]--
	f.demand -= h.demand
	h.pace, h.demand = quick, float64(h.usual)/float64(max(h.gap, h.usual/time.Duration(h.slots)))
	if h.usual > 4*f.usual {
		h.pace, h.demand = slow, 0
	}
	f.number[h.pace]++
	f.demand += h.demand
}

// sample moves usual towards the median, in smaller steps as it is better known.
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
