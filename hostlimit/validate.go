package hostlimit

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/internal/durations"
)

// Validate returns an error that names every field that is wrong, one a line. New of a limiter
// calls it.
func (c Config) Validate() error {
	var p problems
	p.negative("MaxInFlight", c.MaxInFlight)
	p.negative("MaxHosts", c.MaxHosts)
	if c.PerSite > 0 && c.Concurrency > c.PerSite {
		p.add("PerSite: %d is less than Concurrency, %d: a host can't have more than its site",
			c.PerSite, c.Concurrency)
	}
	p.duration("SlotTimeout", c.SlotTimeout)
	p.duration("LeaseTTL", c.LeaseTTL)
	p.duration("MaxWait", c.MaxWait)
	for i, w := range c.Windows {
		if err := w.validate(); err != nil {
			p.add("Windows[%d]: %w", i, err)
		}
	}
	p.append(Limits{c.Concurrency, c.Delay}.validate())
	refusals, ok := c.WithDefaults().Backoff.(backoff.Refusals)
	if !ok {
		p.add("Backoff: is a nil %T", c.Backoff)
	} else if err := refusals.Validate(); err != nil {
		p.add("Backoff: %w", err)
	}
	return p.err()
}

const wholeDay = 24 * time.Hour

// validate returns an error if w isn't a part of a day.
func (w Window) validate() error {
	begins := 0 <= w.From && w.From < wholeDay
	ends := 0 <= w.To && w.To <= wholeDay
	if !begins || !ends || w.From == w.To {
		return fmt.Errorf("from %v to %v: want two different times of a day", w.From, w.To)
	}
	return nil
}

// validate reports every problem of l.
func (l Limits) validate() error {
	var p problems
	if l.Concurrency < 0 || l.Concurrency > math.MaxInt32 {
		p.add("Concurrency: %d is out of range", l.Concurrency)
	}
	d := l.Delay
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
	if full := d.withDefaults(); d.Ceiling >= 0 && full.Ceiling < full.Min {
		p.add("Delay.Ceiling: %v is less than Delay.Min, %v", full.Ceiling, full.Min)
	}
	if slots := l.WithDefaults().Concurrency; d.FromEnd && slots > 1 {
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
