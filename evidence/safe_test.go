package evidence_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

func TestSafePanicCostsOneRecord(t *testing.T) {
	var kept int
	g := evidence.Safe(evidence.Func(func(_ context.Context, d evidence.Decision) {
		if d.Trip == 2 {
			panic("boom")
		}
		kept++
	}))
	record(g, 3)
	if kept != 2 {
		t.Errorf("%d of 2 records kept", kept)
	}
	if err := g.Err(); err == nil || !strings.Contains(err.Error(), "1 records lost") || !strings.Contains(err.Error(), "boom") {
		t.Errorf("Err: %v", err)
	}
}

func TestSafeTakesNil(t *testing.T) {
	record(evidence.Safe(nil), 1)
	g := evidence.Safe(evidence.Func(nil))
	record(g, 1)
	if g.Err() == nil {
		t.Error("no error from a nil function")
	}
}

func TestSafeSlowSinkDelaysItsOwnRecordOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := evidence.Safe(evidence.Func(func(_ context.Context, d evidence.Decision) {
			if d.Trip == 1 {
				time.Sleep(time.Hour)
			}
		}))
		var wg sync.WaitGroup
		wg.Go(func() { g.Record(t.Context(), evidence.Decision{Trip: 1}) })
		synctest.Wait()
		at := time.Now()
		for range 100 {
			g.Record(t.Context(), evidence.Decision{Trip: 2})
		}
		if d := time.Since(at); d > 0 {
			t.Errorf("others waited %v", d)
		}
		wg.Wait()
	})
}

// fetch stands for a sink's use of the Transport: it records again, from deep
// within other calls.
func fetch(ctx context.Context, e evidence.Evidence, depth int) {
	if depth > 0 {
		fetch(ctx, e, depth-1)
		return
	}
	e.Record(ctx, evidence.Decision{Type: evidence.Started, Trip: 99})
}

func TestSafeReentrantSinkEnds(t *testing.T) {
	var out bytes.Buffer
	log := evidence.JSONLines(&out)
	var r evidence.Recorder
	var g *evidence.Guard
	calls := 0
	reenters := evidence.Func(func(context.Context, evidence.Decision) {
		calls++
		fetch(context.Background(), g, 100) // a context of its own carries no mark
	})
	g = evidence.Safe(evidence.Multi(log, reenters, evidence.Sample(1, evidence.Redact(&r))))
	record(g, 3)
	if calls != 3 {
		t.Errorf("the sink was called %d times for 3 records", calls)
	}
	// What the sink did itself is in the log all the same.
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(numbers(t, out.Bytes())); n != 6 {
		t.Errorf("%d lines of 6", n)
	}
	if n := len(r.Decisions()); n != 6 {
		t.Errorf("%d records of 6", n)
	}
	if err := g.Err(); err != nil {
		t.Error(err)
	}
}

func TestSafeReentryIsToldFromConcurrency(t *testing.T) {
	var mu sync.Mutex
	n := 0
	g := evidence.Safe(evidence.Func(func(context.Context, evidence.Decision) {
		mu.Lock()
		defer mu.Unlock()
		n++
	}))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { record(g, 500) })
	}
	wg.Wait()
	if n != 4000 {
		t.Errorf("%d of 4000 records", n)
	}
}

func TestSafeRemovesUserinfo(t *testing.T) {
	var got evidence.Decision
	evidence.Safe(evidence.Func(func(_ context.Context, d evidence.Decision) { got = d })).
		Record(t.Context(), evidence.Decision{URL: "https://u:p@h/", Location: "//u@h/", Err: "http://u@h", Reason: "http://u@h"})
	if strings.Contains(got.URL+got.Location+got.Err+got.Reason, "@") {
		t.Errorf("%+v", got)
	}
}

func TestSafeDoesNotAllocateWithAFunc(t *testing.T) {
	n := 0
	g := evidence.Safe(evidence.Func(func(context.Context, evidence.Decision) { n++ }))
	if a := testing.AllocsPerRun(100, func() { g.Record(context.Background(), started) }); a > 0 {
		t.Errorf("%v allocations", a)
	}
	m := evidence.Safe(evidence.Multi(evidence.Func(func(context.Context, evidence.Decision) { n++ })))
	if a := testing.AllocsPerRun(100, func() { m.Record(context.Background(), started) }); a > 0 {
		t.Errorf("%v allocations through Multi", a)
	}
}

func BenchmarkSafe(b *testing.B) {
	n := 0
	g := evidence.Safe(evidence.Func(func(context.Context, evidence.Decision) { n++ }))
	b.ReportAllocs()
	for b.Loop() {
		g.Record(b.Context(), started)
	}
}

// Where no Evidence can fetch, nobody has to look whether it does.
func TestGuardOfLogsIsNeverNested(t *testing.T) {
	log := evidence.JSONLines(io.Discard)
	defer log.Close()
	var r evidence.Recorder
	fetches := evidence.Func(func(context.Context, evidence.Decision) {})
	for name, test := range map[string]struct {
		sink evidence.Evidence
		want bool
	}{
		"log":               {log, false},
		"logs":              {evidence.Multi(evidence.Sample(2, log), evidence.Redact(&r)), false},
		"function":          {fetches, true},
		"log and function":  {evidence.Multi(log, fetches), true},
		"function, sampled": {evidence.Sample(2, fetches), true},
		"function, cleaned": {evidence.Redact(fetches), true},
	} {
		g, nested := evidence.Safe(test.sink), false
		if g.Nested() {
			t.Errorf("%s: nested in nothing", name)
		}
		evidence.Safe(evidence.Func(func(context.Context, evidence.Decision) { nested = g.Nested() })).Record(t.Context(), started)
		if nested != test.want {
			t.Errorf("%s: nested = %t, want %t", name, nested, test.want)
		}
	}
}
