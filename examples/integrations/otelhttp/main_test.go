package main

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/go-politeness/politeness/examples/internal/program"
)

func TestCrawl(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	s := program.Test(t, traced(recorder))
	if started, ended := len(recorder.Started()), len(recorder.Ended()); started != ended {
		t.Errorf("%d spans started and %d ended", started, ended)
	}

	// Below: what the server saw, no more and no less, each in a span outside.
	outside := make(map[[8]byte]sdktrace.ReadOnlySpan)
	below := make(map[string]int)
	for _, span := range recorder.Ended() {
		if !span.Parent().IsValid() {
			outside[span.SpanContext().SpanID()] = span
		}
	}
	for _, span := range recorder.Ended() {
		if !span.Parent().IsValid() {
			continue
		}
		if _, ok := outside[span.Parent().SpanID()]; !ok {
			t.Errorf("the span of %s has no span outside", describe(span))
		}
		below[strings.TrimPrefix(attributes(span)["url.full"], s.URL)]++
	}
	seen := make(map[string]int)
	for _, v := range s.Visits() {
		seen[v.Target]++
		if parent := v.Header.Get("Traceparent"); parent != "" {
			t.Errorf("%s was told of the trace: %s", v.Target, parent)
		}
	}
	for target := range below {
		if below[target] != seen[target] {
			t.Errorf("%d spans of %s, and %d requests", below[target], target, seen[target])
		}
		delete(seen, target)
	}
	if len(seen) > 0 || below["/busy"] != 2 || below["/robots.txt"] != 1 {
		t.Errorf("requests without a span: %v; spans: %v", seen, below)
	}

	// Outside: one for each hop, those that were refused included.
	tree := make(map[string]int)
	for _, span := range outside {
		target := strings.TrimPrefix(attributes(span)["url.full"], s.URL)
		tree[target]++
		refused := target == "/private/diary"
		if got := span.Status().Code == codes.Error; got != refused {
			t.Errorf("%s: error %v, not %v: %v", target, got, refused, span.Status())
		}
		if refused != strings.Contains(span.Status().Description, "Disallow: /private") {
			t.Errorf("%s: status says %q", target, span.Status().Description)
		}
		if len(span.Events()) == 0 {
			t.Errorf("%s: no decision in its span", target)
		}
	}
	for target, want := range map[string]int{"/busy": 1, "/private/diary": 2, "/moved": 1, "/e": 1, "/robots.txt": 0} {
		if tree[target] != want {
			t.Errorf("%d spans of %s outside, not %d", tree[target], target, want)
		}
	}
}
