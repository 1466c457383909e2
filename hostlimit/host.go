package hostlimit

import (
	"math"
	"strconv"
	"time"

	"github.com/go-politeness/politeness/hostlimit/internal/kit"
)

// Times inside the package are nanoseconds since the Memory was first used, by the
// monotonic clock. never is later than all of them.
const never time.Duration = math.MaxInt64

// late is how much later than planned a start may be before the queue is searched for
// requests that it makes too late.
const late = time.Millisecond

// add adds a time to come to t, and stops at never.
func add(t, d time.Duration) time.Duration {
	if d > 0 && t > never-d {
		return never
	}
	return t + d
}

// A host is what a key owes while it has neither leases nor waiters: 64 bytes, a line of
// the cache, without a pointer for the garbage collector to follow. Its methods
// are the pure steps of the package: they neither wait nor look at a clock.
type host struct {
	last     time.Duration // when the last request started, or is booked to; only if source isn't noStart
	gap      time.Duration // delay in force since then
	until    time.Duration // end of the block; only if refusals > 0
	blockOrd uint64        // shard.starts when the block was set: later starts came after it
	adaptive time.Duration // delay by response times
	seq      uint64        // requests started
	name     uint32        // where the key is in shard.names; next free host
	check    uint32        // lower half of the key's hash; the upper one is in the index
	busy     uint32        // 1 + index in shard.busy; 0: no leases and no waiters; unused: no host
	refusals uint8         // in a row, 255 for more; > 0: blocked, or waiting for a probe's success
	cause    cause         // of the last refusal; only if refusals > 0
	expired  uint8         // leases taken back and not reported yet
	source   source        // what decided gap; noStart: nothing is owed to a start
}

// A source is the part of the delay that was the longest.
type source uint8

const (
	noStart source = iota
	byRandom
	byFloor
	byAdaptive
)

func (s source) String() string {
	return [...]string{"", "random", "crawl-delay", "adaptive"}[s]
}

// A cause is what refused, in a byte: a status from 400 to 599 as status - 398.
type cause uint8

const (
	byOther   cause = iota // a status outside of that
	byNetwork              // no response
)

func causeOf(o Outcome) cause {
	switch {
	case o.Status == 0:
		return byNetwork
	case o.Status >= 400 && o.Status <= 599:
		return cause(o.Status - 398)
	}
	return byOther
}

func (c cause) String() string {
	switch c {
	case byOther:
		return "refused"
	case byNetwork:
		return "network error"
	}
	return "status " + strconv.Itoa(int(c)+398)
}

// earliest is when the gap to the start before is over for a request with this floor.
func (h *host) earliest(floor time.Duration) time.Duration {
	if h.source == noStart {
		return 0
	}
	return add(h.last, max(h.gap, floor))
}

// first is when a request with this floor could start at the head of the queue,
// so far as it is known.
func (h *host) first(now, floor time.Duration) time.Duration {
	t := max(now, h.earliest(floor))
	if h.refusals > 0 {
		t = max(t, h.until)
	}
	return t
}

// A stamp is a start, or a booking of one, and the gap that is owed to it.
type stamp struct {
	at, gap time.Duration // at is void where there is none any more
	by      source        // what decided gap; noStart: there never was one
}

const void time.Duration = -1

// after reports whether it is s that the next start keeps its distance from, and not o.
func (s stamp) after(o stamp) bool {
	return s.by != noStart && s.at != void && (o.by == noStart || s.at > o.at || s.at == o.at && s.gap > o.gap)
}

// stamp returns the last start.
func (h *host) stamp() stamp { return stamp{h.last, h.gap, h.source} }

// book makes a start at t the last one, with a delay drawn at random.
func (h *host) book(t, floor, random time.Duration) {
	if floor > max(random, h.adaptive) {
		h.pace(stamp{t, floor, byFloor})
	} else {
		h.pace(stamp{t, random, byRandom})
	}
}

// pace makes s the last start.
func (h *host) pace(s stamp) {
	h.last, h.gap, h.source = s.at, s.gap, s.by
	if s.by != noStart && h.adaptive > s.gap {
		h.gap, h.source = h.adaptive, byAdaptive
	}
}

// adapt learns from an answer, and reports whether the next start is later for it. A
// higher delay holds for the gap that is running already; a lower one doesn't
// shorten it, because it was promised.
func (h *host) adapt(lim *kit.Limits, o Outcome) bool {
	h.adaptive = lim.Adapt(h.adaptive, kit.Outcome(o))
	if h.adaptive <= h.gap || h.source == noStart {
		return false
	}
	h.gap, h.source = h.adaptive, byAdaptive
	return true
}

// forgive resets the counter when the host has been quiet for long enough.
func (h *host) forgive(now, quiet time.Duration) {
	if h.refusals > 0 && now >= add(h.until, quiet) {
		h.refusals, h.until = 0, 0
	}
}

// refuse blocks the key after a refusal, and reports whether it did: refusals of
// requests that started before the block was set are part of it. starts is the shard's.
func (h *host) refuse(r *kit.Refusals, now time.Duration, o Outcome, ord, starts uint64) bool {
	if ord <= h.blockOrd {
		return false
	}
	n := h.refusals
	if n < math.MaxUint8 {
		n++
	}
	until := add(now, r.Stay(int(n), o.RetryAfter)) // may panic, so before anything is changed
	h.refusals, h.until, h.blockOrd, h.cause = n, until, starts, causeOf(o)
	return true
}

// clear lifts the block after a success of a request that started after it was
// set, and reports whether there was one.
func (h *host) clear(ord uint64) bool {
	if h.refusals == 0 || ord <= h.blockOrd {
		return false
	}
	h.refusals, h.until = 0, 0
	return true
}

// grace is how long a start is remembered at least: a crawl-delay that is learned
// from it, as by fetching robots.txt, is owed to the next one.
const grace = time.Minute

// owes reports whether forgetting h would break a promise.
func (h *host) owes(now, forgive time.Duration) bool {
	return h.busy != 0 || h.earliest(grace) > now || h.refusals > 0 && now < add(h.until, forgive)
}
