package otelevidence_test

import (
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/go-politeness/politeness/evidence/otelevidence"
)

// TestAFigureThatPanics panics in the reading of the metrics, and the next one goes on.
func TestAFigureThatPanics(t *testing.T) {
	panics := true
	may := func() {
		if panics {
			panic("boom")
		}
	}
	reader := sdkmetric.NewManualReader()
	registration, err := otelevidence.Register(otelevidence.FleetConfig{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Limiter:       func() otelevidence.LimiterStats { may(); return otelevidence.LimiterStats{Calls: 1} },
		Budget:        func() otelevidence.BudgetStats { may(); return otelevidence.BudgetStats{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = registration.Unregister() }()
	collect := func() (p any) {
		defer func() { p = recover() }()
		var found metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &found); err != nil || len(found.ScopeMetrics) == 0 {
			t.Errorf("%v, %v", found, err)
		}
		return nil
	}
	if p := collect(); p != "boom" {
		t.Errorf("panic %v", p)
	}
	panics = false
	if p := collect(); p != nil {
		t.Errorf("afterwards: panic %v", p)
	}
}
