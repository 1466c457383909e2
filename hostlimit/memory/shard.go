package memory

import (
	"strings"
	"time"

	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/hostlimit/sitekey"
)

const (
	sample       = 16 // number of hosts that evict compares
	leasesAtOnce = 23 // number of leases that are allocated at once: 4 KB
)

// get returns the host of key, and makes it if there is none.
func (sh *shard) get(key string, now time.Duration) *host {
	if h := sh.hosts[key]; h != nil {
		return h
	}
	if len(sh.hosts) >= sh.m.hostsPerShard {
		sh.evict(now) // one, unless all of the sample have a debt
	}
	h := newHost(strings.Clone(key)) // key may be a part of a long string
	if sh.m.sites != nil {
		h.site = sitekey.Of(h.key)
	}
	sh.hosts[h.key] = h
	return h
}

// evict takes a sample of hosts without a debt, and removes the one with the oldest last start.
// While the shard is above its bound, as after a time of many debts, it removes all of the sample.
// The sample is random, because the iteration over a map begins at a random place.
func (sh *shard) evict(now time.Duration) {
	var oldest *host
	left := sample
	for _, h := range sh.hosts {
		switch {
		case h.owes(sh.m.rules, now): // it stays, whatever the bound
		case len(sh.hosts) > sh.m.hostsPerShard:
			delete(sh.hosts, h.key)
		case oldest == nil || h.last < oldest.last:
			oldest = h
		}
		left--
		if left == 0 {
			break
		}
	}
	if oldest != nil {
		delete(sh.hosts, oldest.key)
	}
}

// active returns the live state of h, and makes it if there is none.
func (sh *shard) active(h *host) *active {
	if h.active != nil {
		return h.active
	}
	a := sh.newActive()
	a.h = h
	a.due = rules.Never
	a.full = rules.Never
	a.past = h.stamp()
	a.ended = h.last
	if h.origin != ofStamp || h.source == noStart { // last is no stamp of a start that has ended
		a.ended = unset
	}
	h.active = a
	return a
}

// newActive returns a spare live state, or makes one.
func (sh *shard) newActive() *active {
	if n := len(sh.spare); n > 0 {
		a := sh.spare[n-1]
		sh.spare = sh.spare[:n-1]
		return a
	}
	a := &active{sh: sh}
	sh.actives = append(sh.actives, a)
	return a
}

// free takes a from its host when the key has neither leases nor waiters any more.
func (sh *shard) free(a *active) {
	if a.h == nil || a.flights.Len > 0 || a.queue.First != nil {
		return
	}
	a.leavePlaces() // its waiters have left before they took their places
	a.site = nil
	a.h.active = nil
	switch { // so that the next live state knows its ended
	case a.h.last == a.ended:
		a.h.origin = ofStamp
	case a.h.origin != ofNew:
		a.h.origin = ofOther
	}
	a.h = nil
	a.probe = nil
	a.last = nil
	sh.spare = append(sh.spare, a)
}

func (sh *shard) newLease() *lease {
	if len(sh.chunk) == 0 {
		sh.chunk = make([]lease, leasesAtOnce)
	}
	l := &sh.chunk[0]
	sh.chunk = sh.chunk[1:] // the garbage collector frees a chunk once none of its leases is in use
	l.sh = sh
	return l
}
