package otelevidence_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/otelevidence"
)

// A crawler's metrics for Prometheus. The Evidence goes into
// politeness.Config.Evidence, beside a log perhaps (evidence.Multi).
func Example_prometheus() {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := otelevidence.New(otelevidence.Config{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// The crawl: two requests, one of them refused.
	ctx := context.Background()
	e.Record(ctx, evidence.Decision{Type: evidence.Started, Host: "example.com", WaitDelay: 1500 * time.Millisecond})
	e.Record(ctx, evidence.Decision{Type: evidence.BlockedByRobots, Host: "example.com", MatchedRule: "Disallow: /private"})

	// What Prometheus scrapes from http.Handle("/metrics", handler).
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	scrape := httptest.NewRecorder()
	handler.ServeHTTP(scrape, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(scrape.Body.String()) {
		if strings.HasPrefix(line, "politeness_refusals_total") || strings.HasPrefix(line, "politeness_wait_duration_seconds_sum") {
			fmt.Print(line)
		}
	}
	// Output:
	// politeness_refusals_total{politeness_decision="blocked_by_robots"} 1
	// politeness_wait_duration_seconds_sum{politeness_wait_cause="delay"} 1.5
}
