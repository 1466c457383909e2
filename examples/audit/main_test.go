package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
)

// draw runs the command on a log and returns what it printed and drew.
func draw(t *testing.T, log []byte, args ...string) (text, html string, ok bool) {
	t.Helper()
	dir := t.TempDir()
	in, page := filepath.Join(dir, "crawl.jsonl"), filepath.Join(dir, "report.html")
	if err := os.WriteFile(in, log, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ok, err := run(append(args, "-o", page, in), &out)
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), string(drawn), ok
}

func TestPoliteCrawl(t *testing.T) {
	text, html, ok := draw(t, sample(t, 3000, nil))
	if !ok || !strings.Contains(text, "No violation") {
		t.Error(text)
	}
	if !strings.Contains(html, "Every promise was kept") {
		t.Error("the page doesn't say so")
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

func TestJSON(t *testing.T) {
	text, _, _ := draw(t, sample(t, 500, nil), "-json")
	var report struct{ Lines int }
	if err := json.Unmarshal([]byte(text), &report); err != nil || report.Lines == 0 {
		t.Errorf("%v: %s", err, text)
	}
}

func TestErrors(t *testing.T) {
	for _, args := range [][]string{{}, {"a", "b"}, {"-nonsense"}, {"no such file"}} {
		if _, err := run(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: no error", args)
		}
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

// browser finds the browser that the page is looked at in. Without
// POLITENESS_BROWSER=1, which make sets, the tests in the browser are left to
// those that have one.
func browser(t *testing.T) string {
	t.Helper()
	if os.Getenv("POLITENESS_BROWSER") != "1" {
		return ""
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no browser; install one with: make setup")
	return ""
}

// look returns the page as it is after its script has run.
func look(t *testing.T, path, html, fragment string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, []byte(html), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1500,1300",
		"--user-data-dir="+t.TempDir(), "--virtual-time-budget=5000", "--dump-dom", "file://"+file+fragment)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	return string(dom)
}

// attribute returns a data attribute of the page's root, -1 if it isn't there.
func attribute(dom, name string) int {
	m := regexp.MustCompile(`<html[^>]* data-` + name + `="(\d+)"`).FindStringSubmatch(dom)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

func TestPageInABrowser(t *testing.T) {
	path := browser(t)
	if path == "" {
		return // the tests above have looked at the page's structure
	}
	_, html, _ := draw(t, sample(t, 3000, spoil))
	hosts := len(pageData(t, html).Hosts)

	dom := look(t, path, html, "")
	if n := attribute(dom, "ready"); n != hosts {
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
	if n := attribute(dom, "ready"); n <= 0 || n >= hosts {
		t.Errorf("the search found %d of %d hosts", n, hosts)
	}
	for _, want := range []string{`data-theme="dark"`, "refused by robots.txt", "Disallow: /private (robots.txt, line 2, for *)"} {
		if !strings.Contains(dom, want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

func TestPageOf100000RecordsInABrowser(t *testing.T) {
	path := browser(t)
	if path == "" {
		return
	}
	log := sample(t, 104_000, nil)
	_, html, _ := draw(t, log)
	dom := look(t, path, html, "#q=private")
	if attribute(dom, "ready") <= 0 {
		t.Error("the page didn't draw itself")
	}
	// Rows outside of the window aren't built.
	if n := strings.Count(dom, `class="row`); n == 0 || n > 40 {
		t.Errorf("%d labels of hosts", n)
	}
	t.Logf("%d records, %d kB, drawn in %d ms", bytes.Count(log, []byte("\n")), len(html)/1000, attribute(dom, "ms"))
}
