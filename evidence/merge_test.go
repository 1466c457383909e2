package evidence_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// exchangesOf returns the logs of n crawlers that share one host in turn: start i
// is the crawler's i % n.
func exchangesOf(n, starts int) []io.Reader {
	base := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	bufs := make([]bytes.Buffer, n)
	logs := make([]*evidence.Log, n)
	for i := range logs {
		logs[i] = evidence.JSONLines(&bufs[i], evidence.Chained())
	}
	for i := range starts {
		start := base.Add(time.Duration(i) * time.Second)
		d := evidence.Decision{
			Type: evidence.RobotsAllowed, Time: start, Trip: uint64(i/n + 1), Attempt: 1, Method: "GET", URL: "https://example.com/",
			Host: "example.com", Agent: "Bot", Allowed: true,
		}
		log := logs[i%n]
		log.Record(context.Background(), d)
		d.Type, d.Seq, d.Start, d.Delay, d.Slot, d.Slots = evidence.Started, uint64(i+1), start, time.Second, 1, 2
		log.Record(context.Background(), d)
		d.Type, d.Status, d.Latency, d.Duration = evidence.Fetched, 200, 100*time.Millisecond, 200*time.Millisecond
		d.Time = start.Add(d.Duration)
		d.Delay, d.Slot, d.Slots = 0, 0, 0
		log.Record(context.Background(), d)
	}
	readers := make([]io.Reader, n)
	for i := range logs {
		_ = logs[i].Close()
		readers[i] = &bufs[i]
	}
	return readers
}

func TestMergedLogsOfAFleetProveThemselves(t *testing.T) {
	var merged bytes.Buffer
	if err := evidence.Merge(&merged, exchangesOf(4, 40)...); err != nil {
		t.Fatal(err)
	}
	report, err := evidence.Audit(&merged)
	if err != nil || !report.OK() || report.Records[evidence.Started] != 40 {
		t.Errorf("%v\n%s", err, report)
	}

	one, err := evidence.Audit(exchangesOf(4, 40)[0])
	if err != nil || one.OK() {
		t.Errorf("the log of one of four is whole: %v\n%s", err, one)
	}
}

func TestMergeOfNothingIsAnEmptyLog(t *testing.T) {
	var merged bytes.Buffer
	if err := evidence.Merge(&merged, strings.NewReader(""), strings.NewReader("\n\n")); err != nil || merged.Len() != 0 {
		t.Errorf("%v, %q", err, &merged)
	}
}

func TestMergeNamesWhatItCantRead(t *testing.T) {
	good := `{"type":"fetched","timestamp":"2026-11-21T12:00:00Z","allowed":true}` + "\n"
	err := evidence.Merge(io.Discard, strings.NewReader(good), strings.NewReader(good+"{\n"))
	if err == nil || !strings.Contains(err.Error(), "log 2, line 2") {
		t.Errorf("got %v", err)
	}
	broken := errors.New("disk gone")
	err = evidence.Merge(io.Discard, io.MultiReader(strings.NewReader(good), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "log 1") {
		t.Errorf("got %v", err)
	}
}
