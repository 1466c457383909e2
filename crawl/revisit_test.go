package crawl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/revisit"
)

// A living is a site whose pages change, and that keeps its log.
type living struct {
	t    *testing.T
	rig  *rig
	site *politenesstest.Site

	mu    sync.Mutex
	pages map[string]http.HandlerFunc
	log   []string // "path status" of each request for a page
	told  []string // "change path" of each visit
}

// newLiving returns a site, and a crawl that visits its pages again from an hour after their visit on.
func newLiving(t *testing.T) *living {
	l := &living{t: t, rig: newRig(), pages: make(map[string]http.HandlerFunc)}
	l.site = l.rig.Site("https://example.com")
	l.rig.crawl = crawl.Config{
		Revisit: revisit.Schedule{Min: time.Hour, Max: time.Hour},
		Follow:  crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.told = append(l.told, strings.TrimSpace(fmt.Sprintf("%s %s", p.Change, p.Response.Request.URL.Path)))
			return nil
		},
	}
	return l
}

// answer has the site answer for path from now on.
func (l *living) answer(path string, h http.HandlerFunc) {
	l.mu.Lock()
	_, known := l.pages[path]
	l.pages[path] = h
	l.mu.Unlock()
	if known {
		return
	}
	l.site.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		l.mu.Lock()
		h := l.pages[path]
		l.mu.Unlock()
		s := &statused{ResponseWriter: w, status: 200}
		h(s, req)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.log = append(l.log, fmt.Sprintf("%s %d", path, s.status))
	}))
}

type statused struct {
	http.ResponseWriter

	status int
}

func (s *statused) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// version answers with HTML that has an ETag.
func version(etag, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Etag", etag)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if req.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(w, body)
	}
}

// status answers with a status alone.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// wants fails unless the site was asked for, and Visit was told, so, in any order. It forgets both.
func (l *living) wants(when, log, told string) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range []struct {
		what, want string
		got        *[]string
	}{{"the site was asked for", log, &l.log}, {"Visit was told", told, &l.told}} {
		slices.Sort(*c.got)
		if got := strings.Join(*c.got, ", "); got != c.want {
			l.t.Errorf("%s: %s %q, want %q", when, c.what, got, c.want)
		}
		*c.got = nil
	}
}

// TestRevisitTellsWhatHasChanged: a crawl by links alone finds what is new, changed, moved and gone, and
// asks for nothing else but conditionally.
func TestRevisitTellsWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLiving(t)
		l.answer("/", version(`"1"`, `<a href="/same">1</a> <a href="/edited">2</a> <a href="/gone">3</a> <a href="/moved">4</a>`))
		for _, path := range []string{"/same", "/edited", "/gone", "/moved", "/new"} {
			l.answer(path, version(`"1"`, "text of "+path))
		}
		l.rig.crawl.Watch = -1
		ctx, cancel := context.WithCancel(t.Context())
		results := map[string]int{}
		l.rig.crawl.Done = func(res crawl.Result) {
			results[fmt.Sprintf("%s %s", res.Outcome, res.Change)]++
		}
		ended := make(chan crawl.Summary)
		go func() { ended <- l.rig.run(ctx, t, "https://example.com/") }()
		time.Sleep(59 * time.Minute)
		l.wants("at first", "/ 200, /edited 200, /gone 200, /moved 200, /same 200",
			"new /, new /edited, new /gone, new /moved, new /same")
		l.answer("/edited", version(`"2"`, "another text"))
		l.answer("/gone", status(http.StatusGone))
		l.answer("/moved", func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "/new", http.StatusMovedPermanently)
		})
		time.Sleep(time.Hour)
		l.wants("an hour later", "/ 304, /edited 200, /gone 410, /moved 301, /new 200, /same 304",
			"changed /edited, gone /gone, new /new")
		time.Sleep(time.Hour)
		// What has moved is asked for again after Max, which is an hour, and its target is known.
		l.wants("two hours later", "/ 304, /edited 304, /moved 301, /new 304, /same 304", "")
		time.Sleep(24 * time.Hour)
		l.mu.Lock()
		isAsked := slices.Contains(l.log, "/gone 410")
		l.mu.Unlock()
		if !isAsked {
			t.Errorf("a page that is gone isn't asked for once more after a day")
		}
		cancel()
		s := <-ended
		for what, want := range map[string]int{"visited new": 6, "visited changed": 1, "visited gone": 1, "redirected moved": 1} {
			if results[what] != want {
				t.Errorf("%d results %s, want %d; all: %v", results[what], what, want, results)
			}
		}
		if s.Outcomes[crawl.Unchanged] == 0 || s.NotModified != s.Outcomes[crawl.Unchanged]-1 {
			t.Errorf("%d unchanged, %d by 304", s.Outcomes[crawl.Unchanged], s.NotModified)
		}
		if text := s.String(); !strings.Contains(text, "(6 new, 1 changed, 1 gone)") || !strings.Contains(text, "1 moved") {
			t.Errorf("summary %q", text)
		}
	})
}

