package evidence_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
)

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
// an auditor finds starts without an end and holes in their numbers. Keep the log
// whole, and sample what people watch.
func ExampleSample_incorrect() {
	var file bytes.Buffer
	log := evidence.JSONLines(&file)
	e := evidence.Sample(10, log) // wrong; evidence.Multi(log, evidence.Sample(10, watched)) is right
	record(e, 20)
	if err := log.Close(); err != nil {
		fmt.Println(err)
	}
	report, err := audit.Check(&file)
	fmt.Println(report.Complete(), err)
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
	log, err := evidence.NewLog(file, evidence.LogConfig{Chained: true})
	if err != nil {
		fmt.Println(err)
		return
	}

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

// A person who watches a crawl sees why nothing happens. On a terminal the line has colours.
func ExampleConsole() {
	console := evidence.Console(os.Stdout)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	console.Record(context.Background(), evidence.Decision{ // politeness.New is given the Console, and does this
		Type: evidence.Waiting, Time: now, URL: "https://example.com/", Host: "example.com", Allowed: true,
		Hold: "delay", Reason: "crawl-delay of 30s", Until: now.Add(28 * time.Second),
	})
	// Output: 12:00:00 waiting       https://example.com/: crawl-delay of 30s, until 12:00:28 (in 28s)
}
