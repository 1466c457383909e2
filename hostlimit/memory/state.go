package memory

import (
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/internal/list"
)

// A Limiter paces the requests of one process, with less than two hundred bytes per idle host. It
// starts no goroutine, so there is nothing to close, and everything works in a testing/synctest
// bubble. It is safe for concurrent use and must not be copied.
//
// The time of a start is the wall clock at the first use plus the monotonic time since then. So the
// gaps between them are exact, even if the machine's clock was set in between.
type Limiter struct {
	rules         *rules.Rules
	config        hostlimit.Config
	id            string
	began         sync.Once
	base          time.Time     // of the first use
	made          time.Time     // by New
	born          time.Duration // made, or when this process took the Store if that was later; 0 or less
	seed          maphash.Seed
	shards        []shard
	hostsPerShard int
	hours         rules.Hours
	slotTimeout   time.Duration // never: MaxWait bounds the wait for a slot
	leaseTTL      time.Duration
	maxWait       time.Duration
	forgive       time.Duration // after the end of a block, when its refusals are forgotten
	places        *places       // of MaxInFlight; nil without it
	sites         *sites        // nil without PerSite
	sweeper       sweeper
	drain         drain
	acts          hostlimit.Acts
}

// A shard holds the hosts of a part of the keys under one mutex, which is never held across a wait.
type shard struct {
	mu    sync.Mutex
	m     *Limiter
	hosts map[string]*host // by key

	actives []*active // all that were ever made
	spare   []*active // those of them that have no host

	chunk  []lease // leases to hand out
	starts uint64  // bookings and starts ever made: gives starts an order

	_ [64]byte // keeps the mutexes of neighbours on different cache lines
}

// A host is the state of a key. Most keys have no lease, no waiter and no refusal: their pointers
// are nil. Its methods are pure steps, as those of Refusals: they neither wait nor read a clock.
type host struct {
	key  string
	site string // of key, see sitekey.Of; empty without PerSite

	last     time.Duration // last start, its end with FromEnd, or the booking of one; only if source isn't noStart
	gap      time.Duration // delay in force since last
	adaptive time.Duration // delay by response times
	usual    time.Duration // how long pages usually take, see rules.Usual
	// began is the time from which served counts: the first start, the last lesson, or the start
	// after an idle time. It is unset before.
	began  time.Duration
	seq    uint64 // requests started
	served uint32 // successes since began
	source source // rule that gave gap; noStart: no start has a gap to keep
	origin origin // of last, while the key has no lease
	floor  uint16 // of the last request that knew one, in floorUnits, for those that don't

	active *active   // leases and waiters; nil: none
	kept   *refusals // nil: all its fields are zero
	stored *stored   // debt in Config.Store; nil: not read yet
}

// An origin is where host.last comes from.
type origin uint8

const (
	ofStamp origin = iota // stamp of a start that has ended
	ofOther               // end of a start, or a start of a lease that was cancelled since
	ofNew                 // no start: the key pays its gap from New on, see payFrom
)