// TestTheSameTextIsUnchanged, whatever else of a page differs; new links of it are found.
func TestTheSameTextIsUnchanged(t *testing.T) {
	const before = `<title>T</title><p>Ten <b>apples</b> of <a href="/other">1</a>.</p><img src="/a.png?1"><aside>now</aside>`
	for name, c := range map[string]struct {
		after string
		want  string
	}{
		"a script":        {before + `<script>var token = "x17"</script>`, ""},
		"a comment":       {before + `<!-- served by node 7 -->`, ""},
		"an attribute":    {strings.Replace(before, "<p>", `<p data-nonce="8">`, 1), ""},
		"a hidden field":  {before + `<form><input type=hidden name=csrf value=zzz></form>`, ""},
		"white space":     {strings.ReplaceAll(before, " ", "\n\t "), ""},
		"an image query":  {strings.Replace(before, "?1", "?2", 1), ""},
		"a link's query":  {strings.Replace(before, "/other", "/other?session=5", 1), "new /other"},
		"noscript":        {before + `<noscript>old browser</noscript>`, ""},
		"a word":          {strings.Replace(before, "apples", "pears", 1), "changed /"},
		"a number":        {strings.Replace(before, ">1<", ">2<", 1), "changed /"},
		"an image":        {strings.Replace(before, "a.png", "b.png", 1), "changed /"},
		"a link":          {strings.Replace(before, "/other", "/new", 1), "changed /, new /new"},
		"an aside":        {strings.Replace(before, "now", "later", 1), "changed /"},
		"its title alone": {strings.Replace(before, "<title>T", "<title>U", 1), "changed /"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLiving(t)
				l.rig.crawl.Watch = time.Hour
				l.answer("/", page(before))
				l.answer("/other", version(`"1"`, "other"))
				l.answer("/new", version(`"1"`, "new"))
				ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
				defer cancel()
				go func() {
					time.Sleep(30 * time.Minute)
					l.answer("/", page(c.after))
					l.mu.Lock()
					l.told = nil
					l.mu.Unlock()
				}()
				l.rig.run(ctx, t, "https://example.com/")
				slices.Sort(l.told)
				if got := strings.Join(l.told, ", "); got != c.want {
					t.Errorf("Visit was told %q, want %q", got, c.want)
				}
			})
		})
	}
}

