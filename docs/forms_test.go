package docs

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/hostlimit/hints"
)

const (
	formsBegin = "<!-- The table is made by: go test ./docs -run Forms -update -->\n"
	formsEnd   = "<!-- end of the forms -->\n"
)

// formsDate is the Date header of all answers in the table.
const formsDate = "Sat, 28 Nov 2026 09:18:27 GMT"

// forms are the header fields of refusals, a line each, and what has that form.
var forms = []struct{ fields, source string }{
	{"Retry-After: 120", "RFC 9110"},
	{"Retry-After: Sat, 28 Nov 2026 09:20:27 GMT", "RFC 9110"},
	{"Retry-After: Saturday, 28-Nov-26 09:20:27 GMT", "RFC 9110, an older form"},
	{"Retry-After: Sat Nov 28 09:20:27 2026", "RFC 9110, an older form"},
	{"Retry-After: 7.978", "a fraction is rounded up"},
	{"Retry-After: 60s", "a unit"},
	{"Retry-After: 5 minutes", "a unit as a word"},
	{"Retry-After: 500ms", "milliseconds"},
	{"Retry-After: PT1M30S", "a duration of ISO 8601"},
	{"Retry-After: 00:01:30", "hours, minutes and seconds"},
	{"Retry-After: 120, 60", "a list, of which the longest counts"},
	{"Retry-After: 1795857537", "a Unix time"},
	{"Retry-After: 1795857537910", "a Unix time in milliseconds"},
	{"Retry-After: Sat, 28 Nov 2026 09:19:27 UTC", "a zone that isn't GMT"},
	{"Retry-After: Sat, 28 Nov 2026 10:19:27 +0100", "an offset"},
	{"Retry-After: Sat, 28 Nov 2026 09:19:27", "no zone, read as UTC"},
	{"Retry-After: Sat, 28 Nov 2026 04:19:27 EST", "a zone of RFC 5322"},
	{"Retry-After: 2026-11-28T09:19:27Z", "ISO 8601"},
	{"Retry-After: 2026-11-28 09:19:27", "ISO 8601 without a zone, read as UTC"},
	{"Retry-After: Sat Nov 28 2026 09:19:27 GMT+0000 (Coordinated Universal Time)", "JavaScript"},
	{"Retry-After: Sat, 28 Nov 2026 09:18:00 GMT", "a time that has passed"},
	{"Retry-After: soon", "unreadable"},
	{"Retry-After: -1", "unreadable"},
	{"Retry-After: 9999999", "at most a day"},
	{"Retry-After-Ms: 51932", "the name says milliseconds"},
	{"Retry-After-short: 4", "the wait of a limit named *short*"},
	{"X-Retry-In: 580ms", "another name"},
	{"RetryAfter: 30", "no hyphen"},
	{"X-Retry-After: 86400", "another name, at most an hour"},
	{`RateLimit: "default";r=0;t=30`, "the draft's structured field"},
	{"RateLimit: limit=60, remaining=0, reset=30", "drafts 6 and 7 of the field"},
	{"RateLimit-Remaining: 0\nRateLimit-Reset: 30", "older drafts of the field"},
	{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30", "seconds"},
	{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795857537.91", "a Unix time"},
	{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 2026-11-28T09:19:27Z", "a date"},
	{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 6m0s", "units"},
	{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 600000", "at most an hour"},
	{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset-After: 1.5", "another name"},
	{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset-Ms: 1500", "the name says milliseconds"},
	{"X-RateLimit-Remaining-short: 0\nX-RateLimit-Reset-short: 3", "the quota of a limit named *short*"},
	{"X-Rate-Limit-Remaining: 0\nX-Rate-Limit-Reset: 1795857537", "more hyphens"},
	{"Rate-Limit-Remaining: 0\nRate-Limit-Reset: 8", "more hyphens"},
	{"RateLimit-Remaining: 0;w=60", "the window, without a reset"},
	{
		"X-RateLimit-Remaining-Minute: 0\nX-RateLimit-Remaining-Day: 500\nX-RateLimit-Reset-Day: 40000",
		"a window in the name, with status 429",
	},
	{"X-RateLimit-Reset: 30", "alone, with status 429"},
	{"X-RateLimit-Remaining: 1\nX-RateLimit-Reset: 30", "one request is left"},
}

// TestForms holds the table of forms in 429.md against package hints.
func TestForms(t *testing.T) {
	text, err := os.ReadFile("429.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), formsBegin)
	table, after, whole := strings.Cut(rest, formsEnd)
	if !ok || !whole {
		t.Fatal("429.md has no place for the table of forms")
	}
	want := formsTable()
	if table == want {
		return
	}
	if !*update {
		t.Fatalf("429.md says\n%s\nand package hints reads\n%s\nTo write it: go test ./docs -run Forms -update", table, want)
	}
	guide := before + formsBegin + want + formsEnd + after
	if err := os.WriteFile("429.md", []byte(guide), 0o644); err != nil { //nolint:gosec // a guide is for everybody
		t.Fatal(err)
	}
}

func formsTable() string {
	var b strings.Builder
	b.WriteString("\n| the host sends | what it is | the wait |\n|---|---|---|\n")
	for _, form := range forms {
		code := "`" + strings.ReplaceAll(form.fields, "\n", "`, `") + "`"
		fmt.Fprintf(&b, "| %s | %s | %s |\n", code, form.source, stated(form.fields))
	}
	b.WriteString("\n")
	return b.String()
}

// stated returns the wait that package hints reads in the fields, as the limiter caps it.
func stated(fields string) string {
	header := http.Header{"Date": {formsDate}}
	for field := range strings.Lines(fields) {
		name, value, _ := strings.Cut(field, ": ")
		header.Set(name, strings.TrimSuffix(value, "\n"))
	}
	o := hints.Outcome(&http.Response{StatusCode: http.StatusTooManyRequests, Header: header})
	wait := min(max(o.RetryAfter, o.Reset), 24*time.Hour)
	if wait == 0 {
		return "none"
	}
	return fmt.Sprintf("%d s", int(wait.Seconds()))
}
