package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/internal/localsite"
)

// TestCrawlWithoutAPageSaysWhy: to who has typed the URL.
func TestCrawlWithoutAPageSaysWhy(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	for url, want := range map[string]string{
		s.URL + "/private/diary":           "Disallow: /private",
		s.URL + "/trap":                    "Disallow: /private", // it redirects there
		"http://host.invalid/":             "host.invalid",
		"http://127.0.0.1:25/":             "port 25 belongs to no web server",
		strings.TrimPrefix(s.URL, "http:"): "begins with https:// or http://",
	} {
		r := polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-q", url)
		if r.status == 0 || !strings.Contains(r.errs, want) {
			t.Errorf("%s: status %d, %q", url, r.status, r.errs)
		}
	}
}

// TestCrawlEndsWhenItsPagesCantBeWritten: whoever doesn't get the pages doesn't want them, and has
// the evidence of those that were fetched all the same.
func TestCrawlEndsWhenItsPagesCantBeWritten(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no /dev/full")
	}
	s := localsite.New(t, 0)
	log := filepath.Join(t.TempDir(), "log.jsonl")
	r := polite(t, nil, "crawl", "-agent", agent, "-delay", "100ms", "-per-host", "1", "-o", "/dev/full", "-evidence", log, s.URL+"/")
	r.expect(t, 2, "", "pages are lost: write /dev/full: no space left on device")
	if n := len(s.Visits()); n > 3 { // robots.txt, a page, and one that was under way
		t.Errorf("%d requests for pages that nobody gets", n)
	}
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), `"log_closed"`) {
		t.Errorf("the evidence isn't whole: %v\n%s", err, text)
	}
}

// TestCrawlIntoAPipeThatIsClosed: as "| head -1" does.
func TestCrawlIntoAPipeThatIsClosed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no SIGPIPE")
	}
	s := localsite.New(t, 0)
	log := filepath.Join(t.TempDir(), "log.jsonl")
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := prepare(t, nil, "crawl", "-agent", agent, "-delay", "100ms", "-evidence", log, s.URL+"/")
	cmd.Stdout = out
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Close()
	in.Close()
	_ = cmd.Wait() // its status is asked below
	if status := cmd.ProcessState.ExitCode(); status != 1 || strings.Contains(errs.String(), "broken pipe") {
		t.Errorf("status %d, %q", status, errs.String())
	}
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), `"log_closed"`) {
		t.Errorf("the evidence isn't whole: %v\n%s", err, text)
	}
}

// TestStateThatCantBeKept: is said at once.
func TestStateThatCantBeKept(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		polite(t, nil, "crawl", "-agent", agent, "-state", dir, s.URL+"/").expect(t, 2, "", "-state: ")
		polite(t, nil, "check", "-state", dir, s.URL+"/").expect(t, 2, "", "-state: ")
		polite(t, nil, "proxy", "-agent", agent, "-state", dir, "-listen", "127.0.0.1:0").expect(t, 2, "", "-state: ")
	}
	polite(t, nil, "check", "-state", filepath.Join(t.TempDir(), "none"), s.URL+"/").expect(t, 2, "", "no such file")
	if n := len(s.Visits()); n > 0 {
		t.Errorf("%d requests", n)
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-state", dir, s.URL+"/").expect(t, 0, "", "")
	polite(t, nil, "check", "-state", dir, s.URL+"/").expect(t, 0, "yes", "")
}