// TestASmallChangeBringsNoEarlierVisit: numbers change each time, or the text beside the main one. Each
// is told, and by the formula the page comes as rarely as if it hadn't changed.
func TestASmallChangeBringsNoEarlierVisit(t *testing.T) {
	for name, body := range map[string]func(visit int) string{
		"a clock":  func(visit int) string { return fmt.Sprintf("<p>A story.</p>Made at %d", visit) },
		"an aside": func(visit int) string { return "<p>A story.</p><aside>" + strings.Repeat("news ", visit) + "</aside>" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLiving(t)
				l.rig.crawl.Revisit = revisit.Schedule{Min: time.Hour}
				l.rig.crawl.Watch = -1
				visits := 0
				l.answer("/", func(w http.ResponseWriter, req *http.Request) {
					visits++
					page(body(visits))(w, req)
				})
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Hour)
				defer cancel()
				l.rig.run(ctx, t, "https://example.com/")
				// The first is after 13 h, as for a page that is a week old.
				if visits < 6 || visits > 8 || len(l.told) != visits {
					t.Errorf("%d visits in 100 h, and %d were told", visits, len(l.told))
				}
			})
		})
	}
}

// TestWhenWhatIsntAPageIsDueAgain: by each outcome that has no page, or no version of one.
func TestWhenWhatIsntAPageIsDueAgain(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		least, disallowed, rejected, moved, failed time.Duration
	}{
		"an hour":  {least: time.Hour, disallowed: 7 * day, rejected: 20 * day, moved: 20 * day, failed: time.Hour},
		"ten days": {least: 10 * day, disallowed: 10 * day, rejected: 20 * day, moved: 20 * day, failed: 10 * day},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLiving(t)
				l.rig.politeness.Response.MaxBytes = 1000
				l.rig.crawl.Revisit = revisit.Schedule{Min: c.least, Max: 20 * day}
				l.rig.crawl.Follow = nil
				l.rig.crawl.Visit = func(context.Context, *crawl.Page) error { return errors.New("the disk is full") }
				due := map[string]time.Duration{}
				l.rig.crawl.Done = func(res crawl.Result) {
					due[string(res.Outcome)] = time.Until(res.Again).Round(time.Minute)
				}
				l.site.Robots("User-agent: *\nDisallow: /no\n")
				l.answer("/", version(`"1"`, "start"))
				l.answer("/no", version(`"1"`, "no"))
				l.answer("/moved", func(w http.ResponseWriter, req *http.Request) {
					http.Redirect(w, req, "/", http.StatusMovedPermanently)
				})
				l.answer("/long", version(`"1"`, strings.Repeat("long ", 1000)))
				site := "https://example.com/"
				l.rig.run(t.Context(), t, site, site+"no", site+"moved", site+"long")
				want := map[string]time.Duration{
					"disallowed": c.disallowed, "rejected": c.rejected, "redirected": c.moved, "visit failed": c.failed,
				}
				delete(due, "duplicate")
				if !maps.Equal(due, want) {
					t.Errorf("due again after %v, want %v", due, want)
				}
			})
		})
	}
}

// TestCompareIsWhatCounts: a program says what of a page is compared.
func TestCompareIsWhatCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLiving(t)
		l.rig.crawl.Watch = time.Hour
		l.rig.crawl.Compare = func(p *crawl.Page) []byte {
			before, _, _ := strings.Cut(string(p.Compared()), "Page made at")
			return []byte(before)
		}
		l.answer("/", func(w http.ResponseWriter, req *http.Request) {
			page("<p>Some   <i>te</i>xt.</p>Page made at "+time.Now().String())(w, req)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour+time.Minute)
		defer cancel()
		l.rig.run(ctx, t, "https://example.com/")
		l.wants("after three hours", "/ 200, / 200, / 200, / 200", "new /")
	})
}

// TestAFailedVisitIsMadeUp: what was lost comes with the next answer, and not while that page is fresh.
func TestAFailedVisitIsMadeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLiving(t)
		l.rig.crawl.Watch = -1
		visits := 0
		l.rig.crawl.Visit = func(context.Context, *crawl.Page) error {
			visits++
			if visits == 2 {
				return errors.New("the disk is full")
			}
			return nil
		}
		l.answer("/", version(`"1"`, "first"))
		ctx, cancel := context.WithTimeout(t.Context(), 260*time.Minute)
		defer cancel()
		go func() {
			time.Sleep(30 * time.Minute)
			l.answer("/", version(`"2"`, "second"))
		}()
		l.rig.run(ctx, t, "https://example.com/")
		if visits != 3 {
			t.Errorf("%d visits, want one of the first version, and two of the second", visits)
		}
		l.wants("in four hours", "/ 200, / 200, / 200, / 304", "")
	})
}