// refusals are the part of a host that few keys have.
type refusals struct {
	rules.Refusals
	cleared   time.Duration          // start of the request that lifted the last block, or time of a Clear
	clearings uint32                 // number of times that a block was lifted
	freed     uint32                 // value of clearings after the last Clear of an operator
	next      time.Duration          // earliest start by Config.Store; 0: any
	act       *hostlimit.Debt        // last act of an operator that no Grant or Error has reported; nil: none
	takenBack *[]hostlimit.TakenBack // leases that were taken back and that no Grant has reported; nil: none
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

// A stamp is a start, or a booking of one, and the gap that must follow it.
type stamp struct {
	at, gap time.Duration // at is unset if the start was cancelled
	by      source        // rule that gave gap; noStart: there was no start
}

const unset time.Duration = math.MinInt64

// active is the live state of a key that has leases or waiters. Everything in it but its spots is
// guarded by the shard's mutex.
type active struct {
	sh *shard
	h  *host // nil: spare

	flights list.List[lease, *lease]
	due     time.Duration // no lease expires before; never: none is in flight
	probe   *lease        // first request after a block, until its response; nil if there are no refusals

	// last is the lease whose stamp is the host's last start, or nil after its release. past is the
	// last start of the released leases. If the stamp of last is cancelled, the gap counts from past.
	last *lease
	past stamp
	// ended is the stamp of the latest start whose lease has ended; unset: not known.
	ended time.Duration

	queue   list.List[waiter, *waiter]
	soonest time.Duration // no waiter's latest start is earlier
	gaps    time.Duration // sum of gapBefore over the queue

	// full is when the clock of SlotTimeout started: since then every slot has been held, and the
	// delay hasn't held the queue. It is never while that clock is stopped.
	full time.Duration

	// For how long a slot and a block have held the queue, up to since.
	since, bySlot, byBlock time.Duration

	// lacks is why the head waits for a place: perSite or line. If it is free, the key has its place
	// in no line, and none was handed to it that no lease holds.
	lacks  waitCause
	site   *site // of the key, since it took a place or joined the line; nil: it hasn't yet
	inSite spot  // in the places of site
	inAll  spot  // in Limiter.places
}

// A waiter is a request in the queue of a key: it waits for a lease, or with one for its Start.
// Waiters with a lease are ahead of the others. All is guarded by the shard's mutex, except for
// wake and the last fields.
type waiter struct {
	list.Linked[waiter]                   // in active.queue
	lease               *lease            // nil: it waits in Acquire
	priority            int               // of those without a lease
	watcher             hostlimit.Watcher // receives a long wait; nil: there is none
	name                fmt.Stringer      // of the request; nil: it has none
	notified            bool              // watcher has received it
	planned             time.Duration     // earliest start, as it was known at arrival
	wake                chan struct{}     // receives when the waiter is to look again; buffered
	sh                  *shard
	a                   *active // nil when out of the queue
	lim                 *hostlimit.Limits
	floor               time.Duration
	gapBefore           time.Duration // least gap to the start of prev; 0 at the head
	arrived             time.Duration
	latest              time.Duration // the latest start that is of use
	byContext           bool          // latest is the context's
	giveUp              time.Duration // end of MaxWait, or the deadline of the context
	bySlot              time.Duration // a.bySlot, a.byBlock at arrival
	byBlock             time.Duration
	err                 error // why the wait ended without a turn

	// Used by wait alone, in the caller's goroutine.
	notifier notifier
	over     bool // wait has seen the end of the wait
}

// A notifier calls the Watcher of a request in a separate goroutine. The waiters behind the request
// depend on its timer, and must not wait for its Watcher.
type notifier struct {
	ended chan any // receives the end of the call, which is a panic or nil; nil: no call runs
}

// A lease is one turn. Leases are allocated many at a time and never reused: a call that comes too
// late, or twice, changes no other turn.
type lease struct {
	list.Linked[lease] // in active.flights
	sh                 *shard
	h                  *host
	a                  *active // of h; nil once the slot is free again; guarded, like all below but heard, by sh.mu
	lim                *hostlimit.Limits
	floor              time.Duration

	name fmt.Stringer // of the request, while it holds the slot

	heard atomic.Int64 // when the lease was last used; never: it waits in Start

	ord        uint64 // order of starts in the shard
	seq        uint64
	stamp      stamp         // of the start, until then of the booking
	prev       time.Duration // active.ended at the start
	idle       time.Duration // of the key before the lease; 0 once it has started
	waitSlot   time.Duration
	waitDelay  time.Duration
	waitBlock  time.Duration
	slot       int32
	slots      int32
	probe      bool
	started    bool // seq and stamp are those of a Start
	observed   bool
	revised    bool
	before     rules.Counts // rows of refusals before Observe, for Revise
	unanswered bool         // the attempt has failed
	released   bool
	expired    bool
}

// stored is the debt of a key in Config.Store. It is guarded by the mutex of the shard.
type stored struct {
	syncing chan struct{} // closed when the present sync of the key is over; nil: none runs

	debt    hostlimit.Debt // in the Store, after the last Update that succeeded
	unsaved hostlimit.Debt // changes since, see note
	tried   bool           // the last Update has failed, and unsaved hasn't changed since
	noted   refusals       // state of the key at the last note; Learned as it was saved
	read    time.Duration  // when the last Update was tried; unset: none was
	eased   time.Duration  // when the delay was saved or taken over last
	failure error          // of the last Update

	// paced says that the Store had a next start. If its time is over, so is the gap before it.
	paced bool

	restored *hostlimit.Restored // block that was taken over, until a Grant or an Error reports it
	err      error               // why the last Update failed, until that is reported
}

// A drain is the state of a limiter that starts no further request and waits for those in flight.
// The zero drain hasn't begun.
type drain struct {
	called atomic.Bool
	begun  atomic.Bool

	mu   sync.Mutex
	ends chan struct{} // closed when a request in flight has ended; nil: no call of Drain waits
}

// newHost returns a host that was never asked.
func newHost(key string) *host { return &host{key: key, began: unset} }

// hear stores that l was in use at t.
func (l *lease) hear(t time.Duration) { l.heard.Store(int64(t)) }

// expiry returns when l expires if it isn't renewed, or never while it waits in Start.
func (l *lease) expiry() time.Duration {
	return rules.Add(time.Duration(l.heard.Load()), l.sh.m.leaseTTL)
}

// held returns for how long l has occupied its slot, or 0 if it has no stamp.
func (l *lease) held(now time.Duration) time.Duration {
	if l.stamp.at == unset {
		return 0
	}
	return now - l.stamp.at
}

// countsFromEnd reports whether the gap after l counts from its end: by Delay.FromEnd, or because
// there was no response. If a connection is refused after ten seconds, the attempt may have reached
// the site only then.
func (l *lease) countsFromEnd() bool { return l.started && (l.lim.Delay.FromEnd || l.unanswered) }

// isFirst reports whether it is called for the first time.
func (d *drain) isFirst() bool { return d.called.CompareAndSwap(false, true) }

// begin begins the drain. The limiter starts no further request then: see isBegun.
func (d *drain) begin() { d.begun.Store(true) }

// isBegun reports whether begin was called.
func (d *drain) isBegun() bool { return d.begun.Load() }

// ended wakes the waiters of next: a request in flight has ended.
func (d *drain) ended() {
	if !d.isBegun() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ends != nil {
		close(d.ends)
		d.ends = nil
	}
}

// next returns a channel that is closed when a request ends that is in flight now.
func (d *drain) next() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ends == nil {
		d.ends = make(chan struct{})
	}
	return d.ends
}
