package politenesstest

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// The table of docs/429.md is made from what the crawl reads. The checker reads each Retry-After in
// it as that table has it.
func TestTheCheckerReadsEachFormOfTheGuide(t *testing.T) {
	text, err := os.ReadFile("../docs/429.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		value, isRow := strings.CutPrefix(cells[min(1, len(cells)-1)], " `Retry-After: ")
		if !isRow {
			continue
		}
		rows++
		value = strings.TrimSuffix(value, "` ")
		r := Request{Response: http.Header{"Date": {"Sat, 28 Nov 2026 09:18:27 GMT"}, "Retry-After": {value}}}
		want, _ := time.ParseDuration(strings.ReplaceAll(cells[3], " ", ""))
		if got := min(retryAfter(r), 24*time.Hour); got != want {
			t.Errorf("%s: %v; the guide says %v", value, got, want)
		}
	}
	if rows < 20 {
		t.Errorf("the guide has %d rows with Retry-After", rows)
	}
}