// TestSourcesArePolledByTheQueue: Discover is called each Min, a page is asked for when it was
// modified, and no page earlier than Min.
func TestSourcesArePolledByTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLiving(t)
		l.rig.crawl.Revisit = revisit.Schedule{Min: time.Hour}
		l.rig.crawl.Watch = -1
		l.rig.crawl.Follow = nil
		var mu sync.Mutex
		modified := time.Now().Add(-48 * time.Hour)
		calls := 0
		l.rig.crawl.Discover = func(_ context.Context, url string) iter.Seq[crawl.Request] {
			return func(yield func(crawl.Request) bool) {
				mu.Lock()
				defer mu.Unlock()
				calls++
				if url != "https://example.com/" {
					t.Errorf("Discover is called with %s", url)
				}
				yield(crawl.Request{URL: "https://example.com/listed", Modified: modified})
			}
		}
		l.answer("/", version(`"1"`, "start"))
		l.answer("/listed", version(`"1"`, "listed"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan crawl.Summary)
		go func() { ended <- l.rig.run(ctx, t, "https://example.com/") }()
		time.Sleep(90 * time.Minute)
		l.wants("at first", "/ 200, /listed 200", "new /, new /listed")
		l.answer("/listed", version(`"2"`, "edited"))
		mu.Lock()
		modified = time.Now()
		mu.Unlock()
		time.Sleep(time.Hour + 20*time.Minute)
		l.wants("when it was modified", "/listed 200", "changed /listed")
		time.Sleep(10 * time.Hour)
		cancel()
		s := <-ended
		if calls < 11 || calls > 13 {
			t.Errorf("Discover was called %d times in 13 hours", calls)
		}
		for _, o := range []crawl.Outcome{crawl.Left, crawl.Invalid, crawl.Failed} {
			if s.Outcomes[o] > 0 {
				t.Errorf("%d URLs are %s", s.Outcomes[o], o)
			}
		}
	})
}

// TestNewRefusesWhatCannotWork, with the way out.
func TestNewRefusesWhatCannotWork(t *testing.T) {
	known := func(context.Context, string) (crawl.Validators, error) { return crawl.Validators{}, nil }
	hourly := revisit.Schedule{Min: time.Hour}
	for want, cfg := range map[string]crawl.Config{
		"Set Config.Revisit in place of Known":      {Known: known, Follow: crawl.SameHost},
		"leave Known out":                           {Known: known, Revisit: hourly},
		"Config.Watch is set without":               {Watch: time.Hour},
		"needs a Queue that is a Recurring, and":    {Revisit: hourly, Queue: struct{ crawl.Queue }{}},
		"Config.Revisit: revisit: Min is 3.6µs: wa": {Revisit: revisit.Schedule{Min: 3600}},
	} {
		cfg.UserAgent = userAgent
		cfg.Visit = func(context.Context, *crawl.Page) error { return nil }
		if _, err := crawl.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New returned %v, want %q", err, want)
		}
	}
}

// TestAProofIsNoRepeat: while a host refuses, a page that was served before is asked for within Min. Its
// requests promise nothing, and the judge knows what they were for.
func TestAProofIsNoRepeat(t *testing.T) {
	t.Run("of new pages", func(t *testing.T) { proves(t, 20) })
	t.Run("of known pages", func(t *testing.T) { proves(t, 60) })
}

