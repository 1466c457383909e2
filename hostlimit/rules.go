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

// Rules are a Config, checked and completed, for implementers of Limiter: by them the same Config
// means the same to all limiters. Rules return the limits of a key, the meaning of an Outcome, the
// length of blocks, the hours of Config.Windows, and the errors of refused turns. They hold no
// state of a key, and are safe for concurrent use.
type Rules struct {
	config   Config
	limits   Limits
	hours    hours
	refusals backoff.Refusals
	longest  time.Duration // bound of all pauses except for bans: Longest of refusals, at least a second

	compiled *lru.Cache[Limits, *Limits] // by the value that Override returned, which is checked once
}

// Rules checks c and returns its Rules, for implementers of Limiter. The error names every field
// that is wrong.
func (c Config) Rules() (*Rules, error) {
	var p problems
	p.negative("MaxInFlight", c.MaxInFlight)
	p.negative("MaxHosts", c.MaxHosts)
	p.duration("SlotTimeout", c.SlotTimeout)
	p.duration("LeaseTTL", c.LeaseTTL)
	p.duration("MaxWait", c.MaxWait)
	for i, w := range c.Windows {
		if err := checkWindow(w); err != nil {
			p.add("Windows[%d]: %w", i, err)
		}
	}
	p.append(Limits{c.Concurrency, c.Delay}.validate(Limits{}))
	c = c.WithDefaults() // after the checks, whose errors name what the user has set
	refusals, ok := c.Backoff.(backoff.Refusals)
	if !ok {
		p.add("Backoff: is a nil %T", c.Backoff)
	} else if err := refusals.Validate(); err != nil {
		p.add("Backoff: %w", err)
	}
	if err := p.err(); err != nil {
		return nil, fmt.Errorf("hostlimit: %w", err)
	}

	// The caller may change its slices afterwards.
	refusals.Statuses = slices.Clone(refusals.Statuses)
	c.Windows = slices.Clone(c.Windows)
	compiled, _ := lru.New[Limits, *Limits](mostCompiled) // it refuses only a size below 1
	return &Rules{
		config:   c,
		limits:   Limits{c.Concurrency, c.Delay},
		hours:    slices.Clone(c.Windows),
		refusals: refusals,
		longest:  max(time.Second, refusals.Longest()),
		compiled: compiled,
	}, nil
}

// mostCompiled bounds Rules.compiled: Override may return any number of limits.
const mostCompiled = 1024

// Config returns the Config, with every default filled in.
func (r *Rules) Config() Config { return r.config }

// Backoff returns Config.Backoff, with every default filled in.
func (r *Rules) Backoff() backoff.Refusals { return r.refusals }

// Limits returns the limits of key, as Override returns them at this moment, with every default
// filled in. Beside an error, which is about the limits of Override, it returns those of the
// Config. The limits are shared: don't change them.
func (r *Rules) Limits(key string) (*Limits, error) {
	if r.config.Override == nil {
		return &r.limits, nil
	}
	own, ok := r.config.Override(key)
	if !ok || own == (Limits{}) { // zero fields keep the Config's, so these are the Config's
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
	if l == &r.limits { // Limits returns this very pointer unless Override has others
		return nil
	}
	return new(*l)
}

// validate reports every problem of l, whose zero fields are those of a checked Config; a zero
// config is none.
func (l Limits) validate(config Limits) error {
	var p problems
	if l.Concurrency < 0 || l.Concurrency > math.MaxInt32 {
		p.add("Concurrency: %d is out of range", l.Concurrency)
	}
	d := l.or(config).Delay
	p.duration("Delay.Min", d.Min)
	p.duration("Delay.Max", d.Max)
	p.duration("Delay.Ceiling", d.Ceiling)
	if d.DangerouslyNone && (d.Min != 0 || d.Max != 0) {
		p.add("Delay.DangerouslyNone: contradicts Delay.Min and Delay.Max")
	}
	if d.Max > 0 && d.Max < d.Min {
		p.add("Delay.Max: %v is less than Delay.Min, %v", d.Max, d.Min)
	}
	if err := d.Adaptive.validate(); err != nil {
		p.add("Delay.Adaptive: %w", err)
	}
	if full := d.WithDefaults(); d.Ceiling >= 0 && full.Ceiling < full.Min {
		p.add("Delay.Ceiling: %v is less than Delay.Min, %v", full.Ceiling, full.Min)
	}
	if slots := l.or(config).WithDefaults().Concurrency; d.FromEnd && slots > 1 {
		p.add("Delay.FromEnd: needs Concurrency 1, have %d", slots)
	}
	return p.err()
}

// problems are the errors of a Config's fields.
type problems []error

func (p *problems) append(err error) { *p = append(*p, err) }

func (p *problems) add(format string, args ...any) { p.append(fmt.Errorf(format, args...)) }

func (p *problems) negative(field string, n int) {
	if n < 0 {
		p.add("%s: %d is negative", field, n)
	}
}

func (p *problems) duration(field string, d time.Duration) { p.append(durations.Check(field, d)) }

func (p *problems) err() error { return errors.Join(*p...) }
