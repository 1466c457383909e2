package main

import (
	"testing"

	"github.com/redis/go-redis/v9"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/go-politeness/politeness/evidence/otelevidence"
	"github.com/go-politeness/politeness/internal/redistest"
	"github.com/go-politeness/politeness/redis/redisbudget"
	"github.com/go-politeness/politeness/redis/redislimit"
)

// TestTheFleetsFiguresAreMetrics: Stats of both modules convert to what otelevidence takes, and what
// they tell of a real server is collected.
func TestTheFleetsFiguresAreMetrics(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: redistest.New(t).Addr})
	defer client.Close()
	hosts, err := redislimit.New(redislimit.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	defer hosts.Close()
	pages, err := redisbudget.New(redisbudget.Config{Client: client, Name: "metrics"})
	if err != nil {
		t.Fatal(err)
	}
	defer pages.Close()
	reader := sdkmetric.NewManualReader()
	registration, err := otelevidence.Register(otelevidence.FleetConfig{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Limiter:       func() otelevidence.LimiterStats { return otelevidence.LimiterStats(hosts.Stats()) },
		Budget:        func() otelevidence.BudgetStats { return otelevidence.BudgetStats(pages.Stats()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = registration.Unregister() }()

	if _, err := hosts.Next(t.Context(), "a.example", 0); err != nil {
		t.Fatal(err)
	}
	var found metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	calls := int64(0)
	for _, m := range found.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "politeness.redis.calls" {
			for _, p := range sum.DataPoints {
				calls += p.Value
			}
		}
	}
	if calls == 0 {
		t.Errorf("a call of the limiter isn't in %+v", found.ScopeMetrics[0].Metrics)
	}
}