// proves crawls 40 pages each 12 hours. After some requests their host bans it for three hours.
func proves(t *testing.T, requests int) {
	synctest.Test(t, func(t *testing.T) {
		l := newLiving(t)
		served := 0
		var since time.Time // of the ban
		isBanned := func() bool {
			if served < requests {
				served++
				return false
			}
			if since.IsZero() {
				since = time.Now()
			}
			return time.Since(since) < 3*time.Hour
		}
		var urls []string
		for i := range 40 {
			path := fmt.Sprintf("/%d", i)
			served := version(`"1"`, "text of "+path)
			l.answer(path, func(w http.ResponseWriter, req *http.Request) {
				if isBanned() {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				served(w, req)
			})
			urls = append(urls, "https://example.com"+path)
		}
		prove := l.record(t)
		l.rig.crawl.Revisit = revisit.Schedule{Min: 12 * time.Hour, Max: 12 * time.Hour}
		l.rig.crawl.Watch = -1
		ctx, cancel := context.WithTimeout(t.Context(), 23*time.Hour)
		defer cancel()
		s := l.rig.run(ctx, t, urls...)
		if s.Outcomes[crawl.Visited] != len(urls) || s.Outcomes[crawl.Unchanged] < len(urls) {
			t.Errorf("%v", s)
		}
		report := prove()
		if h := report.Hosts[0]; h.Proofs < 5 || h.Repeats > 0 {
			t.Errorf("%d proofs and %d repeats of %d requests", h.Proofs, h.Repeats, h.Starts)
		}
	})
}

// record has the evidence of the crawl recorded. The returned prove is called after the crawl. It fails
// t unless the judge proves the log, and returns the judge's report.
func (l *living) record(t *testing.T) (prove func() *audit.Report) {
	t.Helper()
	var log bytes.Buffer
	sink, err := evidence.NewLog(&log, evidence.LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	l.rig.politeness.Evidence = sink
	return func() *audit.Report {
		t.Helper()
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, `"proof":`) && strings.Contains(line, `"due":`) {
				t.Fatalf("a proof is promised to be due: %s", line)
			}
		}
		report, err := audit.Check(&log)
		if err != nil || !report.OK() {
			t.Fatalf("the log isn't proved: %v\n%v", err, report)
		}
		return report
	}
}

// TestIgnoreFreshPromisesNothing: pages are fetched while they are fresh, and the log says so of none.
func TestIgnoreFreshPromisesNothing(t *testing.T) {
	for _, ignores := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLiving(t)
			l.rig.crawl.Revisit.IgnoreFresh = ignores
			l.rig.crawl.Watch = -1
			l.answer("/", func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Cache-Control", "max-age=10800")
				version(`"1"`, "fresh")(w, req)
			})
			prove := l.record(t)
			ctx, cancel := context.WithTimeout(t.Context(), 9*time.Hour)
			defer cancel()
			l.rig.run(ctx, t, "https://example.com/")
			report := prove()
			proved := report.Promise(dueKept).Proved
			if often := len(l.log) > 4; often != ignores || (proved > 0) == ignores {
				t.Errorf("IgnoreFresh %t: %d requests, %d of them promised", ignores, len(l.log), proved)
			}
		})
	}
}

// TestServersThatFailAtConditions: a page whose server answers conditions with an error is asked for
// whole the next time, so that its changes are found. The judge doesn't miss the conditions.
func TestServersThatFailAtConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLiving(t)
		prove := l.record(t)
		l.rig.crawl.Watch = 8 * time.Hour
		began := time.Now()
		urls := []string{"https://example.com/well"}
		l.answer("/well", version(`"1"`, "it never changes"))
		for _, code := range []int{400, 412, 500} {
			path := fmt.Sprintf("/%d", code)
			urls = append(urls, "https://example.com"+path)
			l.answer(path, func(w http.ResponseWriter, req *http.Request) {
				if req.Header.Get("If-None-Match") != "" {
					w.WriteHeader(code)
					return
				}
				text := "the first text of " + path
				if time.Since(began) > 30*time.Minute {
					text = "the second text of " + path
				}
				version(`"1"`, text)(w, req)
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Hour)
		defer cancel()
		l.rig.run(ctx, t, urls...)
		for _, path := range []string{"/400", "/412", "/500"} {
			if !slices.Contains(l.told, "changed "+path) {
				t.Errorf("the change of %s wasn't found: %q", path, l.told)
			}
		}
		prove()
	})
}

