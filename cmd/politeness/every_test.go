package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/localsite"
)

// An edited is a site whose pages have versions.
type edited struct {
	*localsite.Site

	mu       sync.Mutex
	versions map[string]string // by path; "gone" and "moved" are none
	whole    map[string]int    // bodies that were sent
}

// newEdited returns a site with a front page that links to the others.
func newEdited(t *testing.T, paths ...string) *edited {
	t.Helper()
	s := &edited{Site: localsite.New(t, 0), versions: map[string]string{}, whole: map[string]int{}}
	links := ""
	for _, path := range paths {
		links += fmt.Sprintf(`<a href="%s">%s</a> `, path, path)
		s.set(path, "first")
		s.Handle(path, s.serve(func(version string) string { return "<p>The " + version + " text of " + path }))
	}
	s.set("/front", "first")
	s.Handle("/front", s.serve(func(string) string { return links }))
	return s
}

func (s *edited) set(path, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions[path] = version
}

// sent returns how often the whole page was sent.
func (s *edited) sent(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole[path]
}

func (s *edited) serve(text func(version string) string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		version := s.versions[req.URL.Path]
		etag := fmt.Sprintf("%q", version)
		switch {
		case version == "gone":
			http.Error(w, "gone", http.StatusGone)
			return
		case version == "moved":
			http.Redirect(w, req, "/front", http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Etag", etag)
		w.Header().Set("Content-Type", "text/html")
		if req.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		s.whole[req.URL.Path]++
		fmt.Fprint(w, text(version))
	}
}

// changesOf returns the lines of a crawl as "change path", sorted.
func changesOf(t *testing.T, out string) string {
	t.Helper()
	var changes []string
	for text := range strings.Lines(out) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		_, path, _ := strings.Cut(strings.TrimPrefix(l.URL, "http://"), "/")
		if isNew := l.Change == "new"; isNew != (l.Since == nil) {
			t.Errorf("since %v of a page that is %s", l.Since, l.Change)
		}
		if l.To != "" {
			path += " to " + l.To[strings.LastIndex(l.To, "/")+1:]
		}
		changes = append(changes, l.Change+" "+path)
	}
	slices.Sort(changes)
	return strings.Join(changes, ", ")
}

// Pages are due again after 8 s. A busy machine has them all in oneRound, before the first is due again,
// and all are due after untilDue: a page that hasn't changed in this time is left alone for a little
// longer than 8 s.
const (
	oneRound = "7s"
	untilDue = 12 * time.Second
)

// TestEveryAsksForWhatHasChanged: a second run writes what is new, changed, gone and moved, and asks for
// all else conditionally; a third one finds nothing, and says nothing.
func TestEveryAsksForWhatHasChanged(t *testing.T) {
	t.Parallel()
	s := newEdited(t, "/same", "/edited", "/left", "/away")
	dir := filepath.Join(t.TempDir(), "state")
	log := filepath.Join(t.TempDir(), "log.jsonl")
	run := func(args ...string) result {
		all := append([]string{
			"crawl", "-agent", agent, "-delay", "10ms", "-every", "8s", "-state", dir, "-evidence", log, "-q",
		}, args...)
		return polite(t, nil, append(all, s.URL+"/front")...)
	}
	// It ends before what it has had is due again.
	r := run("-time", oneRound)
	if got := changesOf(t, r.out); r.status != 0 || got != "new away, new edited, new front, new left, new same" {
		t.Fatalf("first run: status %d, %s\n%s", r.status, got, r.errs)
	}
	s.set("/edited", "second")
	s.set("/left", "gone")
	s.set("/away", "moved")
	time.Sleep(untilDue)
	r = run("-time", oneRound)
	if got := changesOf(t, r.out); r.status != 0 || got != "changed edited, gone left, moved away to front" {
		t.Errorf("second run: status %d, %s\n%s", r.status, got, r.errs)
	}
	if !strings.Contains(r.errs, "(1 changed, 1 gone)") || !strings.Contains(r.errs, "2 unchanged") || strings.Count(r.errs, "\n") != 1 {
		t.Errorf("second run says %q", r.errs)
	}
	time.Sleep(untilDue)
	run("-time", oneRound).expectSilence(t)
	if same, front := s.sent("/same"), s.sent("/front"); same != 1 || front != 1 {
		t.Errorf("what hasn't changed was sent so often: %d and %d", same, front)
	}
	audited := polite(t, nil, "audit", log)
	if audited.status != 0 || !strings.Contains(audited.out, "pages asked again only when due  proved") {
		t.Errorf("audit: status %d\n%s%s", audited.status, audited.out, audited.errs)
	}
	// Without -every the memories would be lost.
	refused := polite(t, nil, "crawl", "-agent", agent, "-state", dir, s.URL+"/front")
	refused.expect(t, 2, "", "made with -every: give that again, or another directory")
	due := polite(t, nil, "crawl", "-agent", agent, "-state", dir, "-every", "1d", "-n", s.URL+"/front")
	if due.status != 0 || !strings.Contains(due.out, "URLs of "+dir+" are due") {
		t.Errorf("-n: status %d, %q\n%s", due.status, due.out, due.errs)
	}
}

