package proxy

import (
	"errors"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-politeness/politeness"
)

// Bounds of a hall. A program that waits costs a connection and some 30 KB.
const (
	maxWaiting     = 2048 // requests that wait, in all
	maxWaitingOf   = 512  // of them for one host: the others still find room
	maxTickets     = 8192
	ticketsOutlast = time.Minute // after which a program that hasn't come back won't
	longestRow     = time.Hour   // from the first ticket of a host to the last
)

// A hall is where requests wait for their turn. A request for which there is no room is refused at
// once, the newest one, so that a host that many wait for doesn't silence the others.
//
// Requests that are refused are told different times to come back, one pause of the host apart, or
// all of them would come back in the same second. Each has a ticket for its time: whoever comes
// back earlier is told the same time again, and goes before those who come for the first time.
type hall struct {
	most, mostOf int

	mu      sync.Mutex
	all     int
	of      map[string]int      // by host
	rows    map[string]row      // of the times that were told, by host
	tickets map[uint64][]ticket // by request, the earliest first
	issued  int                 // all of tickets
}

// A row is the times that were told to those who were refused, a gap apart.
type row struct{ first, last time.Time }

// A ticket is a time to come back.
type ticket struct {
	at      time.Time // zero: the request has none yet
	refused int       // how often
}

func newHall() *hall {
	return &hall{
		most:    maxWaiting,
		mostOf:  maxWaitingOf,
		of:      make(map[string]int),
		rows:    make(map[string]row),
		tickets: make(map[uint64][]ticket),
	}
}

// errFull is the refusal of a request that finds no room.
var errFull = errors.New("too many requests wait here for this site already")

// enter counts one more request that waits for host, if there is room for it.
func (h *hall) enter(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all >= h.most || h.of[host] >= h.mostOf {
		return false
	}
	h.all++
	h.of[host]++
	return true
}

func (h *hall) leave(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all--
	h.of[host]--
	if h.of[host] == 0 {
		delete(h.of, host)
	}
}

var seed = maphash.MakeSeed()

// requestOf returns the hash by which a request is recognized when it comes back.
func requestOf(req *http.Request) uint64 {
	return maphash.String(seed, req.Method+" "+req.URL.Scheme+"://"+req.URL.Host+req.URL.RequestURI())
}

// take takes a ticket of the request. Without one it returns an empty one.
func (h *hall) take(request uint64) ticket {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.tickets[request]
	if len(held) == 0 {
		return ticket{}
	}
	h.issued--
	if len(held) == 1 {
		delete(h.tickets, request)
	} else {
		h.tickets[request] = held[1:]
	}
	return held[0]
}

// put gives the request, which had t and is refused, a ticket for from or later. gap is the time
// between two requests of its host.
func (h *hall) put(request uint64, host string, t ticket, from time.Time, gap time.Duration) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if from.Before(now) {
		from = now
	}
	if t.at.Before(from) {
		t.at = h.next(host, from, gap)
	}
	t.refused++
	h.sweep(now)
	if h.issued < maxTickets {
		h.issued++
		h.tickets[request] = append(h.tickets[request], t)
	}
	return t.at
}

// next returns the next time of the row of host, or from where a new one begins.
func (h *hall) next(host string, from time.Time, gap time.Duration) time.Time {
	r := h.rows[host]
	next := r.last.Add(gap)
	isEarlier := from.Before(r.first.Add(-gap)) // the host could be asked sooner than those ahead were told
	if isEarlier || next.Before(from) || next.Sub(from) > longestRow {
		h.rows[host] = row{from, from}
		return from
	}
	h.rows[host] = row{r.first, next}
	return next
}

// sweep forgets what is over, once that may be much.
func (h *hall) sweep(now time.Time) {
	if h.issued >= maxTickets {
		for request, held := range h.tickets {
			left := slices.DeleteFunc(held, func(t ticket) bool { return now.Sub(t.at) > ticketsOutlast })
			h.issued -= len(held) - len(left)
			h.tickets[request] = left
			if len(left) == 0 {
				delete(h.tickets, request)
			}
		}
	}
	if len(h.rows) >= maxTickets {
		for host, r := range h.rows {
			if r.last.Before(now) || len(h.rows) >= 2*maxTickets {
				delete(h.rows, host)
			}
		}
	}
}

// comesBack returns when a request that err refuses may come back, if it may. It may not if the
// site doesn't respond, because there is no queue for such a site.
func comesBack(err error) (again time.Time, ok bool) {
	var refused *politeness.Error
	if !errors.As(err, &refused) || refused.RetryAt.IsZero() || isDead(err) {
		return time.Time{}, false
	}
	return refused.RetryAt, true
}
