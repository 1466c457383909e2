// Package otelevidence is an evidence.Evidence that turns the decisions of a
// crawl into OpenTelemetry metrics and span events.
//
//	e, err := otelevidence.New(otelevidence.Config{})
//	...
//	transport, err := politeness.New(politeness.Config{Evidence: e, ...})
//
// It measures what politeness adds: waiting, refusals, blocks and fetches of robots.txt. The
// requests themselves (http.client.request.duration, client spans) are otelhttp's to measure; put
// it below politeness as Config.Base, so that the time spent waiting isn't counted as the server's.
//
// Names of attributes are those of the semantic conventions for HTTP clients
// where these have one; the others begin with "politeness.". The instruments are:
//
//	politeness.wait.duration         histogram, s    time that a request waited for its turn, by politeness.wait.cause:
//	                                                 slot, delay, block; requests that didn't wait aren't in it
//	politeness.refusals              counter         requests refused before they were sent, and responses refused, by
//	                                                 politeness.decision, and politeness.budget.limit of the budget's
//	politeness.blocks                counter         times a host asked to be left alone, by http.response.status_code;
//	                                                 blocks by hand, or of another process, aren't in it
//	politeness.block.duration        histogram, s    for how long
//	politeness.robots.fetch.duration histogram, s    fetches of robots.txt, by politeness.robots.result (fetched,
//	                                                 revalidated, unreachable) and http.response.status_code; copies
//	                                                 that were restored aren't in it
//	politeness.retries               counter         requests sent again, by http.response.status_code or error.type
//
// What a limiter and a budget on Redis have done is reported by [Register].
package otelevidence

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/go-politeness/politeness/evidence"
)

// Name is the name of the instrumentation scope.
const Name = "github.com/go-politeness/politeness/evidence/otelevidence"

// Config of an Evidence. The zero value reports to the global MeterProvider.
type Config struct {
	// MeterProvider makes the instruments; nil: otel.GetMeterProvider().
	MeterProvider metric.MeterProvider

	// PerHost adds server.address, and server.port where it isn't the scheme's
	// default, to all metrics. Leave it off when the hosts are many: each one is a
	// time series of its own in each metric, for ever.
	PerHost bool
}

// An Evidence reports decisions as metrics, and as events of the span that the
// request's context carries, if one is recording. It is safe for concurrent use.
type Evidence struct {
	perHost bool

	wait          metric.Float64Histogram
	refusals      metric.Int64Counter
	blocks        metric.Int64Counter
	blockDuration metric.Float64Histogram
	robots        metric.Float64Histogram
	retries       metric.Int64Counter
}

var _ evidence.Evidence = (*Evidence)(nil)