// TestCrawlStopsInTime: -time counts from the beginning, though the first page has to wait.
func TestCrawlStopsInTime(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	began := time.Now()
	r := polite(t, nil, "crawl", "-agent", agent, "-delay", "1m", "-time", "1s", s.URL+"/")
	// It ends while the page waits, or the page is refused, because it would start too late.
	if r.expect(t, 1, "", "1s"); !strings.Contains(r.errs, "-time, 1s, is over") && !strings.Contains(r.errs, "budget exceeded: time") {
		t.Error("nothing says that the time is over:", r.errs)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestCrawlGoesOnAfterAKill: with -state, each page is written once, but those that were under way,
// and a run after the last begins anew.
func TestCrawlGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	const pages = 120
	s.Handle("/numbered/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/numbered/")); err == nil && n < pages/2 {
			fmt.Fprintf(w, `<a href="/numbered/%d">a</a> <a href="/numbered/%d">b</a>`, 2*n, 2*n+1)
		}
	})
	dir := t.TempDir()
	out := filepath.Join(dir, "pages.jsonl")
	args := []string{"crawl", "-agent", agent, "-delay", "50ms", "-per-host", "2", "-state", filepath.Join(dir, "state"), "-o", out, s.URL + "/numbered/1"}
	kills := 0
	for range 3 {
		cmd := prepare(t, nil, args...)
		before := len(s.Visits())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); len(s.Visits()) < before+12 && time.Since(began) < time.Minute; {
			time.Sleep(5 * time.Millisecond)
		}
		if kills++; kills == 1 {
			held := polite(t, nil, args...)
			held.expect(t, 4, "", "-state ")
			if who := fmt.Sprintf("process %d (", cmd.Process.Pid); !strings.Contains(held.errs, who) {
				t.Errorf("it doesn't say who uses the state, %q: %q", who, held.errs)
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}
	polite(t, nil, args...).expect(t, 0, "", "that the last run has left")
	lines := jsonLines(t, out, "url")
	if n := len(slices.Compact(slices.Clone(lines))); n != pages-1 || len(lines) > n+kills*8 {
		t.Errorf("%d lines of %d pages, want %d", len(lines), n, pages-1)
	}
	r := polite(t, nil, args...)
	r.expect(t, 0, "", "")
	if n := len(jsonLines(t, out, "url")) - len(lines); n != pages-1 || strings.Contains(r.errs, "has left") {
		t.Errorf("a crawl that begins anew has %d pages, want %d: %q", n, pages-1, r.errs)
	}
}

// TestCrawlWaitsForItsState: with -wait-state a run that meets another one waits until that has ended,
// or says who it is. Both may write to one log.
func TestCrawlWaitsForItsState(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	begun := make(chan bool, 1)
	answer := make(chan bool)
	end := sync.OnceFunc(func() { close(answer) }) // of the first run
	t.Cleanup(end)
	s.Handle("/held", func(http.ResponseWriter, *http.Request) {
		begun <- true
		<-answer
	})
	dir := t.TempDir()
	args := []string{
		"crawl", "-agent", agent, "-delay", "10ms", "-follow", "none", "-state", filepath.Join(dir, "state"),
		"-evidence", filepath.Join(dir, "log.jsonl"),
	}
	first := prepare(t, nil, append(args, s.URL+"/held")...)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	<-begun
	polite(t, nil, append(args, s.URL+"/e")...).expect(t, 4, "", "process ")
	second := prepare(t, nil, append(args, "-wait-state", "1m", s.URL+"/e")...)
	errs, err := second.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	waits := false
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		if strings.Contains(lines.Text(), "waiting for -state ") {
			waits = true
			end()
		}
	}
	if err := second.Wait(); err != nil || !waits {
		t.Errorf("the second run waits: %t, %v", waits, err)
	}
	end()
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
	polite(t, nil, "crawl", "-agent", agent, "-wait-state", "1s", s.URL+"/").expect(t, 2, "", "-wait-state is for a -state")
}

// TestOutputGoesOnBehindWholeLines: half a line of a run before, whose disk was full, spoils no other
// line.
func TestOutputGoesOnBehindWholeLines(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	whole := `{"url":"http://whole.example/"}`
	long := strings.Repeat("x", 200_000)
	for text, kept := range map[string]int{
		`{"url":"ht`: 0, whole + "\n" + `{"url":"ht`: 1, whole + "\n" + `{"url":"` + long: 1, whole + "\n": 1, whole: 1, "": 0,
	} {
		dir := t.TempDir()
		out, failed := filepath.Join(dir, "pages.jsonl"), filepath.Join(dir, "failed.jsonl")
		for _, name := range []string{out, failed} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-follow", "none", "-o", out, "-failed", failed, s.URL+"/a", s.URL+"/private/diary").expect(t, 0, "", "")
		for _, name := range []string{out, failed} {
			if n := len(jsonLines(t, name, "url")); n != kept+1 {
				t.Errorf("%.40s: %s has %d lines, not %d", text, filepath.Base(name), n, kept+1)
			}
		}
	}
}

