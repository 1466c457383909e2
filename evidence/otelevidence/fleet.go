package otelevidence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// A FleetConfig names the sources of the figures of a fleet on Redis, for Register. Its types
// aren't those of redislimit and redisbudget, so that only users of these get a Redis client: their
// Stats convert to the types here.
type FleetConfig struct {
	// MeterProvider makes the instruments; nil: otel.GetMeterProvider().
	MeterProvider metric.MeterProvider

	// Limiter returns LimiterStats(hosts.Stats()) of a *redislimit.Limiter; nil: there is none.
	Limiter func() LimiterStats

	// Budget returns BudgetStats(pages.Stats()) of a *redisbudget.Budget; nil: there is none.
	Budget func() BudgetStats
}

// LimiterStats are a redislimit.Stats, field by field, with the same meaning.
type LimiterStats struct {
	Calls       uint64
	Failed      uint64
	Stale       uint64
	Quarantines uint64
	Refused     map[string]uint64

	Latency  time.Duration
	Guard    time.Duration
	InFlight int
	Waiting  int
	Down     bool
}

// BudgetStats are a redisbudget.Stats, field by field, with the same meaning.
type BudgetStats struct {
	Calls  int64
	Took   time.Duration
	Failed int64
	Late   int64
	Losses int64
	Waited int64
}

// Register reports the figures of cfg whenever metrics are collected, until the Registration is
// unregistered. The instruments are, those of both with politeness.redis.user (limiter, budget):
//
//	politeness.redis.calls         counter   scripts run on the server
//	politeness.redis.call.failures counter   of these, by politeness.redis.failure: unanswered, late
//	politeness.redis.call.time     counter, s   that answered calls of the budget took together
//	politeness.redis.losses        counter   times the server had lost data, or its clock was stepped: quarantines
//	politeness.redis.latency       gauge, s  of a reply to the limiter, on average
//	politeness.redis.guard         gauge, s  how late a start may be, on top of its delay
//	politeness.redis.refusals      counter   turns that the limiter refused, by politeness.reason
//	politeness.redis.in_flight     gauge     requests of this process
//	politeness.redis.waiting       gauge     requests of this process that wait for their turn
//	politeness.redis.down          gauge     1 while the limiter's server can't be reached, else 0
//	politeness.redis.budget.waits  counter   times a page or bytes waited because nothing was granted
func Register(cfg FleetConfig) (metric.Registration, error) {
	provider := cfg.MeterProvider
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	meter := provider.Meter(Name)
	m, err := newInstruments(meter)
	if err != nil {
		return nil, fmt.Errorf("otelevidence: %w", err)
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if cfg.Limiter != nil {
			m.limiter(o, cfg.Limiter())
		}
		if cfg.Budget != nil {
			m.budget(o, cfg.Budget())
		}
		return nil
	}, m.all...)
	if err != nil {
		return nil, fmt.Errorf("otelevidence: %w", err)
	}
	return registration, nil
}

// instruments are those of Register.
type instruments struct {
	calls, failures, losses, refusals, waits metric.Int64Observable // counters
	inFlight, waiting, down                  metric.Int64Observable // gauges
	took, latency, guard                     metric.Float64Observable

	all []metric.Observable
}

// A maker makes instruments, and collects them and the errors.
type maker struct {
	meter metric.Meter
	all   []metric.Observable
	errs  []error
}

func (m *maker) add(i metric.Observable, err error) {
	m.all = append(m.all, i)
	m.errs = append(m.errs, err)
}

func (m *maker) counter(name, unit, description string) metric.Int64Observable {
	c, err := m.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.add(c, err)
	return c
}

func (m *maker) gauge(name, unit, description string) metric.Int64Observable {
	g, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.add(g, err)
	return g
}

func (m *maker) secondsCounter(name, description string) metric.Float64Observable {
	c, err := m.meter.Float64ObservableCounter(name, metric.WithUnit("s"), metric.WithDescription(description))
	m.add(c, err)
	return c
}

func (m *maker) secondsGauge(name, description string) metric.Float64Observable {
	g, err := m.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(description))
	m.add(g, err)
	return g
}

func newInstruments(meter metric.Meter) (*instruments, error) {
	m := maker{meter: meter}
	made := &instruments{
		calls: m.counter("politeness.redis.calls", "{call}",
			"Scripts run on the server."),
		failures: m.counter("politeness.redis.call.failures", "{call}",
			"Calls without a response, or that came too late."),
		took: m.secondsCounter("politeness.redis.call.time",
			"Time that answered calls of the budget took together."),
		losses: m.counter("politeness.redis.losses", "{loss}",
			"Times the server had lost data, or its clock was stepped."),
		latency: m.secondsGauge("politeness.redis.latency",
			"Time of a reply to the limiter, on average."),
		guard: m.secondsGauge("politeness.redis.guard",
			"How late a start may be, on top of its delay."),
		refusals: m.counter("politeness.redis.refusals", "{refusal}",
			"Turns that the limiter refused."),
		inFlight: m.gauge("politeness.redis.in_flight", "{request}",
			"Requests of this process."),
		waiting: m.gauge("politeness.redis.waiting", "{request}",
			"Requests of this process that wait for their turn."),
		down: m.gauge("politeness.redis.down", "1",
			"1 while the limiter's server can't be reached, else 0."),
		waits: m.counter("politeness.redis.budget.waits", "{wait}",
			"Times a page or bytes waited because nothing was granted."),
	}
	made.all = m.all
	return made, errors.Join(m.errs...)
}

// shared reports the figures that the limiter and the budget have in common.
func (m *instruments) shared(o metric.Observer, user string, calls, unanswered, late, losses int64) {
	by := attribute.String("politeness.redis.user", user)
	o.ObserveInt64(m.calls, calls, metric.WithAttributes(by))
	failure := attribute.Key("politeness.redis.failure")
	o.ObserveInt64(m.failures, unanswered, metric.WithAttributes(by, failure.String("unanswered")))
	o.ObserveInt64(m.failures, late, metric.WithAttributes(by, failure.String("late")))
	o.ObserveInt64(m.losses, losses, metric.WithAttributes(by))
}

// limiter reports the figures of the limiter.
func (m *instruments) limiter(o metric.Observer, s LimiterStats) {
	m.shared(o, "limiter", int64(s.Calls), int64(s.Failed), int64(s.Stale), int64(s.Quarantines))
	for reason, n := range s.Refused {
		o.ObserveInt64(m.refusals, int64(n), metric.WithAttributes(attribute.String("politeness.reason", reason)))
	}
	o.ObserveFloat64(m.latency, s.Latency.Seconds())
	o.ObserveFloat64(m.guard, s.Guard.Seconds())
	o.ObserveInt64(m.inFlight, int64(s.InFlight))
	o.ObserveInt64(m.waiting, int64(s.Waiting))
	unreachable := int64(0)
	if s.Down {
		unreachable = 1
	}
	o.ObserveInt64(m.down, unreachable)
}

// budget reports the figures of the budget.
func (m *instruments) budget(o metric.Observer, s BudgetStats) {
	m.shared(o, "budget", s.Calls, s.Failed, s.Late, s.Losses)
	o.ObserveFloat64(m.took, s.Took.Seconds())
	o.ObserveInt64(m.waits, s.Waited)
}
