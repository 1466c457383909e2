package hostlimit

import (
	"cmp"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit/internal/kit"
)

// Config of a Memory. The zero value is 2 requests a host, 200 to 500 ms apart.
type Config struct {
	// Concurrency is the number of slots per key; 0: 2.
	Concurrency int

	// MaxInFlight bounds the requests in flight over all keys; 0: unlimited. Places go round: keys
	// that could start take them in turn, one each, and a key that is paced or blocked holds none.
	MaxInFlight int

	// Delay is the gap between the starts of two requests on a key.
	Delay Delay

	// SlotTimeout is the longest wait for a slot; 0: none, MaxWait bounds it. The clock of a
	// request runs while every slot of its key is held, and starts anew when a slot is free and the
	// delay or a block is what holds the queue. So it catches bodies that nobody reads, not a long
	// crawl-delay; a host that answers slowly holds its slots as well.
	SlotTimeout time.Duration

	// LeaseTTL is the time after which a lease that is neither renewed nor released is taken back,
	// as that of a body that is never closed; 0: 300 s. It counts from Acquire, from each Start and
	// from each Renew: a body that is read keeps its slot for as long as that takes, so LeaseTTL
	// only has to be longer than the longest wait for an answer and for a single read.
	LeaseTTL time.Duration

	// MaxWait is the longest wait for a turn; 0: an hour. A wait that is known to be
	// longer is refused at once, with RetryAt.
	MaxWait time.Duration

	// Backoff says for how long a refusal blocks the key, unless the host said so itself;
	// nil: backoff.Fibonacci{}. Use backoff.Refusals to say what counts as one at once,
	// beside what always does (see Outcome).
	Backoff backoff.Policy

	// Windows are one's own hours: requests start within them only; none: at any time.
	// Outside of them every key is as one that is blocked.
	Windows []Window

	// MaxHosts is about the number of keys kept; 0: 1,000,000. It bounds idle keys only: one that
	// owes anything (a slot, a delay, a block, a counter) is kept whatever MaxHosts says. A start
	// is remembered for a minute at least; a floor of more than that which the caller learns after
	// it can be missed by the next start, if the key has been forgotten by then.
	MaxHosts int

	// Store keeps what keys owe beyond the life of the process: blocks, refusals in a row, learned
	// delays, and next starts more than a minute away; nil: nothing is kept. Each is kept before
	// the call that brings it about returns: Observe, Start, or with FromEnd Release. A key's debt
	// is loaded when the key is first met, and read again when it is used 10 s later, so that
	// processes which share a Store see each other's blocks. A Store that fails stops no request:
	// Grant.StateErr tells. It costs about 400 bytes a key. Package redislimit,
	// which keeps its state on a server, says what it does with a Store.
	Store Store

	// Override gives the limits of single keys; nil: none. It is called at each Acquire, and again
	// when a request that has waited looks whether it may start; never under a lock. It may return
	// other limits each time, and must be quick and safe for concurrent use. [Overrides] reads them
	// from a file.
	Override func(key string) (Limits, bool)
}

// A Window is a part of the day, counted from midnight UTC. From is in it, To isn't. One
// whose From is later than its To spans midnight: {22 * time.Hour, 6 * time.Hour} is the night.
type Window struct{ From, To time.Duration }

// Delay is the gap between two starts on a key: a random time in [Min, Max], or
// the adaptive delay or the caller's floor where that is longer.
type Delay struct {
	Min, Max        time.Duration // random within; both 0: 200 to 500 ms; Max 0: Min
	Adaptive        Adaptive      // what moves the delay; zero: Learned; Fixed, Squared, Proportional, Throttle, Longest
	Ceiling         time.Duration // upper bound of the adaptive delay; 0: 60 s, or Min if that is longer
	FromEnd         bool          // the gap, and a floor, count from the Release of the request before; needs Concurrency 1
	DangerouslyNone bool          // no Min and Max of our own; crawl-delay, Adaptive and blocks still hold
}

// Limits replace Concurrency and Delay for one key; zero fields keep the Config's.
// A Delay replaces the whole Delay of the Config.
type Limits struct {
	Concurrency int
	Delay       Delay
}

