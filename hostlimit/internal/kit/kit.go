// Package kit is what implementations of hostlimit.Limiter share, so that the same
// Config means the same to all of them: the rules that a Config stands for, what an
// answer says about its host, how a delay adapts, and the reasons of refusals.
//
// It lies below hostlimit, which it therefore can't import. Its Delay and Outcome have
// the fields of their namesakes there and convert from them.
package kit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-politeness/politeness/backoff"
)

// Forever is longer than any wait.
const Forever time.Duration = math.MaxInt64

// LongWait is the length from which on a wait is told to a hostlimit.Watcher.
const LongWait = time.Second

// The defaults that a share of the limits needs to know as well.
const (
	defaultSlots   = 2
	defaultLeast   = 200 * time.Millisecond
	defaultMost    = 500 * time.Millisecond
	defaultCeiling = 60 * time.Second
)

// A Delay is a hostlimit.Delay.
type Delay struct {
	Min, Max        time.Duration
	Adaptive        Adaptive
	Ceiling         time.Duration
	FromEnd         bool
	DangerouslyNone bool
}

// complete fills in the defaults.
func (d Delay) complete() Delay {
	if d.Min == 0 && d.Max == 0 && !d.DangerouslyNone {
		d.Min, d.Max = defaultLeast, defaultMost
	}
	d.Max = max(d.Min, d.Max)
	d.Ceiling = cmp.Or(d.Ceiling, max(d.Min, defaultCeiling))
	return d
}

// Own is a hostlimit.Limits: what Override says of a key.
type Own struct {
	Concurrency int
	Delay       Delay
}

// A Config is a hostlimit.Config.
type Config struct {
	Own
	MaxInFlight int
	SlotTimeout time.Duration
	LeaseTTL    time.Duration
	MaxWait     time.Duration
	Backoff     backoff.Policy
	Windows     []Window
	MaxHosts    int
	Override    func(key string) (Own, bool)
}

// Limits hold for one key. They don't change.
type Limits struct {
	Slots    int
	Min, Max time.Duration // of the delay that Draw draws
	Adaptive Adaptive
	Ceiling  time.Duration
	FromEnd  bool // the gap counts from the end of the exchange before; Slots is 1
	Own      *Own // what Override gave, with what it left to the Config filled in; nil: the Config's own
}

