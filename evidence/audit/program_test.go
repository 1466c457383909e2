package audit_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/logtest"
)

// auditor is a whole program of somebody who has nothing of ours but this package.
const auditor = `package main

import (
	"fmt"
	"os"

	"github.com/go-politeness/politeness/evidence/audit"
)

func main() {
	report, err := audit.Check(os.Stdin)
	fmt.Println(report.Promise("verdicts right").Proved, report.Promise("verdicts right").Open, report.Violations, err)
}
`

func TestAProgramOfThisPackageAloneJudgesEveryVerdict(t *testing.T) {
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(auditor), 0o600); err != nil {
		t.Fatal(err)
	}
	records := logtest.Crawl(1, 10)
	i := nth(t, records, evidence.BlockedByRobots, 0)
	records[i].Type, records[i].Allowed, records[i].MatchedRule = evidence.RobotsAllowed, true, ""

	run := exec.CommandContext(t.Context(), "go", "run", file)
	run.Stdin = bytes.NewReader(logtest.Write(t, records))
	out, err := run.CombinedOutput()
	want := fmt.Sprintf("10 0 [lines 4 and %d: verdict: h0.example: robots.txt refuses /private/3 (Disallow: /private)] <nil>", i+1)
	if err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("%v\n got %s\nwant %s", err, out, want)
	}

	deps, err := exec.CommandContext(t.Context(), "go", "list", "-deps", file).Output()
	if err != nil || bytes.Contains(deps, []byte("net/http\n")) || bytes.Contains(deps, []byte("politeness/hostlimit\n")) {
		t.Errorf("%v\n%s", err, deps)
	}
}