// Of returns the limits of key, as Override says at this moment, with nothing left to a default but
// Delay.Ceiling. Use it to plan ahead, as a frontier does that knows how many requests a host takes
// at once.
func (c Config) Of(key string) Limits {
	l := Limits{c.Concurrency, c.Delay}
	if c.Override != nil {
		if own, ok := c.Override(key); ok {
			l.Concurrency = cmp.Or(own.Concurrency, l.Concurrency)
			l.Delay = cmp.Or(own.Delay, l.Delay)
		}
	}
	l.Concurrency = cmp.Or(l.Concurrency, 2)
	switch d := &l.Delay; {
	case d.DangerouslyNone:
	case d.Min == 0 && d.Max == 0:
		d.Min, d.Max = 200*time.Millisecond, 500*time.Millisecond
	case d.Max == 0:
		d.Max = d.Min
	}
	return l
}

// own returns the limits that Override gave, nil where it gave none.
func own(l *kit.Limits) *Limits {
	if l.Own == nil {
		return nil
	}
	return &Limits{Concurrency: l.Own.Concurrency, Delay: Delay(l.Own.Delay)}
}

// kit returns l for the rules.
func (l Limits) kit() kit.Own { return kit.Own{Concurrency: l.Concurrency, Delay: kit.Delay(l.Delay)} }

// rules checks c, naming every field that is wrong, and fills in the defaults.
func (c Config) rules() (*kit.Rules, error) {
	k := kit.Config{
		Own:         Limits{c.Concurrency, c.Delay}.kit(),
		MaxInFlight: c.MaxInFlight, SlotTimeout: c.SlotTimeout, LeaseTTL: c.LeaseTTL, MaxWait: c.MaxWait, MaxHosts: c.MaxHosts,
		Backoff: c.Backoff,
	}
	for _, w := range c.Windows {
		k.Windows = append(k.Windows, kit.Window(w))
	}
	if c.Override != nil {
		k.Override = func(key string) (kit.Own, bool) {
			l, ok := c.Override(key)
			return l.kit(), ok
		}
	}
	return k.Compile()
}

// Adaptive says what moves the delay of a key: the refusals of its host (Learned, which
// is the zero value), or its response times (Squared, Proportional, Throttle), so that a
// host that grows slow is asked less often. Longest joins several; Fixed is none.
//
// A longer delay holds at once, a shorter one from the next start on. Answers of status 400 and
// more, and exchanges without an answer, never lower a delay: a host that fails fast isn't asked
// faster. One without an answer counts with the time that it took, also where the caller's own
// timeout ended it. The result stays within Delay.Min and Delay.Ceiling.
//
// Adaptive values are comparable and print as what they are.
type Adaptive = kit.Adaptive

// Fixed leaves the delay as it is. For hosts whose rate is agreed upon.
var Fixed = kit.Fixed

// Learned finds the rate that a host allows, and costs nothing where none refuses. The first
// refusal of a series makes the delay one and a half times as long, or as long as the
// starts since the last refusal were apart in the mean, if that is longer; each twenty starts
// without a refusal make it 2 % shorter. Refusals are those that block at once, and
// 401, 402, 403 and 451 in a row: a host that fails or doesn't answer tells of no rate.
var Learned = kit.Learned

// Squared waits the square of the last response time in seconds: 250 ms after
// half a second, 9 s after three.
var Squared = kit.Squared

// Proportional moves the delay half the way to f times the last response time at each
// answer. Heritrix waits 5 times that.
func Proportional(f float64) Adaptive { return kit.Proportional(f) }

// Throttle aims at target requests at once in the mean, as Scrapy's AutoThrottle does: t =
// latency/target; the new delay is max(t, (old+t)/2), so it rises at once and comes down by halves.
func Throttle(target float64) Adaptive { return kit.Throttle(target) }

// Longest waits as long as a or b says, whichever is longer: Longest(Learned,
// Proportional(1)) learns from refusals and follows the response times. Delays by response
// times that move from the old one, such as Throttle, move from the longest of them.
func Longest(a, b Adaptive) Adaptive { return kit.Longest(a, b) }
