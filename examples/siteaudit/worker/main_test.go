package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/examples/internal/virtual"
)

func TestWorkerShowsTheFlowAndLeavesProof(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		for _, name := range []string{"MAX_PAGES", "MAX_SCAN_TIME_MINUTES", "USER_AGENT"} {
			t.Setenv(name, "")
		}
		file := filepath.Join(t.TempDir(), "evidence.jsonl")
		var out strings.Builder
		if err := run(t.Context(), &out, file, t.TempDir(), nil); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`budget +0 of 200 pages`,
			`robots +allowed: no rule matches\n`,
			`robots +REFUSED, no slot taken: line \d, group SiteAudit, "Disallow: /admin"`,
			`robots +allowed: no rule matches, confidence low: `,
			`evidence +\{"type":"robots_allowed".*"timestamp":`,
			`evidence +\{"type":"blocked_by_robots".*"matchedRule":"Disallow: /api".*"crawlDelay":0.4`,
			`slot +1/2, waited`,
			`slot +2/2, waited`,
			`delay +waited 0\.[34]`,
			`fetch +status 200, \d+ bytes`,
			`slot back +[12]/2`,
			`Done: 6 of 200 pages`,
		} {
			if !regexp.MustCompile(want).MatchString(out.String()) {
				t.Errorf("the output has no %s", want)
			}
		}
		if t.Failed() {
			t.Log(out.String())
		}

		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		report, err := audit.Check(f)
		if err != nil || len(report.Violations) != 0 {
			t.Errorf("the audit of the log: %v, %v", report.Violations, err)
		}
	})
}

func TestWorkerTellsThatItsProofIsLost(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		t.Setenv("MAX_PAGES", "1")
		const full = "/dev/full"
		if err := run(t.Context(), t.Output(), full, "", nil); err == nil || !strings.Contains(err.Error(), full) {
			t.Errorf("error %v, want one about %s", err, full)
		}
	})
}

func TestWorkerKeepsTheBudgetOfTheEnvironment(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		t.Setenv("MAX_PAGES", "2")
		var out strings.Builder
		if err := run(t.Context(), &out, "", "", nil); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"budget_exceeded budget exceeded: pages: 2 of 2 used, 1 more would be 1 over\n", "budget_warning 2 of 2 pages used\n", "Done: 2 of 2 pages",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the output has no %q:\n%s", want, out.String())
			}
		}
		t.Setenv("MAX_PAGES", "two")
		if err := run(t.Context(), &out, "", "", nil); err == nil || !strings.Contains(err.Error(), "MAX_PAGES") {
			t.Errorf("error %v", err)
		}
	})
}
