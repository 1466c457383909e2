package evidence_test

import (
	"context"
	"reflect"
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
	record(g, 1)
	if err := g.Err(); err != nil {
		t.Errorf("nothing was lost: %v", err)
	}
	record(g, 3)
	if kept != 3 {
		t.Errorf("%d of 3 records kept", kept)
	}
	if err := g.Err(); err == nil || !strings.Contains(err.Error(), ": 1 records lost") || !strings.Contains(err.Error(), "boom") {
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

func TestSafePassesOnWhatComesAtOnce(t *testing.T) {
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

// TestNoFieldKeepsWhatOthersLose: what a user's own words say of an answer may hold its URL, too.
func TestNoFieldKeepsWhatOthersLose(t *testing.T) {
	const u, word = "https://u:p@h.example/?token=x", "captcha at "
	var r evidence.Recorder
	evidence.Redact(&r, "token").Record(t.Context(), evidence.Decision{URL: u, Location: u, Reason: word + u, Refused: word + u, Err: word + u})
	const want = "https://h.example/?token=REDACTED"
	if got := r.Decisions()[0]; !reflect.DeepEqual(got, evidence.Decision{URL: want, Location: want, Reason: word + want, Refused: word + want, Err: word + want}) {
		t.Errorf("%+v", got)
	}
}
