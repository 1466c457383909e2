package promises_test

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"testing"
	"unicode/utf16"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// TestRobotsInUTF16 binds, and a log with its text is no broken one.
func TestRobotsInUTF16(t *testing.T) {
	var log bytes.Buffer
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Page("/", "page").Page("/no", "no").Handle("/robots.txt", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("\xff\xfeU\x00s\x00e\x00r\x00-\x00a\x00g\x00e\x00n\x00t\x00:\x00 \x00*\x00\n\x00D\x00i\x00s\x00a\x00l\x00l\x00o\x00w\x00:\x00 \x00/\x00n\x00o\x00\n\x00"))
		}))
		sink := evidence.JSONLines(&log)
		b.client.Transport = mustNew(b.T, politeness.Config{
			UserAgent: agent, Base: b.web, Evidence: sink, Robots: robotscache.Config{RecordText: true},
		})
		if _, err := b.get("https://example.com/no"); err == nil {
			b.Error("/no was fetched")
		}
		b.mustGet("https://example.com/", 200)
		if err := sink.Close(); err != nil {
			b.Error(err)
		}
	})
	report, err := audit.Check(&log)
	if err != nil || !report.OK() {
		t.Errorf("%v, %v", report.Violations, err)
	}
	t.Logf("%+v", report.Promises)
}

// TestNoIndexOfAPageInUTF16 is seen.
func TestNoIndexOfAPageInUTF16(t *testing.T) {
	virtually(t, politeness.Config{Response: politeness.ResponseLimits{CheckIndexing: true}}, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_ = binary.Write(w, binary.LittleEndian, utf16.Encode([]rune("\ufeff"+indexedPage)))
		}))
		b.mustGet("https://example.com/", 200)
		if d := b.one(evidence.NoIndex); d.Directives != "nofollow" {
			b.Errorf("record %+v", d)
		}
	})
}