// expectSilence fails unless a run that cron has started sends no mail.
func (r result) expectSilence(t *testing.T) {
	t.Helper()
	if r.status != 0 || r.out != "" || r.errs != "" {
		t.Errorf("where nothing has changed: status %d, %q, %q", r.status, r.out, r.errs)
	}
}

// TestEveryTakesAnOlderState: what was had without -every is due at once.
func TestEveryTakesAnOlderState(t *testing.T) {
	t.Parallel()
	s := newEdited(t, "/same")
	dir := filepath.Join(t.TempDir(), "state")
	polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-state", dir, "-q", s.URL+"/front").expect(t, 0, "", "")
	r := polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-state", dir, "-q", "-every", "1d", s.URL+"/front")
	if got := changesOf(t, r.out); r.status != 0 || got != "new front, new same" {
		t.Errorf("status %d, %s\n%s", r.status, got, r.errs)
	}
}

// TestIgnoredTextIsNoChange, and a feed that is named is read.
func TestIgnoredTextIsNoChange(t *testing.T) {
	t.Parallel()
	s := newEdited(t, "/listed")
	s.Handle("/feed.xml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/rss+xml")
		fmt.Fprintf(w, `<rss version="2.0"><channel><item><link>%s/listed</link></item></channel></rss>`, s.URL)
	})
	dir := filepath.Join(t.TempDir(), "state")
	args := []string{
		"crawl", "-agent", agent, "-delay", "10ms", "-state", dir, "-q", "-every", "8s", "-follow", "none", "-time", oneRound,
		"-source", s.URL + "/feed.xml", "-ignore-text", "(first|second)", s.URL + "/front",
	}
	r := polite(t, nil, args...)
	if got := changesOf(t, r.out); r.status != 0 || got != "new front, new listed" {
		t.Errorf("status %d, %s\n%s", r.status, got, r.errs)
	}
	s.set("/listed", "second")
	time.Sleep(untilDue)
	if r := polite(t, nil, args...); r.status != 0 || r.out != "" {
		t.Errorf("status %d, %q\n%s", r.status, r.out, r.errs)
	}
}

// TestASourceIsReadOnce, though robots.txt names it as well.
func TestASourceIsReadOnce(t *testing.T) {
	t.Parallel()
	s := newEdited(t, "/listed")
	s.Handle("/feed.xml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "<urlset><url><loc>%s/listed</loc></url></urlset>", s.URL)
	})
	s.Handle("GET /robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "Sitemap: %s/feed.xml\n", s.URL)
	})
	polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-q", "-depth", "0", "-sitemaps",
		"-source", s.URL+"/feed.xml#now", s.URL+"/front").expect(t, 0, "/listed", "")
	if reads := len(s.Visits("/feed.xml")); reads != 1 {
		t.Errorf("it was read %d times", reads)
	}
}

