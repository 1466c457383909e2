package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
)

// A log is kept during a crawl and proved afterwards. Here the second request
// came half a second after the first, though a second was the delay in force.
func Example() {
	var file bytes.Buffer // an *os.File
	log := evidence.JSONLines(&file)

	// A Transport with Config.Evidence: log does this.
	ctx, at := context.Background(), time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	log.Record(ctx, evidence.Decision{
		Type: evidence.PolicyStated, Time: at, Transport: "T", Allowed: true, Policy: &evidence.Policy{ID: "T", Limiter: "L", Slots: 2, DelayMin: time.Second},
	})
	for i, url := range []string{"https://example.com/", "https://example.com/about"} {
		d := evidence.Decision{Transport: "T", Trip: uint64(i + 1), Attempt: 1, URL: url, Host: "example.com", Allowed: true}
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

	report, err := audit.Check(&file)
	if err != nil {
		fmt.Println(err)
	}
	for _, v := range report.Violations {
		fmt.Println(v)
	}
	// Output:
	// lines 3 and 6: gap: example.com: 500ms between two starts, delay in force 1s
}