// TestAFailedVisitPromisesNothing: what a visit has lost isn't remembered, nor its validators. The judge
// knows only that the response had some.
func TestAFailedVisitPromisesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLiving(t)
		prove := l.record(t)
		l.rig.crawl.Watch = 2 * time.Hour
		told := 0
		l.rig.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			told++
			if told == 2 {
				return errors.New("the disk is full")
			}
			return nil
		}
		l.answer("/", page("first"))
		time.AfterFunc(30*time.Minute, func() { l.answer("/", version(`"2"`, "second")) })
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Hour)
		defer cancel()
		l.rig.run(ctx, t, "https://example.com/")
		l.wants("in four hours", "/ 200, / 200, / 200, / 304", "")
		prove()
	})
}

// TestPreparedRequestsRemember: a page that Prepare asks for by another method, or with conditions of
// its own, is new once, and gone when it is.
func TestPreparedRequestsRemember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLiving(t)
		l.rig.crawl.Watch = 2 * time.Hour
		l.rig.crawl.Prepare = func(r crawl.Request, req *http.Request) error {
			switch req.URL.Path {
			case "/head":
				req.Method = http.MethodHead
			case "/range":
				req.Header.Set("Range", "bytes=0-99")
			case "/own":
				req.Header.Set("If-None-Match", `"own"`)
			}
			return nil
		}
		l.answer("/own", func(w http.ResponseWriter, req *http.Request) {
			if sent := req.Header["If-None-Match"]; !slices.Equal(sent, []string{`"own"`}) {
				t.Errorf("If-None-Match %q", sent)
			}
			version(`"1"`, "a third page")(w, req)
		})
		l.answer("/head", page("a page"))
		l.answer("/range", page("another page"))
		time.AfterFunc(150*time.Minute, func() {
			l.answer("/head", status(http.StatusNotFound))
			l.answer("/range", status(http.StatusGone))
		})
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Hour)
		defer cancel()
		l.rig.run(ctx, t, "https://example.com/head", "https://example.com/range", "https://example.com/own")
		l.wants("in four hours", "/head 200, /head 200, /head 200, /head 404, /own 200, /own 200, /own 200, /own 200, "+
			"/range 200, /range 200, /range 200, /range 410",
			"gone /head, gone /range, new /head, new /own, new /range")
	})
}

// TestAPartIsNoVersion: of a body that is cut off nothing is remembered, so the next request has the old
// conditions. Visit gets a part only if the site has sent no more, as with a gzip that doesn't end.
func TestAPartIsNoVersion(t *testing.T) {
	for name, c := range map[string]struct {
		part http.HandlerFunc
		told string
	}{
		"by the network": {func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Length", "1000")
			version(`"2"`, "sec")(w, req)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "changed /, new /"},
		"by the site": {func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			version(`"2"`, packed(t, "gzip", "<p>"+noise(100_000))[:50_000])(w, req)
		}, "/, changed /, new /"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLiving(t)
				l.rig.crawl.Watch = -1
				l.rig.crawl.Tries = 1
				var conditions []string
				l.site.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					conditions = append(conditions, req.Header.Get("If-None-Match"))
					switch len(conditions) {
					case 1:
						version(`"1"`, "first")(w, req)
					case 2:
						c.part(w, req)
					default:
						version(`"2"`, "second")(w, req)
					}
				}))
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
				defer cancel()
				l.rig.run(ctx, t, "https://example.com/")
				if len(conditions) < 4 {
					t.Fatalf("asked %d times", len(conditions))
				}
				want := []string{"", `"1"`, `"1"`, `"2"`}
				if !slices.Equal(conditions[:4], want) {
					t.Errorf("If-None-Match %q, want %q", conditions, want)
				}
				slices.Sort(l.told)
				if got := strings.Join(l.told, ", "); got != c.told {
					t.Errorf("Visit was told %q, want %q", got, c.told)
				}
			})
		})
	}
}

