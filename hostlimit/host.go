package hostlimit

import (
	"cmp"
	"math"
	"strconv"
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
// no refusal; the fields without them are 64 bytes. The methods of host and of trouble are the pure
// steps of the package: they neither wait nor look at a clock.
type host struct {
	key string

	last     time.Duration // when the last request started (or ended, with FromEnd), or is booked to; only if source isn't noStart
	gap      time.Duration // delay in force since then
	adaptive time.Duration // delay by response times
	began    time.Duration // when the counting of run began: at the first start, the last refusal, the start after an idle time; void: not yet
	seq      uint64        // requests started
	run      uint32        // requests started since began
	failures uint16        // failed answers in a row
	source   source        // what decided gap; noStart: nothing is owed to a start

	active    *active      // leases and waiters; nil: none
	refusals  *trouble     // nil: the key has never been blocked
	stored    *stored      // debt in Config.Store; nil: not read yet
	takenBack *[]TakenBack // leases that were taken back and that no Grant has reported; nil: none
}

// A trouble is the part of a host that only keys with a block or a learned delay have.
type trouble struct {
	until     time.Duration // end of the block; 0: none
	blockOrd  uint64        // shard.starts when the block was set: later starts came after it
	cleared   time.Duration // start of the request whose success lifted a block last, or when a person did
	learned   time.Duration // delay that refusals have taught; 0: none
	next      time.Duration // earliest start by what Config.Store has kept; 0: any
	clearings uint32        // how often a block was lifted
	refusals  uint8         // in a row, 255 for more; > 0: blocked, or waiting for a probe's success
	calm      uint8         // requests started since the last refusal, or since learned was shortened
	cause     cause         // what set the block
	why       string        // with byPerson, the person's reason
	act       *ByHand       // last act of a person that no Grant or Error has reported; nil: none
}

// untroubled is the trouble of all hosts that have none. It isn't changed.
var untroubled trouble

// trouble returns that of h, which is changed only where h.refusals isn't nil.
func (h *host) trouble() *trouble {
	if h.refusals == nil {
		return &untroubled
	}
	return h.refusals
}

// inTrouble returns the trouble of h, and makes it if there is none.
func (h *host) inTrouble() *trouble {
	if h.refusals == nil {
		h.refusals = new(trouble)
	}
	return h.refusals
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

// A cause is what set a block, in a byte: a status from 400 to 599 as status - 400 + byStatus.
type cause uint8

const (
	byOther   cause = iota // a status outside of that, or Outcome.Refused
	byNetwork              // no response
	byReset                // a rate limit with nothing left
	byPerson               // Controller.Block; trouble.why is the reason
	byStatus               // 400, and so on
)

func causeOf(o Outcome) cause {
	switch {
	case o.Refused != "":
		return byOther
	case o.Status == 0:
		return byNetwork
	case o.Status >= 400 && o.Status <= 599:
		return byStatus + cause(o.Status-400)
	}
	return byOther
}

func (c cause) String() string {
	switch c {
	case byOther:
		return "refused"
	case byNetwork:
		return "network error"
	case byReset:
		return "rate limit"
	case byPerson:
		return "by hand"
	}
	return "status " + strconv.Itoa(int(c-byStatus)+400)
}

// blockedBy is what has set the block of t, for people.
func (t *trouble) blockedBy() string {
	if t.cause == byPerson {
		return ByHand{Why: t.why}.Cause()
	}
	return t.cause.String()
}

// causeNamed returns the cause of that name, byOther where there is none.
func causeNamed(name string) cause {
	for c := byOther; c <= byStatus+199; c++ {
		if c.String() == name {
			return c
		}
	}
	return byOther
}

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
	t := h.trouble()
	return max(now, h.earliest(floor), t.next, t.until)
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
		h.raise(h.trouble().learned, byLearned)
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

// count counts a start after an idle time. Where that was longer than a delay can be, the
// run begins anew: how often a crawler that had nothing to fetch asked says nothing about
// how often it may. And it counts as a start for each Ceiling in it, or what a refusal now
// and then teaches such a crawler would add up.
func (h *host) count(lim *Limits, now, idle time.Duration) {
	h.seq++
	if h.began == void || idle > lim.Delay.Ceiling {
		h.began, h.run = now, 0
	}
	h.run = min(h.run, math.MaxUint32-1) + 1
	t := h.trouble()
	if t.learned == 0 {
		return
	}
	calm := time.Duration(t.calm) + 1 + max(0, idle/lim.Delay.Ceiling)
	for ; calm >= calmStarts && t.learned != 0; calm -= calmStarts {
		t.learned = lim.Delay.Ease(t.learned)
	}
	t.calm = uint8(calm % calmStarts)
}

// refuse sets a block after a refusal. starts is the shard's. The first refusal of a
// series makes the delay longer, where that learns.
func (h *host) refuse(r *Rules, lim *Limits, now time.Duration, o Outcome, starts uint64) {
	t := h.inTrouble()
	n := min(t.refusals, math.MaxUint8-1) + 1
	stay := r.Stay(int(n), o) // may panic, so before anything is changed
	if n == 1 && lim.Delay.Adaptive.Learns() && r.Teaches(o) {
		since := now - h.began
		if h.began == void {
			since = 0
		}
		t.learned = lim.Delay.Learn(h.gap, since, int64(h.run))
		h.raise(t.learned, byLearned)
	}
	h.began, h.run, h.failures = now, 0, 0
	t.refusals, t.until, t.blockOrd, t.cause, t.why, t.calm = n, max(t.until, add(now, stay)), starts, causeOf(o), "", 0
}

// blocks reports whether t holds its key at now. At its very end a block is over.
func (t *trouble) blocks(now time.Duration) bool { return t.until > now }

// forgiven reports whether the host has been quiet for so long after the block that refusals before
// it don't count any more.
func (t *trouble) forgiven(now, forgive time.Duration) bool { return now >= add(t.until, forgive) }

// extend lengthens the block of t, or sets one that counts as no refusal, and reports
// whether it did.
func (t *trouble) extend(until time.Duration, starts uint64) bool {
	if until <= t.until {
		return false
	}
	t.until, t.blockOrd = until, starts
	return true
}

// clear lifts the block and resets the counter: by the success of a request that started then, or
// by a person.
func (t *trouble) clear(at time.Duration) {
	t.refusals, t.until = 0, 0
	t.cleared = at
	t.clearings++
}

// grace is how long a start is remembered at least: a crawl-delay that is learned
// from it, as by fetching robots.txt, is owed to the next one.
const grace = time.Minute

// owes reports whether forgetting h would break a promise.
func (h *host) owes(now, forgive time.Duration) bool {
	t := h.trouble()
	return h.active != nil || h.earliest(grace) > now || now < max(t.until, t.next) || t.refusals > 0 && !t.forgiven(now, forgive)
}
