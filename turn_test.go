package politeness_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
)

// With MaxInFlight a body that is never closed holds up all hosts: who gets its place
// says whose it was.
func TestABodyThatIsNeverClosedIsReportedByAnotherHostsRequest(t *testing.T) {
	hosts, err := hostlimit.New(hostlimit.Config{MaxInFlight: 1})
	if err != nil {
		t.Fatal(err)
	}
	virtually(t, politeness.Config{Hosts: hosts}, func(b *bubble) {
		b.site.Page("/", "page")
		b.web.Site("https://other.example").Page("/", "page")
		b.know()
		b.mustGet("https://other.example/", 200)
		forgotten, err := b.client.Get("https://example.com/")
		if err != nil {
			b.Fatal(err)
		}
		asked := time.Now()
		b.mustGet("https://other.example/", 200)
		if d := time.Since(asked); !within(d, 299*time.Second, 301*time.Second) {
			b.Errorf("the place was taken back after %v, want 300 s", d)
		}
		b.mustGet("https://other.example/", 200)
		if d := b.one(evidence.LeaseExpired); d.Host != "example.com" || d.URL != "" || d.Reason == "" {
			b.Errorf("%+v", d)
		}
		forgotten.Body.Close()

		var log bytes.Buffer
		lines := evidence.JSONLines(&log)
		for _, d := range b.log.Decisions() {
			lines.Record(b.Context(), d)
		}
		if err := lines.Close(); err != nil {
			b.Fatal(err)
		}
		if report, err := audit.Check(&log); err != nil || !report.OK() {
			b.Errorf("%v, %v", report, err)
		}
	})
}
