package hostlimit

import (
	"cmp"
	"math"
	"time"
)

// Times inside the package are nanoseconds since the Memory was first used, by the
// monotonic clock. never is later than all of them.
const never time.Duration = math.MaxInt64

// late is how much later than planned a start may be before the queue is searched for
// requests that it makes too late.
const late = time.Millisecond

// add adds a time to come to t, and stops at never.
func add(t, d time.Duration) time.Duration {
	return t + min(d, never-max(t, 0))
}

// A host is what a key owes. The pointers are nil for most keys, which have no lease, no waiter and
// no refusal; the fields without them are 64 bytes. Its methods are pure steps, as those of Refusals
// are: they neither wait nor look at a clock.
type host struct {
	key string

	last     time.Duration // when the last request started (or ended, with FromEnd), or is booked to; only if source isn't noStart
	gap      time.Duration // delay in force since then
	adaptive time.Duration // delay by response times
	began    time.Duration // when the counting of run began: at the first start, the last refusal, the start after an idle time; void: not yet
	seq      uint64        // requests started
	run      uint32        // requests started since began
	source   source        // what decided gap; noStart: nothing is owed to a start

	active    *active      // leases and waiters; nil: none
	kept      *refusals    // nil: all its fields are zero
	stored    *stored      // debt in Config.Store; nil: not read yet
	takenBack *[]TakenBack // leases that were taken back and that no Grant has reported; nil: none
}

// refusals are the part of a host that few keys have.
type refusals struct {
	Refusals
	cleared   time.Duration // start of the request whose success lifted a block last, or when a person did
	clearings uint32        // number of times that a block was lifted
	next      time.Duration // earliest start by Config.Store; 0: any
	act       *Debt         // last act of a person that no Grant or Error has reported; nil: none
}

// noRefusals are those of all hosts that have none. They don't change.
var noRefusals refusals

// refusals returns those of h, to read.
func (h *host) refusals() *refusals {
	if h.kept == nil {
		return &noRefusals
	}
	return h.kept
}

// changeRefusals returns those of h, to change.
func (h *host) changeRefusals() *refusals {
	if h.kept == nil {
		h.kept = new(refusals)
	}
	return h.kept
}

// lifted notes that a block was lifted: by the success of a request that started at at, or then by a
// person.
func (r *refusals) lifted(at time.Duration) {
	r.cleared = at
	r.clearings++
}

// A source is the part of the delay that was the longest.
type source uint8

const (
	noStart source = iota
	byRandom
	byFloor
	byAdaptive
	byLearned
)

var sources = [...]string{"", "random", "crawl-delay", "adaptive", "learned"}

func (s source) String() string { return sources[s] }

// earliest is when the gap to the start before is over for a request with this floor.
func (h *host) earliest(floor time.Duration) time.Duration {
	if h.source == noStart {
		return 0
	}
	return add(h.last, max(h.gap, floor))
}

// first is when a request with this floor could start at the head of the queue,
// so far as it is known, and if it weren't for Config.Windows.
func (h *host) first(now, floor time.Duration) time.Duration {
	r := h.refusals()
	return max(now, h.earliest(floor), r.next, r.Until)
}

// delay is the gap that a request with this floor waits for, and what decided it.
func (h *host) delay(floor time.Duration) (gap time.Duration, by source) {
	if floor > h.gap {
		return floor, byFloor
	}
	return h.gap, h.source
}

// A stamp is a start, or a booking of one, and the gap that is owed to it.
type stamp struct {
	at, gap time.Duration // at is void where there is none any more
	by      source        // what decided gap; noStart: there never was one
}

const void time.Duration = -1

// after reports whether it is s that the next start keeps its distance from, and not o: the later
// one or, of two at one instant, that with the longer gap.
func (s stamp) after(o stamp) bool {
	return s.by != noStart && s.at != void && (o.by == noStart || cmp.Or(cmp.Compare(s.at, o.at), cmp.Compare(s.gap, o.gap)) > 0)
}

// stamp returns the last start.
func (h *host) stamp() stamp { return stamp{h.last, h.gap, h.source} }

// book makes a start at at the last one, with a delay drawn at random.
func (h *host) book(at, floor, random time.Duration) {
	if floor > random {
		h.pace(stamp{at, floor, byFloor})
	} else {
		h.pace(stamp{at, random, byRandom})
	}
}

// pace makes s the last start.
func (h *host) pace(s stamp) {
	h.last, h.gap, h.source = s.at, s.gap, s.by
	if s.by != noStart {
		h.raise(h.adaptive, byAdaptive)
		h.raise(h.refusals().Learned, byLearned)
	}
}

// raise makes the gap that is running longer, if d is, and reports whether it did. A
// shorter delay holds from the next start on only: the gap was promised.
func (h *host) raise(d time.Duration, by source) bool {
	if d <= h.gap || h.source == noStart {
		return false
	}
	h.gap, h.source = d, by
	return true
}

// idle is how long nobody has asked for the key although it was free, up to a start that
// is booked now.
func (h *host) idle(now, floor time.Duration) time.Duration {
	if h.source == noStart {
		return 0
	}
	return now - h.first(0, floor)
}

// count counts a start after an idle time. An idle time longer than any delay begins a new run: the
// rate of a crawler that had nothing to fetch isn't the rate that its host allows.
func (h *host) count(d *Delay, now, idle time.Duration) {
	h.seq++
	if h.began == void || idle > d.Ceiling {
		h.began, h.run = now, 0
	}
	h.run = min(h.run, math.MaxUint32-1) + 1
	if h.kept != nil {
		h.kept.ease(d, idle)
	}
}

// observe does to h what o does, the outcome of l. starts are the shard's. The first refusal of a
// series makes the delay longer, where that learns.
func (h *host) observe(r *Rules, l *lease, o *Outcome, now time.Duration, starts uint64) Effect {
	s := h.changeRefusals()
	first := s.Row == 0
	e, counts := s.observe(r, o, now, l.ord, starts)
	if counts {
		if d := &l.lim.Delay; first && d.Adaptive.Learns() && r.Teaches(*o) {
			since := time.Duration(0)
			if h.began != void {
				since = now - h.began
			}
			s.Learned = d.Learn(h.gap, since, int64(h.run))
			h.raise(s.Learned, byLearned)
		}
		h.began, h.run = now, 0
	}
	if e.Cleared {
		s.lifted(l.stamp.at)
	}
	if *s == noRefusals {
		h.kept = nil
	}
	return e
}

// grace is how long a start is remembered at least: a crawl-delay that is learned
// from it, as by fetching robots.txt, is owed to the next one.
const grace = time.Minute

// owes reports whether forgetting h would break a promise.
func (h *host) owes(r *Rules, now time.Duration) bool {
	s := h.refusals()
	return h.active != nil || h.earliest(grace) > now || now < max(s.Until, s.next) || s.Row > 0 && !s.forgiven(r, now)
}
