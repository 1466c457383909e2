package evidence_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// A log is kept during a crawl and proved afterwards. Here the second request
// came half a second after the first, though a second was the delay in force.
func Example() {
	var file bytes.Buffer // an *os.File
	log := evidence.JSONLines(&file)

	// A Transport with Config.Evidence: log does this.
	ctx, at := context.Background(), time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for i, url := range []string{"https://example.com/", "https://example.com/about"} {
		d := evidence.Decision{Trip: uint64(i + 1), Attempt: 1, URL: url, Host: "example.com", Allowed: true}
		d.Type, d.Time = evidence.RobotsAllowed, at
		log.Record(ctx, d)
		d.Type, d.Start, d.Seq, d.Slots, d.Delay = evidence.Started, at, uint64(i+1), 2, time.Second
		log.Record(ctx, d)
		d.Type, d.Time, d.Duration, d.Status = evidence.Fetched, at.Add(100*time.Millisecond), 100*time.Millisecond, 200
		log.Record(ctx, d)
		at = at.Add(500 * time.Millisecond)
	}
	if err := log.Close(); err != nil {
		fmt.Println(err)
	}

	report, err := evidence.Audit(&file)
	if err != nil {
		fmt.Println(err)
	}
	for _, v := range report.Violations {
		fmt.Println(v)
	}
	// Output:
	// lines 2 and 5: gap: example.com: 500ms between two starts, delay in force 1s
}

func ExampleDecision_MarshalJSON() {
	b, _ := evidence.Decision{
		Type: evidence.BlockedByRobots, Time: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC),
		URL: "https://user:password@example.com/private", Host: "example.com",
		MatchedRule: "Disallow: /private", Line: 4, CrawlDelay: 2500 * time.Millisecond,
	}.MarshalJSON()
	fmt.Println(string(b))
	// Output:
	// {"type":"blocked_by_robots","timestamp":"2026-11-21T03:00:00Z","url":"https://example.com/private","host":"example.com","allowed":false,"matchedRule":"Disallow: /private","line":4,"crawlDelay":2.5}
}

// A log on disk for the auditor, and each refusal on the terminal. Tokens in URLs
// reach neither.
func ExampleMulti() {
	log := evidence.JSONLines(&bytes.Buffer{})
	refusals := evidence.Func(func(_ context.Context, d evidence.Decision) {
		if !d.Allowed {
			fmt.Println(d.Type, d.URL, d.MatchedRule)
		}
	})
	e := evidence.Redact(evidence.Multi(log, refusals), "token")

	e.Record(context.Background(), evidence.Decision{
		Type: evidence.BlockedByRobots, URL: "https://example.com/private?token=s3cret", MatchedRule: "Disallow: /private",
	})
	// Output:
	// blocked_by_robots https://example.com/private?token=REDACTED Disallow: /private
}

// A Sample in front of a log takes records out of it, and with them the proof:
// Audit reports starts without an end and holes in their numbers. Keep the log
// whole, and sample what people watch.
func ExampleSample_incorrect() {
	var file bytes.Buffer
	log := evidence.JSONLines(&file)
	e := evidence.Sample(10, log) // wrong; evidence.Multi(log, evidence.Sample(10, watched)) is right
	record(e, 20)
	if err := log.Close(); err != nil {
		fmt.Println(err)
	}
	report, err := evidence.Audit(&file)
	fmt.Println(report.OK(), err)
	// Output:
	// false <nil>
}

func ExampleLog_Close() {
	file, err := os.CreateTemp("", "crawl-*.jsonl")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.Remove(file.Name())
	log := evidence.JSONLines(file, evidence.Chained())

	// The crawl goes here.

	// A full disk during the crawl is reported now, with how many records are lost.
	if err := log.Close(); err != nil {
		fmt.Println(err)
	}
	if err := file.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
}
