// Package logtest makes logs for tests of what writes and reads them.
package logtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// Day is when the crawl of Crawl begins.
var Day = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// Policy is the promise of the crawl of Crawl.
var Policy = evidence.Policy{
	ID:            "CrawlOfTest",
	Product:       "TestBot",
	Limiter:       "c0ffee",
	Slots:         2,
	DelayMin:      crawlDelay,
	DelayMax:      crawlDelay,
	Adaptive:      "Fixed",
	HostKey:       "host",
	LeaseTTL:      5 * time.Minute,
	Backoff:       "fibonacci",
	BackoffStep:   time.Second,
	BackoffCap:    10 * time.Minute,
	InARow:        5,
	MaxRetryAfter: 24 * time.Hour,
	Forgive:       30 * time.Minute,
	Robots:        "obeyed",
	Unreachable:   "deny",
	Retries:       2,
}

// Again returns the records of another process that makes the same crawl so many days later.
func Again(records []evidence.Decision, days int) []evidence.Decision {
	policy := Policy
	policy.ID = fmt.Sprint(policy.ID, days)
	policy.Limiter = fmt.Sprint(policy.Limiter, days)
	again := slices.Clone(records)
	for i := range again {
		d := &again[i]
		d.Transport = policy.ID
		if d.Policy != nil {
			d.Policy = &policy
		}
		for _, t := range [...]*time.Time{&d.Time, &d.Start, &d.Until} {
			if !t.IsZero() {
				*t = t.AddDate(0, 0, days)
			}
		}
	}
	return again
}

// New is evidence.NewLog for a cfg that is right.
func New(tb testing.TB, w io.Writer, cfg evidence.LogConfig) *evidence.Log {
	tb.Helper()
	log, err := evidence.NewLog(w, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return log
}

// Write returns records as the lines of a plain log.
func Write(tb testing.TB, records []evidence.Decision) []byte {
	tb.Helper()
	return WriteWith(tb, records, evidence.LogConfig{})
}

// WriteWith returns records as the lines of a log that has cfg.
func WriteWith(tb testing.TB, records []evidence.Decision, cfg evidence.LogConfig) []byte {
	tb.Helper()
	var out bytes.Buffer
	log := New(tb, &out, cfg)
	for _, d := range records {
		log.Record(context.Background(), d)
	}
	if err := log.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// Lines returns the lines of a log, each with its end.
func Lines(log []byte) [][]byte { return slices.Collect(bytes.Lines(log)) }
