package hostlimit

import (
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit/internal/kit"
)

// Config of a Memory. The zero value is 2 requests a host, 200 to 500 ms apart.
type Config struct {
	// Concurrency is the number of slots per key; 0: 2.
	Concurrency int

	// MaxInFlight bounds the requests in flight over all keys; 0: unlimited.
	// Places go round: keys that could start take them in turn, one each, and
	// a key that is paced or blocked holds none.
	MaxInFlight int

	// Delay is the gap between the starts of two requests on a key.
	Delay Delay

	// SlotTimeout is the longest wait for a slot; 0: 10 s. The clock of a
	// request runs while every slot of its key is held, and starts anew when
	// a slot is free and the delay or a block is what holds the queue. So it
	// catches bodies that nobody reads, not a long crawl-delay.
	SlotTimeout time.Duration

	// LeaseTTL is the time after which a lease that is neither renewed nor released
	// is taken back, as that of a body that is never closed; 0: 300 s. It counts from
	// Acquire, from each Start and from each Renew: a body that is read keeps its
	// slot for as long as that takes, so LeaseTTL only has to be longer than the
	// longest wait for an answer and for a single read.
	LeaseTTL time.Duration

	// MaxWait is the longest wait for a turn; 0: as long as the context allows.
	// A wait that is known to be longer is refused at once, with RetryAt.
	MaxWait time.Duration

	// Backoff says what counts as a refusal and for how long it blocks the key,
	// unless the host said so itself; nil: backoff.Fibonacci{}. Use
	// backoff.Refusals to count more than status 429.
	Backoff backoff.Policy

	// MaxHosts is about the number of keys kept; 0: 1,000,000. It bounds idle keys only:
	// one that owes anything (a slot, a delay, a block, a counter) is kept
	// whatever MaxHosts says. A start is remembered for a minute at least; a
	// floor of more than that which the caller learns after it can be missed by
	// the next start, if the key has been forgotten by then.
	MaxHosts int

	// Override gives the limits of single keys; nil: none. It is called at each
	// Acquire, never under a lock, and may return other limits each time; it must be
	// quick and safe for concurrent use.
	Override func(key string) (Limits, bool)
}

// Delay is the gap between two starts on a key: a random time in [Min, Max], or
// the adaptive delay or the caller's floor where that is longer.
type Delay struct {
	Min, Max        time.Duration // random within; both 0: 200 to 500 ms; Max 0: Min
	Adaptive        Adaptive      // moves with response times; zero: none; Squared, Proportional, Throttle
	Ceiling         time.Duration // upper bound of the adaptive delay; 0: 60 s, or Min if that is longer
	DangerouslyNone bool          // no Min and Max of our own; crawl-delay, Adaptive and blocks still hold
}

// Limits replace Concurrency and Delay for one key; zero fields keep the Config's.
// A Delay replaces the whole Delay of the Config.
type Limits struct {
	Concurrency int
	Delay       Delay
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
	if c.Override != nil {
		k.Override = func(key string) (kit.Own, bool) {
			l, ok := c.Override(key)
			return l.kit(), ok
		}
	}
	return k.Compile()
}

// Adaptive moves the delay of a key with the response times of its host, so
// that a host that grows slow is asked less often. The zero value doesn't.
// Slower answers raise the delay at once, quicker ones lower it from the next
// start on, and answers of status 400 and more never lower it: a host that
// fails fast isn't asked faster. The result stays within Delay.Min and
// Delay.Ceiling.
//
// Adaptive values are comparable and print as what they are.
type Adaptive = kit.Adaptive

// Squared waits the square of the last response time in seconds: 250 ms after
// half a second, 9 s after three.
var Squared = kit.Squared

// Proportional waits f times the last response time, as Heritrix does with a
// factor of 5.
func Proportional(f float64) Adaptive { return kit.Proportional(f) }

// Throttle aims at target requests at once in the mean, as Scrapy's AutoThrottle
// does: t = latency/target; the new delay is max(t, (old+t)/2), so it rises at
// once and comes down by halves.
func Throttle(target float64) Adaptive { return kit.Throttle(target) }
