package dossier_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
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
		"Write to me@bot.example.",
		"<summary>The auditor's report as text</summary>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	// The lines that the page gives to copy are read as any crawler of this library reads them.
	lines := regexp.MustCompile(`(?s)<pre class="copy">(User-agent: .*?)</pre>`).FindAllStringSubmatch(page, -1)
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

// TestOwnersPageAtTheWidthOfADeskAndOfAPhone shows all of it within its window, as Chromium lays it out.
func TestOwnersPageAtTheWidthOfADeskAndOfAPhone(t *testing.T) {
	path := browsertest.Find(t)
	if path == "" {
		return
	}
	records := logtest.Crawl(3, 60)
	page := html(t, newDossier(t, logtest.Write(t, records), "example"))
	page = strings.Replace(page, "script-src 'none'", "", 1)
	page = strings.Replace(page, "default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';", 1)
	page = strings.Replace(page, "</body>", `<script>
const root = parent.document.documentElement;
root.dataset.width = innerWidth;
root.dataset.wide = document.documentElement.scrollWidth - innerWidth;
root.dataset.track = document.querySelector(".track").clientWidth;
</script></body>`, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if width := r.FormValue("width"); width != "" {
			fmt.Fprintf(w, `<!doctype html><html><body style="margin:0"><iframe src="/" width=%q height="2900" style="border:0"></iframe></body></html>`, width)
			return
		}
		_, _ = io.WriteString(w, page)
	}))
	defer server.Close()
	for _, width := range []int{1280, 390} {
		url := fmt.Sprintf("%s/frame?width=%d", server.URL, width)
		window := fmt.Sprintf("--window-size=%d,1500", width)
		dom := browsertest.Look(t, path, url, "", window, "--virtual-time-budget=5000")
		if got := browsertest.Attribute(dom, "width"); got != width {
			t.Errorf("a window of %d is %d wide", width, got)
		}
		if wide := browsertest.Attribute(dom, "wide"); wide != 0 {
			t.Errorf("%d pixels: the page is %d wider than its window", width, wide)
		}
		if track := browsertest.Attribute(dom, "track"); track < width/2 {
			t.Errorf("%d pixels: the timeline has %d of them", width, track)
		}
		if os.Getenv("POLITENESS_PICTURES") == "1" {
			picture := filepath.Join("..", "..", "..", "..", "docs", fmt.Sprintf("owner-%d.png", width))
			browsertest.Look(t, path, url, picture, window, "--virtual-time-budget=5000")
		}
	}
}

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
