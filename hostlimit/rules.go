package hostlimit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/internal/durations"
)

// Rules are a Config, checked and completed, for implementations of Limiter: the same Config means
// the same to all of them. Rules answer with the limits of a key, what an Outcome says about its
// host, for how long a refusal blocks, when Config.Windows are open, and the errors of refused
// turns. They hold no state of a key, and are safe for concurrent use.
type Rules struct {
	config   Config
	limits   Limits
	hours    hours
	refusals backoff.Refusals
	longest  time.Duration // Longest of refusals, which bounds all other pauses but bans, too; at least a second

	compiled *lru.Cache[Limits, *Limits] // by what Override returned, which is checked once for each value
}

// Rules checks c and returns its Rules. The error names every field that is wrong.
func (c Config) Rules() (*Rules, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for i, n := range [...]int{c.MaxInFlight, c.MaxHosts} {
		if n < 0 {
			bad("%s: %d is negative", [...]string{"MaxInFlight", "MaxHosts"}[i], n)
		}
	}
	for i, d := range [...]time.Duration{c.SlotTimeout, c.LeaseTTL, c.MaxWait} {
		errs = append(errs, durations.Check([...]string{"SlotTimeout", "LeaseTTL", "MaxWait"}[i], d))
	}
	for i, w := range c.Windows {
		if err := checkWindow(w); err != nil {
			bad("Windows[%d]: %w", i, err)
		}
	}
	errs = append(errs, Limits{c.Concurrency, c.Delay}.validate(Limits{}))
	c = c.WithDefaults()
	refusals, ok := c.Backoff.(backoff.Refusals)
	if !ok {
		bad("Backoff: is a nil %T", c.Backoff)
	} else if err := refusals.Validate(); err != nil {
		bad("Backoff: %w", err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("hostlimit: %w", err)
	}
	c.Windows = slices.Clone(c.Windows)
	r := &Rules{config: c, limits: Limits{c.Concurrency, c.Delay}, hours: slices.Clone(c.Windows), refusals: refusals}
	r.refusals.Statuses, r.longest = slices.Clone(refusals.Statuses), max(time.Second, refusals.Longest())
	r.compiled, _ = lru.New[Limits, *Limits](1024) // Override may return any number of limits
	return r, nil
}

// Config returns the Config, with every default filled in.
func (r *Rules) Config() Config { return r.config }

// Backoff returns Config.Backoff, with every default filled in.
func (r *Rules) Backoff() backoff.Refusals { return r.refusals }

// Limits returns the limits of key, as Override returns them at this moment, with every default
// filled in. Beside an error, which says what is wrong with them, it returns those of the Config.
// The limits are shared: don't change them.
func (r *Rules) Limits(key string) (*Limits, error) {
	if r.config.Override == nil {
		return &r.limits, nil
	}
	own, ok := r.config.Override(key)
	if !ok || own == (Limits{}) {
		return &r.limits, nil
	}
	if l, ok := r.compiled.Get(own); ok {
		return l, nil
	}
	if err := own.validate(r.limits); err != nil {
		return &r.limits, fmt.Errorf("hostlimit: Override(%q): %w", key, err)
	}
	l := own.or(r.limits).WithDefaults()
	r.compiled.Add(own, &l)
	return &l, nil
}

// Own returns a copy of l for Grant.Own; nil if l are the limits of the Config.
func (r *Rules) Own(l *Limits) *Limits {
	if l == &r.limits {
		return nil
	}
	return new(*l)
}

// validate reports what is wrong with l, whose zero fields are those of a checked Config; a zero
// config is none.
func (l Limits) validate(config Limits) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if l.Concurrency < 0 || l.Concurrency > math.MaxInt32 {
		bad("Concurrency: %d is out of range", l.Concurrency)
	}
	d, slots := l.or(config).Delay, l.or(config).WithDefaults().Concurrency
	for i, part := range [...]time.Duration{d.Min, d.Max, d.Ceiling} {
		errs = append(errs, durations.Check([...]string{"Delay.Min", "Delay.Max", "Delay.Ceiling"}[i], part))
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
	if full := d.WithDefaults(); d.Ceiling >= 0 && full.Ceiling < full.Min {
		bad("Delay.Ceiling: %v is less than Delay.Min, %v", full.Ceiling, full.Min)
	}
	if d.FromEnd && slots > 1 {
		bad("Delay.FromEnd: needs Concurrency 1, have %d", slots)
	}
	return errors.Join(errs...)
}