// TestOutputKeepsTextOfOthers: a name that was mistyped costs nobody their last line.
func TestOutputKeepsTextOfOthers(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	for _, flag := range []string{"-o", "-failed"} {
		name := filepath.Join(t.TempDir(), "notes.txt")
		if err := os.WriteFile(name, []byte("first\nlast"), 0o600); err != nil {
			t.Fatal(err)
		}
		polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-follow", "none", flag, name, s.URL+"/a", s.URL+"/private/diary").expect(t, 0, "", "")
		text, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(text), "first\nlast\n{") {
			t.Errorf("%s: %v, %.80q", flag, err, text)
		}
	}
}

// TestNothingIsWrittenBehindHalfALine: also in the run whose disk is full.
func TestNothingIsWrittenBehindHalfALine(t *testing.T) {
	var disk halfFull
	l := lineWriter{out: &disk}
	for range 3 {
		if l.write("page") == nil {
			t.Error("the line is said to be written")
		}
	}
	if string(disk) != `"p` {
		t.Errorf("%q", string(disk))
	}
}

// halfFull takes two bytes of each write.
type halfFull []byte

func (h *halfFull) Write(p []byte) (int, error) {
	*h = append(*h, p[:2]...)
	return 2, io.ErrShortWrite
}

// TestExcludeHoldsForRedirects of the URLs that were typed and of entries of sitemaps, and -include for
// those of entries, also where no link is followed.
func TestExcludeHoldsForRedirects(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	for _, path := range []string{"/go", "/listed"} {
		s.Handle(path, http.RedirectHandler("/hidden"+path, http.StatusFound).ServeHTTP)
	}
	s.Handle("/sitemap.xml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "<urlset><url><loc>%s/listed</loc></url></urlset>", s.URL)
	})
	for _, follow := range []string{"none", "host"} {
		r := polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-follow", follow, "-sitemaps", "-exclude", "hidden", s.URL+"/go")
		r.expect(t, 1, "", "-exclude")
		polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-follow", follow, "-sitemaps", "-include", "listed$", "-exclude", "hidden/listed", s.URL+"/go").expect(t, 0, "/hidden/go", "")
		if n := len(s.Visits("/hidden/listed")); n > 0 {
			t.Errorf("-follow %s: asked for %d times although it is excluded", follow, n)
		}
	}
	if n := len(s.Visits("/hidden/go")); n != 2 {
		t.Errorf("the target of a URL that was typed was asked for %d times, want 2, when it wasn't excluded", n)
	}
}

// TestRobotsOfALimitedRateIsHad: robots.txt has the time that it takes at that rate.
func TestRobotsOfALimitedRateIsHad(t *testing.T) {
	for _, rate := range []byteRate{1000, 5000, 1e9} {
		var cfg politeness.Config
		rate.limit(&cfg)
		if want := max(30, rateInFlight*(500<<10)/float64(rate)); cfg.Robots.Timeout.Seconds() < want {
			t.Errorf("%v bytes a second: %v", float64(rate), cfg.Robots.Timeout)
		}
	}
}

// TestBodiesAreWhole also where they aren't UTF-8.
func TestBodiesAreWhole(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	s.Handle("/latin", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
		_, _ = io.WriteString(w, "caf\xe9")
	})
	r := polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-body", "-follow", "none", s.URL+"/latin")
	var l line
	if err := json.Unmarshal([]byte(r.out), &l); err != nil || string(l.BodyBase64) != "caf\xe9" || l.Body != nil {
		t.Errorf("%v: %s", err, r.out)
	}
}

// TestRehearsalSaysWhatCouldNotBeFoundOut by its status, as check does.
func TestRehearsalSaysWhatCouldNotBeFoundOut(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	closed := localsite.Closed(t)
	args := []string{"crawl", "-agent", agent, "-n"}
	polite(t, nil, append(args, closed+"/")...).expect(t, 2, "?", "")
	polite(t, nil, append(args, closed+"/", s.URL+"/private/diary")...).expect(t, 2, "no ", "")
	polite(t, nil, append(args, s.URL+"/private/diary")...).expect(t, 1, "no ", "")
	polite(t, nil, append(args, closed+"/", s.URL+"/a")...).expect(t, 0, "yes", "")
}
