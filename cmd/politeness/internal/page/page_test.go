package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/browsertest"
	"github.com/go-politeness/politeness/internal/logtest"
)

// draw audits a log and returns the report's text and what was drawn.
func draw(t *testing.T, log []byte) (text, html string, ok bool) {
	t.Helper()
	report, err := audit.Check(bytes.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	var drawn strings.Builder
	if err := Draw(&drawn, "crawl.jsonl", bytes.NewReader(log), report); err != nil {
		t.Fatal(err)
	}
	return report.String(), drawn.String(), report.OK()
}

func TestPoliteCrawl(t *testing.T) {
	text, html, ok := draw(t, sample(t, 3000, nil))
	if !ok || !strings.Contains(text, "Nothing is broken") {
		t.Error(text)
	}
	if !strings.Contains(html, "Nothing is broken, but not everything is proved") {
		t.Error("the page doesn't say so")
	}
}

// TestProvedIsGreen: the page of a log of which nothing is open says so, also without scripts.
func TestProvedIsGreen(t *testing.T) {
	log := sample(t, 300, nil)
	report, err := audit.Check(bytes.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	for i := range report.Promises {
		report.Promises[i].Open = 0
	}
	var drawn strings.Builder
	if err := Draw(&drawn, "crawl.jsonl", bytes.NewReader(log), report); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<div class="verdict good">`, `<h1 id="verdict">Every promise was kept, proved by the log`} {
		if !strings.Contains(drawn.String(), want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

func TestBrokenPromises(t *testing.T) {
	text, html, ok := draw(t, sample(t, 3000, spoil))
	if ok {
		t.Error("no violation found")
	}
	for _, kind := range []audit.Kind{audit.BrokenGap, audit.BrokenConcurrency, audit.BrokenRobots} {
		if !strings.Contains(text, string(kind)+": ") {
			t.Errorf("no violation of kind %s in\n%s", kind, text)
		}
	}
	if !strings.Contains(html, "Promises were broken") {
		t.Error("the page doesn't say so")
	}
}

// pageData returns the data that is embedded in a page.
func pageData(t *testing.T, html string) *page {
	t.Helper()
	_, rest, _ := strings.Cut(html, `<script type="application/json" id="data">`)
	data, _, ok := strings.Cut(rest, "</script>")
	if !ok {
		t.Fatal("no data in the page")
	}
	var p page
	if err := json.Unmarshal([]byte(data), &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

func TestPageHoldsTheWholeCrawl(t *testing.T) {
	log := sample(t, 3000, nil)
	_, html, _ := draw(t, log)
	p := pageData(t, html)
	started := bytes.Count(log, []byte(`"type":"started"`))
	refused := bytes.Count(log, []byte(`"type":"blocked_by_robots"`))
	blocked := bytes.Count(log, []byte(`"type":"host_blocked"`))
	rules := 0
	for _, h := range p.Hosts {
		for _, n := range []int{len(h.Latency), len(h.Duration), len(h.Delay), len(h.Status), len(h.Flags), len(h.Line), len(h.URL), len(h.WaitSlot)} {
			if n != len(h.Start) {
				t.Fatalf("%s: a column of %d for %d exchanges", h.Name, n, len(h.Start))
			}
		}
		started -= len(h.Start)
		blocked -= len(h.Blocks)
		for _, e := range h.Events {
			if e.Type == evidence.BlockedByRobots {
				refused--
				if strings.Contains(e.Why, "Disallow: ") && strings.Contains(e.Why, "robots.txt, line ") {
					rules++
				}
			}
		}
	}
	if started != 0 || refused != 0 || blocked != 0 || rules == 0 {
		t.Errorf("missing: %d exchanges, %d refusals, %d blocks; %d refusals with their rule", started, refused, blocked, rules)
	}
}

// TestPageNeedsNoNetwork looks for anything that a browser would load.
func TestPageNeedsNoNetwork(t *testing.T) {
	_, html, _ := draw(t, sample(t, 500, nil))
	shell, _, _ := strings.Cut(html, `id="data">`) // URLs in the data are text
	for _, part := range []string{shell, pageCSS, pageJS} {
		if m := regexp.MustCompile(`(?i)\bsrc=|<link|@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|import\(|https?://`).FindString(part); m != "" {
			t.Errorf("the page holds %q", m)
		}
	}
	if !strings.Contains(shell, `content="default-src 'none'`) {
		t.Error("the page doesn't forbid the network")
	}
	for _, tag := range []string{"html", "head", "body", "main", "section", "style", "script"} {
		opened := len(regexp.MustCompile("<"+tag+"[ >]").FindAllString(html, -1))
		if closed := strings.Count(html, "</"+tag+">"); opened != closed || opened == 0 {
			t.Errorf("%d times <%s>, %d times </%s>", opened, tag, closed, tag)
		}
	}
	// The script and the markup speak of the same elements.
	for _, m := range regexp.MustCompile(`\$\("([a-z-]+)"\)`).FindAllStringSubmatch(pageJS, -1) {
		if !strings.Contains(pageHTML, `id="`+m[1]+`"`) {
			t.Errorf("the script wants #%s, which isn't there", m[1])
		}
	}
}

func TestPageIsSafeFromItsLog(t *testing.T) {
	evil := `</script><script>alert(1)</script><img src=x onerror=alert(1)>`
	log := sample(t, 300, func(all []evidence.Decision) {
		for i := range all {
			d := &all[i]
			d.MatchedRule, d.Reason, d.Err = evil, evil, evil
			d.URL += evil
		}
	})
	_, html, _ := draw(t, log)
	if strings.Contains(html, "<img") || strings.Contains(html, "<script>alert") {
		t.Error("a log can put elements into the page")
	}
}

// look returns the page as it is after its script has run.
func look(t *testing.T, path, html, fragment string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, []byte(html), 0o600); err != nil {
		t.Fatal(err)
	}
	return browsertest.Look(t, path, "file://"+file+fragment, "", "--window-size=1500,1300", "--virtual-time-budget=5000")
}

