package audit

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/backoff"
)

// The table of docs/429.md is made from what the crawl reads. The judge reads each Retry-After in
// it as that table has it.
func TestTheJudgeReadsEachFormOfTheGuide(t *testing.T) {
	text, err := os.ReadFile("../../docs/429.md")
	if err != nil {
		t.Fatal(err)
	}
	const date = "Sat, 28 Nov 2026 09:18:27 GMT"
	sent, ok := dateOf(date, time.Now())
	if !ok {
		t.Fatal("the judge can't read the Date of the table")
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
		wait, unread := statedWait(value, sent)
		wait = min(wait, int64(24*time.Hour))
		want, _ := time.ParseDuration(strings.ReplaceAll(cells[3], " ", ""))
		if wait != int64(want) || unread {
			t.Errorf("%s: %v, unread %v; the guide says %v", value, time.Duration(wait), unread, want)
		}
	}
	if rows < 20 {
		t.Errorf("the guide has %d rows with Retry-After", rows)
	}
}

// FuzzStated compares the judge with the crawl: the judge may ask for less where it doesn't read a
// form, and never for more.
func FuzzStated(f *testing.F) {
	for _, seed := range []string{
		"120", "7.978", "60s", "1h30m", "PT1M30S", "120, 60", "1795857537", "1795857537910", "soon", "-1",
		"Sat, 28 Nov 2026 09:19:27 GMT", "Saturday, 28-Nov-26 09:19:60 GMT", "Sat Nov 28 09:19:27 2026",
		"2026-11-28T10:19:27+01:00", "Sat Nov 28 2026 09:19:27 GMT+0000 (UTC)", "Sat, 28 Nov 2026 04:19:27 EST",
	} {
		f.Add(seed)
	}
	sent := time.Date(2026, 11, 28, 9, 18, 27, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }) || len(value) > 60 {
			return // no header field, or one that a log clips
		}
		wait, unread := statedWait(value, sent)
		crawl, _ := backoff.RetryAfter(value, "Sat, 28 Nov 2026 09:18:27 GMT", sent)
		day := 24 * time.Hour
		more := min(time.Duration(wait), day) - min(crawl, day)
		if more > time.Second || more < -time.Second && !unread { // a second is the judge's slack
			t.Errorf("%q: the judge %v, unread %v; the crawl %v", value, time.Duration(wait), unread, crawl)
		}
	})
}