// TestA304ThatNobodyAskedFor is no version: the page has failed, and is asked for whole.
func TestA304ThatNobodyAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLiving(t)
		l.rig.crawl.Watch = -1
		asked := 0
		l.answer("/", func(w http.ResponseWriter, req *http.Request) {
			asked++
			if req.Header.Get("If-None-Match") != "" && asked < 3 {
				t.Errorf("request %d has a condition", asked)
			}
			if asked == 1 {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			version(`"1"`, "first")(w, req)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Hour)
		defer cancel()
		outcomes := map[crawl.Outcome]int{}
		l.rig.crawl.Done = func(res crawl.Result) { outcomes[res.Outcome]++ }
		l.rig.run(ctx, t, "https://example.com/")
		if outcomes[crawl.Failed] != 1 || outcomes[crawl.Visited] != 1 || outcomes[crawl.Unchanged] == 0 {
			t.Errorf("%v", outcomes)
		}
		l.wants("in four hours", "/ 200, / 304, / 304, / 304", "new /")
	})
}

// TestA304ToARequestForTheWholePage is no version of a known page either. It was gone, so it is asked for
// whole.
func TestA304ToARequestForTheWholePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLiving(t)
		l.rig.crawl.Watch = -1
		var conditions []string
		l.answer("/", func(w http.ResponseWriter, req *http.Request) {
			conditions = append(conditions, req.Header.Get("If-None-Match"))
			switch len(conditions) {
			case 2:
				w.WriteHeader(http.StatusNotFound)
			case 3:
				w.WriteHeader(http.StatusNotModified)
			default:
				version(`"1"`, "first")(w, req)
			}
		})
		failed := 0
		l.rig.crawl.Done = func(res crawl.Result) {
			if res.Outcome == crawl.Failed {
				failed++
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 28*time.Hour)
		defer cancel()
		l.rig.run(ctx, t, "https://example.com/")
		if failed != 1 {
			t.Errorf("failed %d times", failed)
		}
		want := []string{"", `"1"`, "", "", `"1"`}
		if len(conditions) < len(want) || !slices.Equal(conditions[:len(want)], want) {
			t.Errorf("If-None-Match %q, want %q", conditions, want)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if got := strings.Join(l.told, ", "); got != "new /, gone /, new /" {
			t.Errorf("Visit was told %q", got)
		}
	})
}

// TestASitemapThatIsAlwaysNew costs two requests a page that bring nothing.
func TestASitemapThatIsAlwaysNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLiving(t)
		l.rig.crawl.Revisit = revisit.Schedule{Min: time.Hour}
		l.rig.crawl.Watch = -1
		var urls []string
		for i := range 20 {
			path := fmt.Sprintf("/%d", i)
			urls = append(urls, "https://example.com"+path)
			modified := time.Now().Add(-365 * 24 * time.Hour).UTC().Format(http.TimeFormat)
			served := version(`"1"`, "text of "+path)
			l.answer(path, func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Last-Modified", modified)
				served(w, req)
			})
		}
		l.rig.crawl.Discover = listed(func(context.Context, string) (reqs []crawl.Request) {
			for _, url := range urls {
				reqs = append(reqs, crawl.Request{URL: url, Modified: time.Now()})
			}
			return reqs
		})
		// By the formula they are due after 93 hours.
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Hour)
		defer cancel()
		l.rig.run(ctx, t, urls...)
		if got, want := len(l.log), 3*len(urls); got != want {
			t.Errorf("%d requests, want %d", got, want)
		}
	})
}

