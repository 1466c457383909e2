package otelevidence_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/otelevidence"
)

var at = time.Date(2026, 11, 21, 3, 4, 5, 6, time.UTC)

// measured is one time series: how often, and the sum.
type measured struct {
	count int64
	sum   float64
}

// collect records ds and returns what was measured, by metric and attributes.
func collect(t *testing.T, perHost bool, ds ...evidence.Decision) (series map[string]measured, units map[string]string) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	e, err := otelevidence.New(otelevidence.Config{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), PerHost: perHost})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range ds {
		e.Record(t.Context(), d)
	}
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	series, units = map[string]measured{}, map[string]string{}
	encoder := attribute.DefaultEncoder()
	for _, scope := range rm.ScopeMetrics {
		if scope.Scope.Name != otelevidence.Name {
			t.Errorf("scope %q", scope.Scope.Name)
		}
		for _, m := range scope.Metrics {
			units[m.Name] = m.Unit
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					series[m.Name+" "+p.Attributes.Encoded(encoder)] = measured{p.Value, float64(p.Value)}
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					series[m.Name+" "+p.Attributes.Encoded(encoder)] = measured{int64(p.Count), p.Sum}
				}
			default:
				t.Errorf("%s: data of type %T", m.Name, data)
			}
		}
	}
	return series, units
}

func check(t *testing.T, got, want map[string]measured) {
	t.Helper()
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s: got %+v, want %+v", name, got[name], w)
		}
	}
	for name, g := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("unexpected %s: %+v", name, g)
		}
	}
}

var decisions = []evidence.Decision{
	{Type: evidence.Started, Host: "a", WaitSlot: time.Second, WaitDelay: 2 * time.Second},
	{Type: evidence.Started, Host: "b", WaitDelay: 4 * time.Second, WaitBlock: 8 * time.Second},
	{Type: evidence.Started, Host: "a"}, // did not wait
	{Type: evidence.RobotsAllowed, Host: "a"},
	{Type: evidence.Fetched, Host: "a", Status: 200},
	{Type: evidence.BlockedByRobots, Host: "a"},
	{Type: evidence.BlockedByRobots, Host: "b"},
	{Type: evidence.BlockedByRule, Host: "a"},
	{Type: evidence.SlotTimeout, Host: "a"},
	{Type: evidence.BudgetExceeded, Host: "a", Limit: "pages"},
	{Type: evidence.ResponseRejected, Host: "a"},
	{Type: evidence.HostBlocked, Host: "a", Status: 429, Time: at, Until: at.Add(30 * time.Second)},
	{Type: evidence.HostBlocked, Host: "b", Time: at, Until: at.Add(-time.Second)},
	{Type: evidence.RobotsFetched, Host: "a", Status: 200, Duration: 250 * time.Millisecond},
	{Type: evidence.RobotsRevalidated, Host: "a", Status: 304, Duration: 125 * time.Millisecond},
	{Type: evidence.RobotsUnreachable, Host: "b", Duration: 10 * time.Second},
	{Type: evidence.Retried, Host: "a", Status: 503},
	{Type: evidence.Retried, Host: "b", Err: "connection reset"},
}

func TestMetrics(t *testing.T) {
	got, units := collect(t, false, decisions...)
	check(t, got, map[string]measured{
		"politeness.wait.duration politeness.wait.cause=slot":                                                 {1, 1},
		"politeness.wait.duration politeness.wait.cause=delay":                                                {2, 6},
		"politeness.wait.duration politeness.wait.cause=block":                                                {1, 8},
		"politeness.refusals politeness.decision=blocked_by_robots":                                           {2, 2},
		"politeness.refusals politeness.decision=blocked_by_rule":                                             {1, 1},
		"politeness.refusals politeness.decision=slot_timeout":                                                {1, 1},
		"politeness.refusals politeness.budget.limit=pages,politeness.decision=budget_exceeded":               {1, 1},
		"politeness.refusals politeness.decision=response_rejected":                                           {1, 1},
		"politeness.blocks http.response.status_code=429":                                                     {1, 1},
		"politeness.blocks error.type=_OTHER":                                                                 {1, 1},
		"politeness.block.duration http.response.status_code=429":                                             {1, 30},
		"politeness.robots.fetch.duration http.response.status_code=200,politeness.robots.result=fetched":     {1, 0.25},
		"politeness.robots.fetch.duration http.response.status_code=304,politeness.robots.result=revalidated": {1, 0.125},
		"politeness.robots.fetch.duration error.type=_OTHER,politeness.robots.result=unreachable":             {1, 10},
		"politeness.retries http.response.status_code=503":                                                    {1, 1},
		"politeness.retries error.type=_OTHER":                                                                {1, 1},
	})
	for name, want := range map[string]string{
		"politeness.wait.duration": "s", "politeness.refusals": "{refusal}", "politeness.blocks": "{block}",
		"politeness.block.duration": "s", "politeness.robots.fetch.duration": "s", "politeness.retries": "{retry}",
	} {
		if units[name] != want {
			t.Errorf("unit of %s: %q, want %q", name, units[name], want)
		}
	}
}

