package accesslog_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/accesslog"
)

// A site's owner holds a crawler's evidence against the log of their own server, which has a request
// more.
func Example() {
	var file bytes.Buffer
	log := evidence.JSONLines(&file)
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	d := evidence.Decision{Trip: 1, Attempt: 1, Method: "GET", URL: "https://example.com/", Host: "example.com", Agent: "ExampleBot", Allowed: true}
	d.Type, d.Time, d.Start, d.Seq = evidence.Started, at, at, 1
	log.Record(context.Background(), d)
	d.Type, d.Time, d.Duration, d.Status, d.Bytes = evidence.Fetched, at.Add(time.Second), time.Second, 200, 1256
	log.Record(context.Background(), d)
	if err := log.Close(); err != nil {
		fmt.Println(err)
	}

	const access = `192.0.2.7 - - [21/Nov/2026:04:00:02 +0100] "GET / HTTP/1.1" 200 1256 "-" "ExampleBot/1.0 (+https://bot.example/)"
192.0.2.7 - - [21/Nov/2026:04:00:02 +0100] "GET /secret HTTP/1.1" 200 99 "-" "ExampleBot/1.0 (+https://bot.example/)"
198.51.100.9 - - [21/Nov/2026:04:00:05 +0100] "GET / HTTP/1.1" 200 1256 "-" "Mozilla/5.0"
`
	c, err := accesslog.Compare(&file, accesslog.Options{}, strings.NewReader(access))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range c.Missing.First {
		fmt.Println("missing from the evidence:", f)
	}
	// Output:
	// missing from the evidence: 2026-11-21 03:00:02  GET example.com/secret: line 2, from 192.0.2.7
}
