package dossier_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/cmd/politeness/internal/dossier"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/accesslog"
	"github.com/go-politeness/politeness/internal/browsertest"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/robots"
)

// visits returns the records of requests to one host at the given times after the first.
func visits(host string, at ...time.Duration) (records []evidence.Decision) {
	for i, after := range at {
		start := logtest.Day.Add(after)
		n := uint64(i + 1)
		d := evidence.Decision{
			Type: evidence.Started, Time: start, Start: start, Seq: n, Trip: n, Attempt: 1,
			URL: "https://" + host + "/" + strconv.Itoa(i), Host: host, Allowed: true,
		}
		records = append(records, d)
		d.Type = evidence.Fetched
		d.Time = start.Add(time.Millisecond)
		d.Status = 200
		records = append(records, d)
	}
	return records
}

// TestOwnersPageSaysWhatWasKept: each promise in words for the owner, with its counts, and the
// report as text for those only who unfold it.
func TestOwnersPageSaysWhatWasKept(t *testing.T) {
	records := logtest.Crawl(2, 40)
	starts := 0
	for _, r := range records {
		if r.Type == evidence.Started && r.Host == "h1.example" {
			starts++
		}
	}
	policy := records[slices.IndexFunc(records, func(d evidence.Decision) bool { return d.Policy != nil })].Policy
	policy.From = "me@bot.example"
	policy.Product = "TestBot"
	page := html(t, newDossier(t, logtest.Write(t, records), "h1.example"))
	for _, want := range []string{
		fmt.Sprintf("I never have more than %d requests under way</td><td class=\"yes\">kept, %d of %d<", policy.Slots, starts, starts),
		`Nothing is left out of my log</td><td class="soft">not shown by this page<`,
		"Write to me@bot.example.",
		"<summary>The auditor's report as text</summary>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	// The lines that the page gives to copy are read as any crawler of this library reads them.
	lines := regexp.MustCompile(`(?s)<pre class="copy"[^>]*>(User-agent: .*?)</pre>`).FindAllStringSubmatch(page, -1)
	if len(lines) != 2 {
		t.Fatalf("%d pieces of robots.txt", len(lines))
	}
	closed := robots.Parse([]byte(lines[0][1]))
	if closed.Agent("TestBot").Test("/page").Allowed {
		t.Errorf("a page is allowed by\n%s", lines[0][1])
	}
	if !closed.Agent("OtherBot").Test("/page").Allowed {
		t.Errorf("other crawlers are kept out by\n%s", lines[0][1])
	}
	if !strings.Contains(page, "in place of your lines for all crawlers") {
		t.Error("the page doesn't say that these lines replace those for all crawlers")
	}
	if got := robots.Parse([]byte(lines[1][1])).Agent("TestBot").Floor(logtest.Day); got != 10*time.Second {
		t.Errorf("a delay of %v by\n%s", got, lines[1][1])
	}
}

// TestTimelineLeavesIdleTimesOut: two runs a day apart take the same room as they took time.
func TestTimelineLeavesIdleTimesOut(t *testing.T) {
	d := newDossier(t, logtest.Write(t, visits("site.test",
		0, 10*time.Second, 20*time.Second,
		24*time.Hour, 24*time.Hour+10*time.Second, 24*time.Hour+20*time.Second,
	)), "site.test")
	timeline := d.Timeline()
	if len(timeline.Rows) != 1 || len(timeline.Pauses) != 1 {
		t.Fatalf("%+v", timeline)
	}
	var at []float64
	for _, tick := range timeline.Rows[0].Ticks {
		at = append(at, tick.At)
	}
	if got := fmt.Sprintf("%.2f", at); got != "[0.00 24.38 48.75 51.25 75.62 100.00]" {
		t.Errorf("ticks at %s", got)
	}
	took := timeline.Pauses[0].Took
	if took != 24*time.Hour-20*time.Second {
		t.Errorf("a pause of %v", took)
	}
}

// TestTimelineDrawsEachRequest: however many there are, at one time or at many, none gets lost, and
// none stands outside.
func TestTimelineDrawsEachRequest(t *testing.T) {
	same := make([]time.Duration, 30) // all at one time
	var many []time.Duration
	for i := range 3000 {
		many = append(many, time.Duration(i)*time.Second)
	}
	for name, at := range map[string][]time.Duration{"at one time": same, "many": many, "two": {0, time.Nanosecond}} {
		timeline := newDossier(t, logtest.Write(t, visits("site.test", at...)), "site.test").Timeline()
		drawn := 0
		for _, tick := range timeline.Rows[0].Ticks {
			drawn += tick.N
			if tick.At < 0 || tick.At > 100.0001 {
				t.Errorf("%s: a request at %v %%", name, tick.At)
			}
		}
		if drawn != len(at) || len(timeline.Rows[0].Ticks) > 501 {
			t.Errorf("%s: %d requests in %d ticks, want %d", name, drawn, len(timeline.Rows[0].Ticks), len(at))
		}
	}
	// Of a request alone there is nothing to draw.
	if rows := newDossier(t, logtest.Write(t, visits("site.test", 0)), "site.test").Timeline().Rows; rows != nil {
		t.Errorf("%+v", rows)
	}
}

// TestOwnersPageAtTheWidthOfADeskAndOfAPhone shows all of it within its window, as Chromium lays it
// out, light and dark, and without an obstacle. With POLITENESS_PICTURES=1 it writes the pictures
// that the guides show.
func TestOwnersPageAtTheWidthOfADeskAndOfAPhone(t *testing.T) {
	path := browsertest.Find(t)
	if path == "" {
		return
	}
	records := logtest.Crawl(3, 60)
	policy := records[slices.IndexFunc(records, func(d evidence.Decision) bool { return d.Policy != nil })].Policy
	policy.UserAgent = "TestBot/1.0 (+https://bot.example/; me@bot.example)"
	policy.From = "me@bot.example"
	page := html(t, newDossier(t, logtest.Write(t, records), "example"))
	const script = `root.dataset.track = document.querySelector(".track").clientWidth;`
	for _, width := range []int{1280, 390} {
		view := browsertest.View{Width: width, Height: 1500, Script: script}
		for _, dom := range browsertest.Check(t, path, browsertest.HTML(page), filepath.Join(docs, "owner"), view) {
			if track := browsertest.Attribute(dom, "track"); track < width/2 {
				t.Errorf("%d pixels: the timeline has %d of them", width, track)
			}
		}
	}
}

// siteLog returns the access log of a host, as its server would have written it, by the evidence.
func siteLog(records []evidence.Decision, host string) []string {
	var lines []string
	for _, r := range records {
		if r.Type != evidence.Fetched || r.Host != host {
			continue
		}
		_, target, _ := strings.Cut(r.URL, host)
		lines = append(lines, fmt.Sprintf("%s:443 192.0.2.1 - - [%s] \"GET %s HTTP/1.1\" %d %d \"-\" \"TestBot/1.0\"",
			host, r.Start.Format("02/Jan/2006:15:04:05 -0700"), target, r.Status, r.Bytes))
	}
	return lines
}

// compared returns the page of a comparison.
func compared(t *testing.T, records []evidence.Decision, lines []string) string {
	t.Helper()
	log := logtest.Write(t, records)
	c, err := accesslog.Compare(bytes.NewReader(log), accesslog.Options{}, strings.NewReader(strings.Join(lines, "\n")+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := dossier.WriteComparison(&page, "crawl.jsonl and access.log", c); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// TestAccessPageShowsBothLogsSideBySide: a row for each request, and the counts of each host.
func TestAccessPageShowsBothLogsSideBySide(t *testing.T) {
	records := logtest.Crawl(2, 30)
	lines := siteLog(records, "h1.example")
	n := len(lines)
	page := compared(t, records, lines)
	for _, want := range []string{
		fmt.Sprintf(`<p class="figure">%d</p><p>requests in the evidence</p>`, n),
		fmt.Sprintf(`<p class="figure yes">=</p><p>%d in both</p>`, n),
		fmt.Sprintf(`<tr><td data-name="host">h1.example</td><td class="num" data-name="in the evidence">%d</td><td class="num" data-name="in both">%d</td><td class="num" data-name="in the access log">%d</td>`, n, n, n),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if got := strings.Count(page, `<td class="yes" data-name="result">same</td>`); got != n {
		t.Errorf("%d rows are the same, want %d", got, n)
	}

	// The site saw a request more, with another status than the evidence has for another one.
	more := slices.Clone(lines)
	more[5] = strings.Replace(more[5], "\" 200 ", "\" 404 ", 1)
	more = append(more, strings.Replace(more[6], "GET /", "GET /secret", 1))
	page = compared(t, records, more)
	for _, want := range []string{
		`<p class="figure no">≠</p>`, `<td class="no" colspan="3" data-name="evidence">not in the evidence</td>`,
		`<td class="no" data-name="result">in one log</td>`, `<td class="no" data-name="result">other status</td>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// TestAccessPageAtTheWidthOfADeskAndOfAPhone shows all of it within its window, light and dark, and
// without an obstacle. With POLITENESS_PICTURES=1 it writes the pictures that the guides show.
func TestAccessPageAtTheWidthOfADeskAndOfAPhone(t *testing.T) {
	path := browsertest.Find(t)
	if path == "" {
		return
	}
	records := logtest.Crawl(2, 20)
	lines := siteLog(records, "h1.example")
	_, rest, _ := strings.Cut(lines[6], "HTTP/1.1")
	begin, _, _ := strings.Cut(lines[6], "GET ")
	lines = append(lines, begin+"GET /not/in/the/evidence HTTP/1.1"+rest)
	page := browsertest.HTML(compared(t, records, lines))
	for _, width := range []int{1280, 390} {
		browsertest.Check(t, path, page, filepath.Join(docs, "access"), browsertest.View{Width: width, Height: 1000})
	}
}

// docs is the directory of the guides.
var docs = filepath.Join("..", "..", "..", "..", "docs")

// TestTimelineIsBounded: a site of many names has a row for the first of them.
func TestTimelineIsBounded(t *testing.T) {
	var records []evidence.Decision
	for i := range 40 {
		records = append(records, visits(fmt.Sprintf("h%d.site.test", i), time.Duration(i)*time.Second)...)
	}
	d := newDossier(t, logtest.Write(t, records), "site.test")
	timeline := d.Timeline()
	if len(timeline.Rows) != 12 || timeline.More != 28 {
		t.Errorf("%d rows, %d more", len(timeline.Rows), timeline.More)
	}
	var out bytes.Buffer
	if err := d.WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
}