// TestMetricsHaveOnlyWhatHappened here: no block by hand, and nothing that is left of another process.
func TestMetricsHaveOnlyWhatHappened(t *testing.T) {
	got, _ := collect(t, false,
		evidence.Decision{Type: evidence.RobotsFetched, Host: "a", Status: 200, Restored: true},
		evidence.Decision{Type: evidence.RobotsUnreachable, Host: "a", Restored: true},
		evidence.Decision{Type: evidence.HostBlocked, Host: "a", Status: 429, Time: at, Until: at.Add(time.Hour), Restored: true},
		evidence.Decision{Type: evidence.HostBlocked, Host: "a", Time: at, Until: at.Add(time.Hour), Hand: true},
	)
	check(t, got, nil)
}

func TestMetricsPerHost(t *testing.T) {
	got, _ := collect(t, true, decisions[:2]...)
	check(t, got, map[string]measured{
		"politeness.wait.duration politeness.wait.cause=slot,server.address=a":  {1, 1},
		"politeness.wait.duration politeness.wait.cause=delay,server.address=a": {1, 2},
		"politeness.wait.duration politeness.wait.cause=delay,server.address=b": {1, 4},
		"politeness.wait.duration politeness.wait.cause=block,server.address=b": {1, 8},
	})
}

func TestPortIsAnAttributeOfItsOwn(t *testing.T) {
	for host, want := range map[string]string{
		"example.com": "server.address=example.com", "example.com:8080": "server.address=example.com,server.port=8080",
		"[::1]": "server.address=::1", "[::1]:8080": "server.address=::1,server.port=8080",
	} {
		got, _ := collect(t, true, evidence.Decision{Type: evidence.Started, Host: host, WaitDelay: time.Second})
		check(t, got, map[string]measured{"politeness.wait.duration politeness.wait.cause=delay," + want: {1, 1}})
	}
}

func TestSpanEvents(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	e, err := otelevidence.New(otelevidence.Config{MeterProvider: noop.NewMeterProvider()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := tracer.Start(t.Context(), "crawl")
	e.Record(ctx, evidence.Decision{
		Type: evidence.BlockedByRobots, Time: at, Method: "GET", URL: "https://h/private", Host: "h", Attempt: 2,
		MatchedRule: "Disallow: /private", Line: 3, Group: "*", Until: at, Limit: "pages", Used: 1, Max: 2,
	})
	span.End()
	e.Record(ctx, evidence.Decision{Type: evidence.Started}) // the span has ended
	e.Record(t.Context(), evidence.Decision{Type: evidence.Started})

	events := spans.Ended()[0].Events()
	if len(events) != 1 || events[0].Name != "politeness.blocked_by_robots" || !events[0].Time.Equal(at) {
		t.Fatalf("events: %+v", events)
	}
	got := attribute.NewSet(events[0].Attributes...)
	want := attribute.NewSet(
		attribute.Bool("politeness.allowed", false),
		attribute.String("http.request.method", "GET"),
		attribute.String("url.full", "https://h/private"),
		attribute.String("server.address", "h"),
		attribute.Int("http.request.resend_count", 1),
		attribute.String("politeness.rule", "Disallow: /private"),
		attribute.Int("politeness.rule.line", 3),
		attribute.String("politeness.rule.group", "*"),
		attribute.String("politeness.until", "2026-11-21T03:04:05Z"),
		attribute.String("politeness.budget.limit", "pages"),
		attribute.String("politeness.budget.used", "1 of 2"),
	)
	if !got.Equals(&want) {
		t.Errorf("got  %v\nwant %v", got.Encoded(attribute.DefaultEncoder()), want.Encoded(attribute.DefaultEncoder()))
	}
}

// failingProvider makes no instruments.
type failingProvider struct{ noop.MeterProvider }

func (failingProvider) Meter(string, ...metric.MeterOption) metric.Meter { return failingMeter{} }

type failingMeter struct{ noop.Meter }

var errBroken = errors.New("broken meter")

func (failingMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errBroken
}

func TestNewReportsInstrumentsThatCannotBeMade(t *testing.T) {
	if _, err := otelevidence.New(otelevidence.Config{MeterProvider: failingProvider{}}); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

func TestGlobalMeterProvider(t *testing.T) {
	e, err := otelevidence.New(otelevidence.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, d := range decisions {
				e.Record(context.Background(), d)
			}
		})
	}
	wg.Wait()
}