// compile checks l and fills in the defaults; base is nil for the Config's own.
func (l Own) compile(base *Limits) (*Limits, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	c := new(Limits)
	if base != nil {
		*c = *base
	}
	c.Slots = cmp.Or(l.Concurrency, c.Slots, defaultSlots)
	if l.Concurrency < 0 || l.Concurrency > math.MaxInt32 {
		bad("Concurrency: %d is out of range", l.Concurrency)
	}
	if base != nil && l.Delay == (Delay{}) {
		if c.FromEnd && c.Slots > 1 {
			bad("Concurrency: %d, but Delay.FromEnd needs 1", c.Slots)
		}
		return c, errors.Join(errs...)
	}

	d := l.Delay
	if d.Min < 0 {
		bad("Delay.Min: %v is negative", d.Min)
	}
	if d.Max < 0 {
		bad("Delay.Max: %v is negative", d.Max)
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
	d = d.complete()
	switch {
	case l.Delay.Ceiling < 0:
		bad("Delay.Ceiling: %v is negative", d.Ceiling)
	case d.Ceiling < d.Min:
		bad("Delay.Ceiling: %v is less than Delay.Min, %v", d.Ceiling, d.Min)
	}
	if d.FromEnd && c.Slots > 1 {
		bad("Delay.FromEnd: needs Concurrency 1, have %d", c.Slots)
	}
	c.Min, c.Max, c.Adaptive, c.Ceiling, c.FromEnd = d.Min, d.Max, d.Adaptive, d.Ceiling, d.FromEnd
	return c, errors.Join(errs...)
}

// Draw picks a delay at random.
func (l *Limits) Draw() time.Duration {
	if l.Max == l.Min {
		return l.Min
	}
	return l.Min + time.Duration(rand.Uint64N(uint64(l.Max-l.Min)+1)) // Max-Min+1 may not fit into an int64
}

// Rules are a Config, checked and completed. They are safe for concurrent use.
type Rules struct {
	MaxInFlight int           // 0: unlimited
	SlotTimeout time.Duration // Forever: MaxWait bounds it
	LeaseTTL    time.Duration
	MaxWait     time.Duration
	MaxHosts    int
	Hours       Hours
	Refusals    Refusals

	limits   *Limits
	override func(key string) (Own, bool)

	// compiled keeps what override gave, checked once for each value.
	mu       sync.RWMutex
	compiled map[Own]*Limits
}

// Compile checks c, naming every field that is wrong, and fills in the defaults.
func (c Config) Compile() (*Rules, error) {
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
	for i, w := range c.Windows {
		if err := w.validate(); err != nil {
			bad(fmt.Errorf("Windows[%d]: %w", i, err))
		}
	}
	limits, err := c.Own.compile(nil)
	bad(err)
	refusals, err := compileRefusals(c.Backoff)
	bad(err)
	if len(errs) > 0 {
		return nil, fmt.Errorf("hostlimit: %w", errors.Join(errs...))
	}
	return &Rules{
		MaxInFlight: c.MaxInFlight,
		SlotTimeout: cmp.Or(c.SlotTimeout, Forever),
		LeaseTTL:    cmp.Or(c.LeaseTTL, 300*time.Second),
		MaxWait:     cmp.Or(c.MaxWait, time.Hour),
		MaxHosts:    cmp.Or(c.MaxHosts, 1_000_000),
		Hours:       slices.Clone(c.Windows),
		Refusals:    refusals,
		limits:      limits,
		override:    c.Override,
	}, nil
}

// Limits returns those of key, as Override says at this moment.
func (r *Rules) Limits(key string) (*Limits, error) {
	if r.override == nil {
		return r.limits, nil
	}
	own, ok := r.override(key)
	if !ok || own == (Own{}) {
		return r.limits, nil
	}
	r.mu.RLock()
	c := r.compiled[own]
	r.mu.RUnlock()
	if c != nil {
		return c, nil
	}
	c, err := own.compile(r.limits)
	if err != nil {
		return nil, fmt.Errorf("hostlimit: Override(%q): %w", key, err)
	}
	c.Own = &Own{Concurrency: c.Slots, Delay: Delay{
		Min: c.Min, Max: c.Max, Adaptive: c.Adaptive, Ceiling: c.Ceiling, FromEnd: c.FromEnd, DangerouslyNone: c.Max == 0,
	}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.compiled == nil || len(r.compiled) >= 1024 {
		r.compiled = make(map[Own]*Limits) // bounded, whatever Override thinks up
	}
	r.compiled[own] = c
	return c, nil
}

// Default returns the limits of a key that Override says nothing of.
func (r *Rules) Default() *Limits { return r.limits }

// Share returns the part of l that is left to one of n processes: n times the delays
// and one n-th of the slots, at least one. What Override leaves to the Config stays so;
// whole says that there is no Config below.
func (l Own) Share(n int, whole bool) Own {
	if whole {
		l.Concurrency = cmp.Or(l.Concurrency, defaultSlots)
	}
	if l.Concurrency > 0 {
		l.Concurrency = max(1, l.Concurrency/n)
	}
	if d := &l.Delay; whole || *d != (Delay{}) {
		*d = d.complete()
		d.Min, d.Max, d.Ceiling = Times(d.Min, n), Times(d.Max, n), Times(d.Ceiling, n)
	}
	return l
}

// Times multiplies d, and stops where that would overflow.
func Times(d time.Duration, n int) time.Duration {
	const longest = time.Duration(1 << 61)
	if d > longest/time.Duration(n) {
		return longest
	}
	return d * time.Duration(n)
}

// Check reports what is wrong with own limits of a key.
func (r *Rules) Check(own Own) error {
	_, err := own.compile(r.limits)
	return err
}
