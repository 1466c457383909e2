// Otelhttp traces a polite crawl, with otelhttp both around politeness and below it.
//
//	go run -C examples/integrations/otelhttp .          # a small site on loopback
//	go run -C examples/integrations/otelhttp . URL...   # real pages
//
// It prints the spans of each page, and then the findings of audit.Check on the log.
//
//   - Around politeness, otelhttp.NewTransport(politeness) makes a span for each request of the
//     crawler, and so for each hop of a redirect. The span lasts from RoundTrip to the end of
//     the body, with the wait for the host and all retries. A refusal is a span with an error.
//     http.client.request.duration measured here is mostly the wait, and not the server's time.
//   - Below politeness, as Config.Base, otelhttp makes a span for each try and for each fetch of
//     robots.txt, without waits. It is a child of the span around politeness. Its duration is
//     the server's.
//   - In between, otelevidence adds every decision as an event to the span around politeness.
//     The event has the cause of the wait and the rule of robots.txt.
//
// All three work together and by themselves. Three warnings:
//
//   - A propagator sends traceparent and baggage to the sites that you crawl. If the sites are
//     other people's, send neither: set WithPropagators to an empty list, as here, or set no
//     propagator.
//   - If a body is closed before its end, the span around politeness ends too early for the last
//     event, the end of the exchange. Read bodies to their end.
//   - One fetch of robots.txt serves all requests that wait for it. Its span is a child of the
//     first of them.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/otelevidence"
	"github.com/go-politeness/politeness/examples/internal/program"
	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/robots/robotscache"
)

func main() {
	// In a real program, an exporter replaces the recorder.
	program.Run("otelhttp", traced(tracetest.NewSpanRecorder()))
}

// traced returns the crawl whose spans spans keeps; it shows them at its end.
func traced(spans *tracetest.SpanRecorder) program.Crawl {
	return func(ctx context.Context, out io.Writer, urls []string) (*audit.Report, error) {
		report, err := crawl(ctx, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), urls)
		show(out, spans.Ended())
		return report, err
	}
}

// crawl gets all urls at once, and returns what the log of it proves.
func crawl(ctx context.Context, provider *sdktrace.TracerProvider, urls []string) (*audit.Report, error) {
	inSpans := func(next http.RoundTripper) http.RoundTripper {
		return otelhttp.NewTransport(next,
			otelhttp.WithTracerProvider(provider),
			otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator())) // sends no trace headers to the site
	}
	var log bytes.Buffer
	proof := evidence.JSONLines(&log)
	events, err := otelevidence.New(otelevidence.Config{})
	if err != nil {
		return nil, err
	}
	transport, err := politeness.New(politeness.Config{
		UserAgent: "OtelExample/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      inSpans(reach.Base(urls)),                                  // what went out
		Robots:    robotscache.Config{RecordText: true},                       // so that the auditor can decide again
		Evidence:  evidence.Multi(proof, events, evidence.Console(os.Stderr)), // what was decided, also in the spans
		Retry:     politeness.Retry{Max: 3},                                   // each try is a span below
	})
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: inSpans(transport)} // what the crawler saw

	var group sync.WaitGroup
	for _, url := range urls {
		group.Go(func() { fetch(ctx, client, url) })
	}
	group.Wait()
	if err := errors.Join(proof.Close(), provider.Shutdown(context.WithoutCancel(ctx))); err != nil {
		return nil, err
	}
	return audit.Check(&log)
}

func fetch(ctx context.Context, client *http.Client, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, "otelhttp:", err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		return // the span says why
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
}

// show prints the spans outside with their events and the spans below, as a tree.
func show(out io.Writer, spans []sdktrace.ReadOnlySpan) {
	below := make(map[[8]byte][]sdktrace.ReadOnlySpan)
	for _, s := range spans {
		below[s.Parent().SpanID()] = append(below[s.Parent().SpanID()], s)
	}
	byStart := func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) }
	outside := below[[8]byte{}]
	slices.SortFunc(outside, byStart)
	for _, s := range outside {
		fmt.Fprintf(out, "%s  %.3f s  %s\n", describe(s), duration(s), s.Status().Description)
		for _, e := range s.Events() {
			fmt.Fprintf(out, "    %6.3f s  %s%s\n", e.Time.Sub(s.StartTime()).Seconds(), e.Name, waits(e))
		}
		children := below[s.SpanContext().SpanID()]
		slices.SortFunc(children, byStart)
		for _, c := range children {
			after := c.StartTime().Sub(s.StartTime())
			fmt.Fprintf(out, "    %6.3f s  sent %s  %.3f s\n", after.Seconds(), describe(c), duration(c))
		}
	}
}

func duration(s sdktrace.ReadOnlySpan) float64 { return s.EndTime().Sub(s.StartTime()).Seconds() }

// describe returns method, URL and status of a request.
func describe(s sdktrace.ReadOnlySpan) string {
	a := attributes(s)
	text := a["http.request.method"] + " " + a["url.full"]
	status := a["http.response.status_code"]
	if status != "" {
		text += " " + status
	}
	return text
}

func attributes(s sdktrace.ReadOnlySpan) map[string]string {
	values := make(map[string]string)
	for _, kv := range s.Attributes() {
		values[string(kv.Key)] = kv.Value.String()
	}
	return values
}

// waits returns the waiting times of an event as text.
func waits(e sdktrace.Event) string {
	var total time.Duration
	for _, kv := range e.Attributes {
		switch kv.Key {
		case "politeness.wait.slot", "politeness.wait.delay", "politeness.wait.block":
			total += time.Duration(kv.Value.AsFloat64() * float64(time.Second))
		}
	}
	if total == 0 {
		return ""
	}
	return fmt.Sprintf(" after a wait of %.3f s", total.Seconds())
}