func TestPageInABrowser(t *testing.T) {
	path := browsertest.Find(t)
	if path == "" {
		return // the tests above have looked at the page's structure
	}
	_, html, _ := draw(t, sample(t, 3000, spoil))
	hosts := len(pageData(t, html).Hosts)

	dom := look(t, path, html, "")
	if n := browsertest.Attribute(dom, "ready"); n != hosts {
		t.Errorf("%d of %d hosts in the timeline", n, hosts)
	}
	if n := strings.Count(dom, `class="row`); n < 5 {
		t.Errorf("%d labels of hosts", n)
	}
	for _, want := range []string{"violations</h1>", "delays kept", `class="kind">robots`, `class="kind">gap`} {
		if !strings.Contains(dom, want) {
			t.Errorf("no %q in the page", want)
		}
	}

	dom = look(t, path, html, "#q=sessionid&host=shop.nordlicht.example&theme=dark")
	if n := browsertest.Attribute(dom, "ready"); n <= 0 || n >= hosts {
		t.Errorf("the search found %d of %d hosts", n, hosts)
	}
	for _, want := range []string{`data-theme="dark"`, "disallowed by robots.txt", "Disallow: /private (robots.txt, line 2, for *)"} {
		if !strings.Contains(dom, want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

// functionOf returns the body of a function of page.js, given its name and parameters.
func functionOf(t *testing.T, head string) string {
	t.Helper()
	_, rest, _ := strings.Cut(pageJS, "  function "+head+" {")
	body, _, ok := strings.Cut(rest, "\n  }\n")
	if !ok {
		t.Fatalf("page.js has no function %s", head)
	}
	return body
}

// TestTimelineLeavesIdleHoursOut: what happens in a minute isn't squeezed by hours without a
// request, at either end or between, and each place of the axis has its time.
func TestTimelineLeavesIdleHoursOut(t *testing.T) {
	path := browsertest.Find(t)
	if path == "" {
		return
	}
	html := "<!doctype html><title>axis</title><p id=out></p><script>function axisOf(busy, span) {" + functionOf(t, "axisOf(busy, span)") + "\n}" + `
const minute = 6e5, hour = 60 * minute;
const said = [];
for (const [busy, span] of [
	[[[0, minute], [30 * hour, 30 * hour + minute]], 30 * hour + minute], // two runs a day apart
	[[[0, minute]], hour], // an hour of nothing at the end
	[[[hour, hour + minute]], hour + minute], // and at the beginning
	[[[0, minute], [2 * minute, 20 * minute]], 20 * minute], // a short pause
	[[], 10],
]) {
	const axis = axisOf(busy, span);
	const wide = busy.reduce((sum, [from, to]) => sum + to - from, 0) / axis.span;
	const right = [0, minute / 2, minute, hour / 3, span].every(t => Math.abs(axis.time(axis.place(t)) - t) < 1e-3);
	said.push([axis.pauses.length, wide.toFixed(2), axis.place(0), axis.place(span) === axis.span, right].join(" "));
}
document.getElementById("out").textContent = said.join("; ");
</script>`
	const want = "1 0.98 0 true true; 1 0.98 0 true true; 1 0.98 0 true true; 0 0.95 0 true true; 0 0.00 0 true true"
	if dom := look(t, path, html, ""); !strings.Contains(dom, "<p id=\"out\">"+want+"</p>") {
		_, got, _ := strings.Cut(dom, `<p id="out">`)
		got, _, _ = strings.Cut(got, "</p>")
		t.Errorf("got %s", got)
	}
	for days, want := range map[int]int{1: 0, 3: 2} {
		crawl := logtest.Crawl(2, 20)
		var runs []evidence.Decision
		for day := range days {
			runs = append(runs, logtest.Again(crawl, day)...)
		}
		_, html, _ := draw(t, logtest.Write(t, runs))
		if got := browsertest.Attribute(look(t, path, html, ""), "pauses"); got != want {
			t.Errorf("%d days: %d pauses, want %d", days, got, want)
		}
	}
}

// TestPageRoundsBeforeItDivides: an hour less a moment is no "59 min 60 s".
func TestPageRoundsBeforeItDivides(t *testing.T) {
	path := browsertest.Find(t)
	if path == "" {
		return
	}
	body := functionOf(t, "seconds(s)")
	html := "<!doctype html><title>seconds</title><p id=out></p><script>function seconds(s) {" + body + "\n}" + `
document.getElementById("out").textContent =
	[0, 0.9999, 1, 9.999, 59.99, 60, 119.7, 3599.4, 3599.9, 3600, 7199, 7170].map(seconds).join("; ");
</script>`
	const want = "0; 1 s; 1 s; 10 s; 1 min 0 s; 1 min 0 s; 2 min 0 s; 59 min 59 s; 1 h 0 min; 1 h 0 min; 2 h 0 min; 2 h 0 min"
	if dom := look(t, path, html, ""); !strings.Contains(dom, "<p id=\"out\">"+want+"</p>") {
		t.Errorf("want %s in %s", want, dom)
	}
}

func TestPageOf100000RecordsInABrowser(t *testing.T) {
	path := browsertest.Find(t)
	if path == "" {
		return
	}
	log := sample(t, 104_000, nil)
	_, html, _ := draw(t, log)
	dom := look(t, path, html, "#q=private")
	if browsertest.Attribute(dom, "ready") <= 0 {
		t.Error("the page didn't draw itself")
	}
	// Rows outside of the window aren't built.
	if n := strings.Count(dom, `class="row`); n == 0 || n > 40 {
		t.Errorf("%d labels of hosts", n)
	}
	t.Logf("%d records, %d kB, drawn in %d ms", bytes.Count(log, []byte("\n")), len(html)/1000, browsertest.Attribute(dom, "ms"))
}

// TestPageTellsWhatWasNeverSent: an answer that was refused had been asked for, and a wait is no
// event of its own.
func TestPageTellsWhatWasNeverSent(t *testing.T) {
	begin := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	of := func(typ evidence.Type, trip uint64, change func(*evidence.Decision)) evidence.Decision {
		d := evidence.Decision{Type: typ, Time: begin, Trip: trip, Attempt: 1, URL: "https://example.com/", Host: "example.com", Agent: "Bot"}
		change(&d)
		return d
	}
	allowed := func(d *evidence.Decision) { d.Allowed = true }
	unsure := func(d *evidence.Decision) { d.Allowed, d.Confidence = true, "low" }
	started := func(seq uint64) func(*evidence.Decision) {
		return func(d *evidence.Decision) { d.Allowed, d.Start, d.Seq = true, begin, seq }
	}
	var log bytes.Buffer
	sink := evidence.JSONLines(&log)
	for _, d := range []evidence.Decision{
		of(evidence.RobotsAllowed, 1, unsure), of(evidence.Waiting, 1, allowed), of(evidence.Started, 1, started(1)),
		of(evidence.ResponseRejected, 1, func(*evidence.Decision) {}),
		of(evidence.RobotsAllowed, 2, allowed), of(evidence.Started, 2, started(2)), of(evidence.BudgetExceeded, 2, func(*evidence.Decision) {}),
		of(evidence.BudgetExceeded, 3, func(*evidence.Decision) {}), of(evidence.SlotTimeout, 4, func(*evidence.Decision) {}),
	} {
		sink.Record(t.Context(), d)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	_, html, _ := draw(t, log.Bytes())
	h := pageData(t, html).Hosts[0]
	sent := ""
	for _, e := range h.Events {
		sent += fmt.Sprintf("%s %v, ", e.Type, e.Sent)
	}
	if sent != "response_rejected true, budget_exceeded true, budget_exceeded false, slot_timeout false, " {
		t.Errorf("events: %s", sent)
	}
	if h.Flags[0]&low == 0 || h.Flags[1]&low != 0 {
		t.Errorf("flags %v", h.Flags)
	}
}

// TestPageAtTheWidthOfADeskAndOfAPhone shows all of it within its window, light and dark, and
// without an obstacle. With POLITENESS_PICTURES=1 it writes the pictures that the guides show.
func TestPageAtTheWidthOfADeskAndOfAPhone(t *testing.T) {
	path := browsertest.Find(t)
	if path == "" {
		return
	}
	_, html, _ := draw(t, sample(t, 3000, spoil))
	const script = `root.dataset.chart = document.getElementById("lanes").clientWidth;`
	prefix := filepath.Join("..", "..", "..", "..", "docs", "audit")
	for width, height := range map[int]int{1280: 1500, 390: 2900} {
		view := browsertest.View{Target: "/#host=shop.nordlicht.example", Width: width, Height: height, Script: script}
		for _, dom := range browsertest.Check(t, path, browsertest.HTML(html), prefix, view) {
			if chart := browsertest.Attribute(dom, "chart"); chart < width/2 {
				t.Errorf("%d pixels: the timeline has %d of them", width, chart)
			}
		}
	}
}

// byHandLog returns the log of a crawl that a person steers: a host is blocked by hand, cleared, and
// the work is ended.
func byHandLog(t *testing.T) []byte {
	t.Helper()
	all := logtest.Crawl(2, 20)
	at := all[len(all)/2].Time
	host := all[len(all)/2].Host
	hand := []evidence.Decision{
		{Type: evidence.HostBlocked, Time: at, Host: host, Hand: true, Until: at.Add(time.Hour), Reason: "by hand: the owner has called"},
		{Type: evidence.HostCleared, Time: at.Add(time.Second), Host: host, Hand: true, Allowed: true, Reason: "by hand"},
		{Type: evidence.HostBlocked, Time: at.Add(2 * time.Second), Host: host, Restored: true, Until: at.Add(time.Hour), Reason: "restored: by hand: maintenance, 6 h ago"},
		{Type: evidence.Drained, Time: at.Add(3 * time.Second), Hand: true, Reason: "by hand: no request starts any more"},
	}
	return logtest.Write(t, append(all, hand...))
}

// TestPageDrawsWhatIsDoneByHand: a block that a person has set looks otherwise than one that the host
// has asked for, and says why; so do its end, and the end of the work.
func TestPageDrawsWhatIsDoneByHand(t *testing.T) {
	_, html, _ := draw(t, byHandLog(t))
	p := pageData(t, html)
	hands, lifted := 0, 0
	for _, h := range p.Hosts {
		for _, b := range h.Blocks {
			if b.Hand {
				hands++
			}
		}
		for _, e := range h.Events {
			if e.Type == evidence.HostCleared {
				lifted++
			}
		}
	}
	if hands != 2 || lifted != 1 || len(p.Drained) != 1 {
		t.Errorf("%d blocks by hand, %d lifted, %d drained", hands, lifted, len(p.Drained))
	}
	path := browsertest.Find(t)
	if path == "" {
		return
	}
	host := ""
	for _, h := range p.Hosts {
		if len(h.Blocks) > 0 {
			host = h.Name
		}
	}
	dom := look(t, path, html, "#host="+host)
	for _, want := range []string{"blocked by hand", "by hand: the owner has called", "block lifted by hand", "restored: by hand: maintenance"} {
		if !strings.Contains(dom, want) {
			t.Errorf("no %q in the page", want)
		}
	}
}
