package otelevidence_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/go-politeness/politeness/evidence/otelevidence"
)

// A limiter stands for a *redislimit.Limiter, whose module the others needn't have.
type limiter struct{}

func (limiter) Stats() (s struct { // redislimit.Stats
	Calls, Failed, Stale, Quarantines uint64
	Refused                           map[string]uint64
	Latency, Guard                    time.Duration
	InFlight, Waiting                 int
	Down                              bool
},
) {
	s.Calls, s.Refused = 1700, map[string]uint64{"blocked": 3, "busy": 1}
	return s
}

// What a limiter on Redis has done, for whatever reads metrics.
func ExampleRegister() {
	var hosts limiter // a *redislimit.Limiter
	reader := sdkmetric.NewManualReader()
	registration, err := otelevidence.Register(otelevidence.FleetConfig{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Limiter:       func() otelevidence.LimiterStats { return otelevidence.LimiterStats(hosts.Stats()) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = registration.Unregister() }()

	var found metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &found); err != nil {
		log.Fatal(err)
	}
	for _, m := range found.ScopeMetrics[0].Metrics {
		if refusals, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "politeness.redis.refusals" {
			for _, p := range refusals.DataPoints {
				fmt.Println(p.Attributes.Encoded(attribute.DefaultEncoder()), p.Value)
			}
		}
	}
	// Unordered output:
	// politeness.reason=blocked 3
	// politeness.reason=busy 1
}

// read collects what reader has, by metric and attributes.
func read(t *testing.T, reader *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := m.Name + " " + m.Unit + " "
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				if !data.IsMonotonic {
					t.Errorf("%s doesn't only grow", m.Name)
				}
				for _, p := range data.DataPoints {
					found[name+p.Attributes.Encoded(attribute.DefaultEncoder())] = float64(p.Value)
				}
			case metricdata.Sum[float64]:
				found[name] = data.DataPoints[0].Value
			case metricdata.Gauge[int64]:
				found[name] = float64(data.DataPoints[0].Value)
			case metricdata.Gauge[float64]:
				found[name] = data.DataPoints[0].Value
			}
		}
	}
	return found
}

// TestFleetFigures holds that each figure of both is a metric, as it is when metrics are collected.
func TestFleetFigures(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	hosts := otelevidence.LimiterStats{Calls: 1}
	registration, err := otelevidence.Register(otelevidence.FleetConfig{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Limiter:       func() otelevidence.LimiterStats { return hosts },
		Budget: func() otelevidence.BudgetStats {
			return otelevidence.BudgetStats{Calls: 9, Took: 1500 * time.Millisecond, Failed: 8, Late: 7, Losses: 6, Waited: 5}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	hosts = otelevidence.LimiterStats{
		Calls: 100, Failed: 20, Stale: 3, Quarantines: 4, Refused: map[string]uint64{"busy": 7, "draining": 1},
		Latency: 2 * time.Millisecond, Guard: 500 * time.Microsecond, InFlight: 11, Waiting: 12, Down: true,
	}
	want := map[string]float64{
		"politeness.redis.calls {call} politeness.redis.user=limiter":                                             100,
		"politeness.redis.calls {call} politeness.redis.user=budget":                                              9,
		"politeness.redis.call.failures {call} politeness.redis.failure=unanswered,politeness.redis.user=limiter": 20,
		"politeness.redis.call.failures {call} politeness.redis.failure=late,politeness.redis.user=limiter":       3,
		"politeness.redis.call.failures {call} politeness.redis.failure=unanswered,politeness.redis.user=budget":  8,
		"politeness.redis.call.failures {call} politeness.redis.failure=late,politeness.redis.user=budget":        7,
		"politeness.redis.call.time s ":                                  1.5,
		"politeness.redis.losses {loss} politeness.redis.user=limiter":   4,
		"politeness.redis.losses {loss} politeness.redis.user=budget":    6,
		"politeness.redis.latency s ":                                    0.002,
		"politeness.redis.guard s ":                                      0.0005,
		"politeness.redis.refusals {refusal} politeness.reason=busy":     7,
		"politeness.redis.refusals {refusal} politeness.reason=draining": 1,
		"politeness.redis.in_flight {request} ":                          11,
		"politeness.redis.waiting {request} ":                            12,
		"politeness.redis.down 1 ":                                       1,
		"politeness.redis.budget.waits {wait} ":                          5,
	}
	if got := read(t, reader); !maps.Equal(got, want) {
		for _, name := range slices.Sorted(maps.Keys(got)) {
			t.Logf("%s: %v", name, got[name])
		}
		t.Errorf("want %v", want)
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, reader); len(got) > 0 {
		t.Errorf("after Unregister: %v", got)
	}
}

// TestAFleetWithoutSourcesReportsNothing, and the global provider is the default.
func TestAFleetWithoutSourcesReportsNothing(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	if _, err := otelevidence.Register(otelevidence.FleetConfig{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, reader); len(got) > 0 {
		t.Errorf("of a fleet without limiter and budget: %v", got)
	}
	if _, err := otelevidence.Register(otelevidence.FleetConfig{}); err != nil {
		t.Error(err)
	}
	if _, err := otelevidence.Register(otelevidence.FleetConfig{MeterProvider: noop.NewMeterProvider()}); err != nil {
		t.Error(err)
	}
}