// Bounds of the histograms' buckets, in seconds: waits from milliseconds to a
// crawl-delay of minutes, blocks from a second to a day.
var (
	waitBounds  = []float64{0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
	blockBounds = []float64{1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600}
	// Those of the conventions for HTTP requests.
	fetchBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
)

// New makes the instruments. The error joins those that could not be made.
func New(cfg Config) (*Evidence, error) {
	provider := cfg.MeterProvider
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	meter := provider.Meter(Name)
	e := &Evidence{perHost: cfg.PerHost}
	var errs [6]error
	e.wait, errs[0] = meter.Float64Histogram("politeness.wait.duration",
		metric.WithUnit("s"),
		metric.WithDescription("Time that a request waited for its turn."),
		metric.WithExplicitBucketBoundaries(waitBounds...))
	e.refusals, errs[1] = meter.Int64Counter("politeness.refusals",
		metric.WithUnit("{refusal}"),
		metric.WithDescription("Requests and responses that were refused."))
	e.blocks, errs[2] = meter.Int64Counter("politeness.blocks",
		metric.WithUnit("{block}"),
		metric.WithDescription("Times a host asked to be left alone."))
	e.blockDuration, errs[3] = meter.Float64Histogram("politeness.block.duration",
		metric.WithUnit("s"),
		metric.WithDescription("For how long hosts asked to be left alone."),
		metric.WithExplicitBucketBoundaries(blockBounds...))
	e.robots, errs[4] = meter.Float64Histogram("politeness.robots.fetch.duration",
		metric.WithUnit("s"),
		metric.WithDescription("Duration of fetches of robots.txt."),
		metric.WithExplicitBucketBoundaries(fetchBounds...))
	e.retries, errs[5] = meter.Int64Counter("politeness.retries",
		metric.WithUnit("{retry}"),
		metric.WithDescription("Requests that were sent again."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("otelevidence: %w", err)
	}
	return e, nil
}

// Record implements evidence.Evidence.
func (e *Evidence) Record(ctx context.Context, d evidence.Decision) {
	e.measure(ctx, &d)
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	options := []trace.EventOption{trace.WithAttributes(spanAttributes(&d)...)}
	if !d.Time.IsZero() {
		options = append(options, trace.WithTimestamp(d.Time))
	}
	span.AddEvent("politeness."+string(d.Type), options...)
}

// measure reports d to the instruments.
func (e *Evidence) measure(ctx context.Context, d *evidence.Decision) {
	// The process that set the block counts it, and a person's block is no wish of the host.
	if d.Restored || d.Hand {
		return
	}
	switch d.Type {
	case evidence.Started:
		e.measureWait(ctx, d, "slot", d.WaitSlot)
		e.measureWait(ctx, d, "delay", d.WaitDelay)
		e.measureWait(ctx, d, "block", d.WaitBlock)
	case evidence.BlockedByRobots, evidence.BlockedByRule, evidence.BudgetExceeded,
		evidence.SlotTimeout, evidence.ResponseRejected, evidence.Reserved:
		attributes := []attribute.KeyValue{attribute.String("politeness.decision", string(d.Type))}
		if d.Limit != "" {
			attributes = append(attributes, attribute.String("politeness.budget.limit", d.Limit))
		}
		e.refusals.Add(ctx, 1, e.attributes(d, attributes...))
	case evidence.HostBlocked:
		attributes := e.attributes(d, outcome(d))
		e.blocks.Add(ctx, 1, attributes)
		lasts := d.Until.Sub(d.Time)
		if lasts > 0 {
			e.blockDuration.Record(ctx, lasts.Seconds(), attributes)
		}
	case evidence.RobotsFetched, evidence.RobotsRevalidated, evidence.RobotsUnreachable:
		result := attribute.String("politeness.robots.result", strings.TrimPrefix(string(d.Type), "robots_"))
		e.robots.Record(ctx, d.Duration.Seconds(), e.attributes(d, result, outcome(d)))
	case evidence.Retried:
		e.retries.Add(ctx, 1, e.attributes(d, outcome(d)))
	}
}

// measureWait reports the part of a wait that has the given cause, if there is one.
func (e *Evidence) measureWait(ctx context.Context, d *evidence.Decision, cause string, wait time.Duration) {
	if wait > 0 {
		e.wait.Record(ctx, wait.Seconds(), e.attributes(d, attribute.String("politeness.wait.cause", cause)))
	}
}

// outcome returns the status of the response as an attribute, or that there was none.
func outcome(d *evidence.Decision) attribute.KeyValue {
	if d.Status != 0 {
		return attribute.Int("http.response.status_code", d.Status)
	}
	return attribute.String("error.type", "_OTHER") // the conventions' word for an error of no further kind
}

// attributes returns kv as an option of a measurement, with the host if wanted.
func (e *Evidence) attributes(d *evidence.Decision, kv ...attribute.KeyValue) metric.MeasurementOption {
	if e.perHost {
		kv = appendServer(kv, d.Host)
	}
	return metric.WithAttributeSet(attribute.NewSet(kv...))
}

// appendServer appends the host, if there is one, and its port where that isn't the scheme's
// default: the conventions keep them apart.
func appendServer(kv []attribute.KeyValue, host string) []attribute.KeyValue {
	if host == "" {
		return kv
	}
	if name, digits, err := net.SplitHostPort(host); err == nil {
		if port, err := strconv.Atoi(digits); err == nil {
			return append(kv, attribute.String("server.address", name), attribute.Int("server.port", port))
		}
	}
	return append(kv, attribute.String("server.address", strings.Trim(host, "[]")))
}

// An attributeList collects attributes, without those that are zero.
type attributeList []attribute.KeyValue

func (l *attributeList) text(name, value string) {
	if value != "" {
		*l = append(*l, attribute.String(name, value))
	}
}

func (l *attributeList) seconds(name string, value time.Duration) {
	if value != 0 {
		*l = append(*l, attribute.Float64(name, value.Seconds()))
	}
}

func (l *attributeList) integer(name string, value int64) {
	if value != 0 {
		*l = append(*l, attribute.Int64(name, value))
	}
}

// spanAttributes returns the fields of d as attributes of a span event.
func spanAttributes(d *evidence.Decision) []attribute.KeyValue {
	list := make(attributeList, 0, 16)
	list = append(list, attribute.Bool("politeness.allowed", d.Allowed))
	list.text("http.request.method", d.Method)
	list.text("url.full", d.URL)
	list = appendServer(list, d.Host)
	list.integer("http.response.status_code", int64(d.Status))
	list.integer("http.response.body.size", d.Bytes)
	list.integer("http.request.resend_count", int64(max(d.Attempt-1, 0)))
	list.text("politeness.rule", d.MatchedRule)
	list.integer("politeness.rule.line", int64(d.Line))
	list.text("politeness.rule.group", d.Group)
	list.text("politeness.confidence", d.Confidence)
	list.text("politeness.reason", d.Reason)
	list.text("politeness.error", d.Err)
	list.seconds("politeness.wait.slot", d.WaitSlot)
	list.seconds("politeness.wait.delay", d.WaitDelay)
	list.seconds("politeness.wait.block", d.WaitBlock)
	list.seconds("politeness.delay", d.Delay)
	list.seconds("politeness.crawl_delay", d.CrawlDelay)
	list.integer("politeness.refusals", int64(d.Refusals))
	if !d.Until.IsZero() {
		list.text("politeness.until", d.Until.UTC().Format("2006-01-02T15:04:05.999Z07:00"))
	}
	if d.Limit != "" {
		list.text("politeness.budget.limit", d.Limit)
		list.text("politeness.budget.used", strconv.FormatInt(d.Used, 10)+" of "+strconv.FormatInt(d.Max, 10))
	}
	list.text("politeness.directives", d.Directives)
	return list
}
