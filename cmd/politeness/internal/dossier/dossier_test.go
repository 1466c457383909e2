package dossier_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/cmd/politeness/internal/dossier"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/audit/accesslog"
	"github.com/go-politeness/politeness/internal/logtest"
)

func newDossier(t testing.TB, log []byte, hosts ...string) *dossier.Dossier {
	t.Helper()
	report, err := audit.CheckSite(bytes.NewReader(log), hosts...)
	if err != nil {
		t.Fatal(err)
	}
	d, err := dossier.New(bytes.NewReader(log), report, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func html(t testing.TB, d *dossier.Dossier) string {
	t.Helper()
	var out strings.Builder
	if err := d.WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestDossierCountsWhatTheLogSays(t *testing.T) {
	records := logtest.Crawl(5, 60)
	log := logtest.Write(t, records)
	d := newDossier(t, log, "h2.example")

	// Counted once more, in the simplest way.
	var starts []time.Time
	var size int64
	refused, blocks := 0, 0
	for _, r := range records {
		if r.Host != "h2.example" {
			continue
		}
		switch r.Type {
		case evidence.Started:
			starts = append(starts, r.Start)
		case evidence.Fetched:
			size += r.Bytes
		case evidence.BlockedByRobots:
			refused++
		case evidence.HostBlocked:
			blocks++
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	least := time.Hour
	for i := 1; i < len(starts); i++ {
		least = min(least, starts[i].Sub(starts[i-1]))
	}
	shown := 0
	for _, r := range d.Refused {
		shown += r.N
	}
	if d.Requests != len(starts) || len(d.Visits) != len(starts) || d.Bytes != size || d.MinGap != least || shown != refused || len(d.Blocks) != blocks {
		t.Errorf("%d requests, %d bytes, gap %v, %d refused, %d blocks; want %d, %d, %v, %d, %d",
			d.Requests, d.Bytes, d.MinGap, shown, len(d.Blocks), len(starts), size, least, refused, blocks)
	}
	if refused == 0 || blocks == 0 {
		t.Error("the crawl is too tame for this test")
	}
	page := html(t, d)
	for _, v := range starts {
		if !strings.Contains(page, v.UTC().Format("2006-01-02 15:04:05")) {
			t.Errorf("the page lacks the start at %v", v)
		}
	}
	for i := range 5 {
		if has := strings.Contains(page, fmt.Sprintf("h%d.example", i)); has != (i == 2) {
			t.Errorf("h%d.example in the page: %v", i, has)
		}
	}
	if !strings.Contains(page, "robots.txt, line") || !strings.Contains(page, `Blocks kept: <span class="yes">proved `) || !d.Report.OK() {
		t.Error("rules or blocks are missing")
	}
	verdict, want := regexp.MustCompile(`class="verdict (\w+)"`).FindStringSubmatch(page)[1], "open"
	if d.Report.Complete() {
		want = "good"
	}
	if verdict != want || d.Report.Complete() == strings.Contains(page, "but not everything is proved") {
		t.Errorf("the verdict is %s, not %s:\n%v", verdict, want, d.Report)
	}
}

// TestSilenceIsNotGreen: a log that shows little breaks nothing, and proves as little.
// TestDossierSaysWhatWasSpared, and nothing where no request was conditional.
func TestDossierSaysWhatWasSpared(t *testing.T) {
	d := newDossier(t, logtest.Write(t, logtest.Crawl(5, 60)), "h2.example")
	if text := html(t, d); strings.Contains(text, "for changes alone") {
		t.Error("a log without conditional requests has a row about them")
	}
	d.Report.Hosts = append(d.Report.Hosts,
		audit.HostReport{Host: "h2.example", Conditional: 5, NotModified: 3, Spared: 50 << 10},
		audit.HostReport{Host: "h2.example:8080", Conditional: 2, NotModified: 1, Spared: 1 << 10},
	)
	if text := html(t, d); !strings.Contains(text, "<dd>7, of which 4 were answered 304: 51 KiB of pages, unpacked, not sent</dd>") {
		t.Error("the page doesn't say what was spared")
	}
}

func TestSilenceIsNotGreen(t *testing.T) {
	start := evidence.Decision{
		Type: evidence.Started, Time: logtest.Day, Start: logtest.Day, Seq: 1, Trip: 1, Attempt: 1, URL: "https://site.test/", Host: "site.test", Allowed: true,
	}
	end := start
	end.Type, end.Time, end.Status = evidence.Fetched, logtest.Day.Add(time.Second), 200
	page := html(t, newDossier(t, logtest.Write(t, []evidence.Decision{start, end}), "site.test"))
	if !strings.Contains(page, `class="verdict open"`) || !strings.Contains(page, "but not everything is proved") {
		t.Error(page)
	}
}

func TestDossierTellsOfABlockThatWasNotRespected(t *testing.T) {
	records := logtest.Crawl(1, 20)
	block := &records[slices.IndexFunc(records, func(d evidence.Decision) bool { return d.Type == evidence.HostBlocked })]
	block.Until = block.Until.Add(10 * time.Second)
	d := newDossier(t, logtest.Write(t, records), "h0.example")
	if d.Report.OK() || !d.Blocks[0].Next.Before(block.Until) {
		t.Errorf("%+v\n%v", d.Blocks[0], d.Report)
	}
	page := html(t, d)
	for _, want := range []string{`Blocks kept: <span class="no">BROKEN `, `<span class="no">lines `, ": block: h0.example: started", "Promises to this site were broken", `<td class="no">broken, 1 of `} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}

// TestBlocksAndGapsAreThoseOfOneHost: the site has several, and a block of one of them, or its delay,
// is none of the others. What is broken is the judge's to say.
func TestBlocksAndGapsAreThoseOfOneHost(t *testing.T) {
	d := newDossier(t, logtest.Write(t, logtest.Crawl(5, 60)), "example") // h0.example to h4.example
	if !d.Report.OK() || len(d.Blocks) < 2 {
		t.Fatal(d.Report)
	}
	page := html(t, d)
	if strings.Contains(page, "verdict bad") || strings.Contains(page, "were broken") || strings.Contains(page, " within<") {
		t.Error("an honest crawl is said to have broken its promises")
	}
	if d.MinGap < d.Delay {
		t.Errorf("shortest gap %v, shortest delay in force %v", d.MinGap, d.Delay)
	}
	for _, b := range d.Blocks {
		if !b.Next.IsZero() && b.Next.Before(b.Until) {
			t.Errorf("the next request to %s was at %v, before %v", b.Host, b.Next, b.Until)
		}
	}
}

// TestTwoRequestsAtOneTimeAreTwo: their gap is 0.
func TestTwoRequestsAtOneTimeAreTwo(t *testing.T) {
	start := evidence.Decision{
		Type: evidence.Started, Time: logtest.Day, Start: logtest.Day, Seq: 1, Trip: 1, Attempt: 1, URL: "https://site.test/", Host: "site.test", Allowed: true,
	}
	next := start
	next.Seq, next.Trip = 2, 2
	if page := html(t, newDossier(t, logtest.Write(t, []evidence.Decision{start, next}), "site.test")); strings.Contains(page, "fewer than two") {
		t.Error(page)
	}
}

// pageLoads finds whatever would make a browser fetch something.
var pageLoads = regexp.MustCompile(`(?i)<(script|img|link|iframe|object)|<[a-z]+[^>]*\s(src|href|on[a-z]+)=|url\(|@import`)

func TestPagesAreSafeAndFetchNothing(t *testing.T) {
	evil := `"><script src=//evil.test></script><img onerror=x>` + "\u202e\x1b[2J"
	records := []evidence.Decision{}
	for i, typ := range []evidence.Type{
		evidence.BlockedByRobots, evidence.BlockedByRule, evidence.Started, evidence.Fetched, evidence.HostBlocked, evidence.RobotsUnreachable,
	} {
		records = append(records, evidence.Decision{
			Type: typ, Time: logtest.Day.Add(time.Duration(i)), Start: logtest.Day, Seq: 1, Method: evil, URL: "https://site.test/" + evil, Host: "site.test",
			Agent: evil, MatchedRule: evil, Group: evil, Line: 1, Reason: evil, Err: evil, Preferences: evil, SHA256: evil[:10], Status: 200,
			Allowed: typ == evidence.Started || typ == evidence.Fetched,
		})
	}
	log := logtest.Write(t, records)
	page := html(t, newDossier(t, log, "site.test"))
	c, err := accesslog.Compare(bytes.NewReader(log), accesslog.Options{Agent: "TestBot", Host: "site.test"}, strings.NewReader(
		`192.0.2.1 - - [21/Nov/2026:03:00:00 +0000] "`+strings.ReplaceAll(evil, `"`, `\"`)+` /`+strings.ReplaceAll(evil, `"`, `\"`)+` HTTP/1.1" 200 1 "-" "TestBot"`,
	))
	if !errors.Is(err, accesslog.ErrNothing) || c.Missing.N+c.Outside.N != 1 {
		t.Fatalf("%v, %v", c, err)
	}
	var comparison strings.Builder
	if err := dossier.WriteComparison(&comparison, evil, c); err != nil {
		t.Fatal(err)
	}
	for name, page := range map[string]string{"dossier": page, "comparison": comparison.String()} {
		if found := pageLoads.FindString(page); found != "" {
			t.Errorf("the %s has %q", name, found)
		}
		if strings.ContainsAny(page, "\x1b\u202e") {
			t.Errorf("the %s has a control character", name)
		}
	}
}

func TestDossierOfNothing(t *testing.T) {
	d := newDossier(t, nil, "site.test")
	if page := html(t, d); !strings.Contains(page, "No request was sent") {
		t.Error(page)
	}
}

func TestDossierIsBounded(t *testing.T) {
	var records []evidence.Decision
	for i := range 11_000 {
		at := logtest.Day.Add(time.Duration(i) * time.Second)
		d := evidence.Decision{
			Type: evidence.Started, Time: at, Start: at, Seq: uint64(i + 1), Trip: uint64(i + 1), Attempt: 1, URL: fmt.Sprintf("https://site.test/%d", i), Host: "site.test", Allowed: true,
		}
		records = append(records, d)
		d.Type, d.Status = evidence.Fetched, 100+i
		records = append(records, d)
		d.Type, d.Allowed, d.Reason = evidence.BlockedByRule, false, fmt.Sprintf("reason %d", i)
		records = append(records, d)
	}
	d := newDossier(t, logtest.Write(t, records), "site.test")
	if len(d.Visits) != 10_000 || d.MoreVisits != 1000 || len(d.Refused) != 200 || d.MoreRefused != 10_800 {
		t.Errorf("%d visits and %d, %d rules and %d", len(d.Visits), d.MoreVisits, len(d.Refused), d.MoreRefused)
	}
}
