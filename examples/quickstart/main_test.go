package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/examples/internal/virtual"
)

// The program as a newcomer runs it, in less than 30 s, with a log that proves itself.
func TestQuickstart(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "crawl.jsonl")
		var out bytes.Buffer
		began := time.Now()
		if err := run(t.Context(), &out, "QuickstartBot/1.0 (bot@example.com)", file, t.TempDir(), nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > longest {
			t.Errorf("it took %v", took)
		}
		for _, want := range []string{
			`robots.txt line 6, group QuickstartBot: "Disallow: /private"`,
			`robots.txt line 7, group QuickstartBot: "Allow: /private/press"`,
			"crawl-delay 1s", "slot 1 of 2", "for the delay", "status 429: nobody asks this host for 3.0 s, by Retry-After",
			"for the block to end, first after the block", "redirects to /new", "Budget: 7 of 20 pages", "9 started, 9 ended",
			"allowed 8 and refused 2",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the output doesn't say %q:\n%s", want, &out)
			}
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		report, err := audit.Check(f)
		if err != nil || !report.OK() {
			t.Errorf("the log doesn't prove itself: %v\n%s", err, report)
		}
	})
}