// TestFlagsOfEvery: what can't be meant is said.
func TestFlagsOfEvery(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"-every needs -state":           {"-every", "1d"},
		"write it as 1d":                {"-every", "daily", "-state", "x"},
		"-watch waits for":              {"-watch"},
		"-ignore-text is for":           {"-ignore-text", "x"},
		"-ignore-fresh is for":          {"-ignore-fresh"},
		"the second time is the longer": {"-every", "1d-1h", "-state", "x"},
		"after 2s at the earliest":      {"-every", "1s", "-state", "x"},
		"begins with https:// or htt":   {"-source", "example.com"},
	} {
		all := append([]string{"crawl", "-agent", agent}, args...)
		polite(t, nil, append(all, "https://example.com/")...).expect(t, 2, "", want)
	}
	if _, err := os.Stat("x"); err == nil {
		t.Error("a directory was made")
	}
}

// TestARunInWhichNothingIsDueSaysWhen: on a terminal, a person asks why nothing happens.
func TestARunInWhichNothingIsDueSaysWhen(t *testing.T) {
	t.Parallel()
	s := newEdited(t, "/same")
	dir := filepath.Join(t.TempDir(), "state")
	args := []string{"crawl", "-agent", agent, "-delay", "10ms", "-state", dir, "-every", "1d", s.URL + "/front"}
	polite(t, nil, args...).expect(t, 0, "", "2 visited (2 new)")
	polite(t, nil, args...).expect(t, 0, "", "politeness crawl: no page was due, the next one is at ")
	args = append([]string{"crawl", "-sitemaps"}, args[1:]...)
	polite(t, nil, args...).expect(t, 0, "", "no page was due, the next page or sitemap is at ")
}

// TestSitemapsThatHaventChangedAre304s, by the server's log. A place without a sitemap is asked for
// once, and a sitemap of which -exclude leaves out a page is read whole.
func TestSitemapsThatHaventChangedAre304s(t *testing.T) {
	t.Parallel()
	s := newEdited(t, "/same", "/late")
	var mu sync.Mutex
	listed := "/same"
	var log []string
	s.Handle("/sitemap.xml", func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Etag", `"`+listed+`"`)
		text := fmt.Sprintf("<urlset><url><loc>%s%s</loc></url></urlset>", s.URL, listed)
		isKnown := req.Header.Get("If-None-Match") == `"`+listed+`"`
		log = append(log, fmt.Sprint(isKnown))
		http.ServeContent(w, req, "", time.Time{}, strings.NewReader(text))
	})
	s.Handle("/sitemap_index.xml", http.NotFound)
	dir := filepath.Join(t.TempDir(), "state")
	run := func(want string, args ...string) {
		t.Helper()
		all := append([]string{
			"crawl", "-agent", agent, "-delay", "10ms", "-every", "8s", "-state", dir, "-q", "-sitemaps", "-time", oneRound,
			"-follow", "none",
		}, args...)
		r := polite(t, nil, append(all, s.URL+"/same")...)
		if got := changesOf(t, r.out); r.status != 0 || got != want {
			t.Errorf("status %d, %s, want %s\n%s", r.status, got, want, r.errs)
		}
	}
	run("new same")
	time.Sleep(untilDue)
	run("")
	mu.Lock()
	listed = "/late"
	mu.Unlock()
	time.Sleep(untilDue)
	run("", "-exclude", "/late")
	time.Sleep(untilDue)
	run("new late")
	if got, want := fmt.Sprint(log), "[false true false false]"; got != want {
		t.Errorf("of the requests for the sitemap these got a 304: %s, want %s", got, want)
	}
	if asked := len(s.Visits("/sitemap_index.xml")); asked != 1 {
		t.Errorf("a place without a sitemap was asked for %d times", asked)
	}
	// A new queue has none of the pages.
	if err := os.Remove(filepath.Join(dir, "urls.db")); err != nil {
		t.Fatal(err)
	}
	run("new late, new same")
}
