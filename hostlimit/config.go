package hostlimit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-politeness/politeness/backoff"
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

	// LeaseTTL is the time after which a lease that was never released is taken
	// back, as of a body that is never closed; 0: 300 s. Let it be longer than
	// the longest download.
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

	// Override gives the limits of single keys; nil: none. It is asked at each
	// Acquire, never under a lock, so it may change its mind; it must be quick
	// and safe for concurrent use.
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

// limits are Limits, checked and completed.
type limits struct {
	slots    int
	min, max int64
	adaptive Adaptive
	ceiling  int64
}

// compile checks l and fills in the defaults; base is nil for the Config's own.
func (l Limits) compile(base *limits) (*limits, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	c := &limits{slots: cmp.Or(l.Concurrency, 2)}
	if l.Concurrency < 0 || l.Concurrency > math.MaxInt32 {
		bad("Concurrency: %d is out of range", l.Concurrency)
	}
	if base != nil {
		if l.Concurrency == 0 {
			c.slots = base.slots
		}
		if l.Delay == (Delay{}) {
			c.min, c.max, c.adaptive, c.ceiling = base.min, base.max, base.adaptive, base.ceiling
			return c, errors.Join(errs...)
		}
	}

	d := l.Delay
	if d.Min < 0 {
		bad("Delay.Min: %v is negative", d.Min)
	}
	if d.Max < 0 {
		bad("Delay.Max: %v is negative", d.Max)
	}
	if d.Ceiling < 0 {
		bad("Delay.Ceiling: %v is negative", d.Ceiling)
	}
	if d.DangerouslyNone && (d.Min != 0 || d.Max != 0) {
		bad("Delay.DangerouslyNone: contradicts Delay.Min and Delay.Max")
	}
	if d.Max > 0 && d.Max < d.Min {
		bad("Delay.Max: %v is less than Delay.Min, %v", d.Max, d.Min)
	}
	if err := d.Adaptive.validate(); err != nil {
		bad("Delay.Adaptive: %w", err)
	}
	if d.Min == 0 && d.Max == 0 && !d.DangerouslyNone {
		d.Min, d.Max = 200*time.Millisecond, 500*time.Millisecond
	}
	if d.Ceiling > 0 && d.Ceiling < d.Min {
		bad("Delay.Ceiling: %v is less than Delay.Min, %v", d.Ceiling, d.Min)
	}
	c.min, c.max = int64(d.Min), int64(max(d.Min, d.Max))
	c.adaptive = d.Adaptive
	c.ceiling = int64(cmp.Or(d.Ceiling, max(d.Min, 60*time.Second)))
	return c, errors.Join(errs...)
}

// draw picks a delay at random.
func (l *limits) draw() int64 {
	if l.max == l.min {
		return l.min
	}
	return l.min + int64(rand.Uint64N(uint64(l.max-l.min)+1)) // max-min+1 may not fit into an int64
}

// rules are a Config, checked and completed.
type rules struct {
	limits      *limits
	maxInFlight int
	slotTimeout int64
	leaseTTL    int64
	maxWait     int64 // never: as long as the context allows
	maxHosts    int
	refusals    refusals
	override    func(key string) (Limits, bool)
}

// compile checks c, naming every field that is wrong, and fills in the defaults.
func (c Config) compile() (rules, error) {
	var errs []error
	bad := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	negative := func(field string, n int64, value any) {
		if n < 0 {
			bad(fmt.Errorf("%s: %v is negative", field, value))
		}
	}
	negative("MaxInFlight", int64(c.MaxInFlight), c.MaxInFlight)
	negative("SlotTimeout", int64(c.SlotTimeout), c.SlotTimeout)
	negative("LeaseTTL", int64(c.LeaseTTL), c.LeaseTTL)
	negative("MaxWait", int64(c.MaxWait), c.MaxWait)
	negative("MaxHosts", int64(c.MaxHosts), c.MaxHosts)
	lim, err := Limits{c.Concurrency, c.Delay}.compile(nil)
	bad(err)
	refusals, err := compileRefusals(c.Backoff)
	bad(err)
	if len(errs) > 0 {
		return rules{}, fmt.Errorf("hostlimit: %w", errors.Join(errs...))
	}
	return rules{
		limits:      lim,
		maxInFlight: c.MaxInFlight,
		slotTimeout: int64(cmp.Or(c.SlotTimeout, 10*time.Second)),
		leaseTTL:    int64(cmp.Or(c.LeaseTTL, 300*time.Second)),
		maxWait:     cmp.Or(int64(c.MaxWait), never),
		maxHosts:    cmp.Or(c.MaxHosts, 1_000_000),
		refusals:    refusals,
		override:    c.Override,
	}, nil
}