// TestAHostWithoutSources is asked for them as for a page that is gone, and each Min once it has some.
func TestAHostWithoutSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		l := newLiving(t)
		l.rig.crawl.Revisit = revisit.Schedule{Min: 12 * time.Hour}
		l.rig.crawl.Watch = -1
		began := time.Now()
		var days []int
		l.rig.crawl.Discover = listed(func(context.Context, string) (reqs []crawl.Request) {
			past := time.Since(began)
			days = append(days, int((past+12*time.Hour)/day))
			if past > 70*day {
				reqs = append(reqs, crawl.Request{URL: "https://example.com/listed"})
			}
			return reqs
		})
		l.answer("/", version(`"1"`, "start"))
		l.answer("/listed", version(`"1"`, "listed"))
		ctx, cancel := context.WithTimeout(t.Context(), 73*day)
		defer cancel()
		l.rig.run(ctx, t, "https://example.com/")
		early := days[:min(len(days), 6)]
		if !slices.Equal(early, []int{0, 1, 4, 13, 40, 70}) && !slices.Equal(early, []int{0, 1, 4, 13, 40, 71}) {
			t.Errorf("Discover was called on the days %v", days)
		}
		if late := len(days) - 6; late < 2 {
			t.Errorf("with sources Discover was called %d times in two days: %v", late, days)
		}
	})
}

// TestBrokenPagesAloneAreAskedForRarely: where nothing but pages that fail is due, each is asked for at
// most Tries times whenever it is due. The crawl knows no page of the host then that it was served.
func TestBrokenPagesAloneAreAskedForRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLiving(t)
		paths := []string{"/a", "/b"}
		var urls []string
		for _, path := range paths {
			l.answer(path, version(`"1"`, "the page "+path))
			urls = append(urls, "https://example.com"+path)
		}
		time.AfterFunc(90*time.Minute, func() {
			for _, path := range paths {
				l.answer(path, status(http.StatusInternalServerError))
			}
		})
		// At first other pages show the host's limiter that only these fail. Then these alone are due.
		for i := range 5 {
			path := fmt.Sprintf("/good/%d", i)
			urls = append(urls, "https://example.com"+path)
			began := time.Now()
			l.answer(path, func(w http.ResponseWriter, req *http.Request) {
				if time.Since(began) > 6*time.Hour {
					w.Header().Set("Cache-Control", "max-age=864000")
				}
				version(`"1"`, "the page "+path)(w, req)
			})
		}
		const hours = 24
		l.rig.crawl.Watch = hours * time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), hours*time.Hour)
		defer cancel()
		l.rig.run(ctx, t, urls...)
		const tries = 5
		if most := hours * tries * len(urls); len(l.log) > most {
			t.Errorf("%d requests in %d hours, want %d at most", len(l.log), hours, most)
		}
	})
}

// TestSourcesWithoutNews are asked for each Min all the same, if Discover yields the zero Request. It is
// no URL, and a Request without a URL that has anything else is still a mistake.
func TestSourcesWithoutNews(t *testing.T) {
	for name, second := range map[string]crawl.Request{"none": {}, "mistaken": {Priority: 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLiving(t)
				l.rig.crawl.Revisit = revisit.Schedule{Min: time.Hour, Max: 30 * 24 * time.Hour}
				l.rig.crawl.Watch = -1
				calls := 0
				l.rig.crawl.Discover = listed(func(context.Context, string) []crawl.Request {
					calls++
					if calls == 1 {
						return []crawl.Request{{URL: "https://example.com/listed"}}
					}
					return []crawl.Request{second}
				})
				l.answer("/", version(`"1"`, "start"))
				l.answer("/listed", version(`"1"`, "listed"))
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Hour+time.Minute)
				defer cancel()
				s := l.rig.run(ctx, t, "https://example.com/")
				if calls < 99 || calls > 101 {
					t.Errorf("Discover was called %d times in 100 hours", calls)
				}
				mistakes := 0
				if second != (crawl.Request{}) {
					mistakes = calls - 1
				}
				if got := s.Outcomes[crawl.Invalid]; got != mistakes {
					t.Errorf("%d URLs are invalid, want %d", got, mistakes)
				}
			})
		})
	}
}
