package crawl

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/politenesstest"
)

// TestProgressLine: to a pipe a line every ten seconds, and one at the end; on a terminal one that
// is drawn anew.
func TestProgressLine(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		var out strings.Builder
		show := progressLine(&out, terminal)
		for second := range 25 {
			p := Progress{Summary: Summary{Outcomes: map[Outcome]int{Visited: 10 * second}, Bytes: 1500, Elapsed: time.Duration(second) * time.Second}, InFlight: 3, Hosts: 2, Rate: 10}
			p.Done = second == 24
			show(p)
		}
		want := "100 visited (10/s), 3 in flight on 2 hosts, 0.0 MB, 10s\n200 visited (10/s), 3 in flight on 2 hosts, 0.0 MB, 20s\n240 visited in 24s\n"
		if got := out.String(); !terminal && got != want || terminal && (strings.Count(got, "\n") != 1 || strings.Count(got, "\r") != 25 || strings.Count(got, "\x1b[?7l") != strings.Count(got, "\x1b[?7h")) {
			t.Errorf("terminal %v:\n%q", terminal, got)
		}
	}
}

// TestIsTerminal: the end of a terminal is one; a pipe, a file and what can't be asked are none.
func TestIsTerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	in, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer pipe.Close()
	if isTerminal(&strings.Builder{}) || isTerminal(file) || isTerminal(pipe) {
		t.Error("a string, a file or a pipe is a terminal")
	}
	file.Close()
	if isTerminal(file) {
		t.Error("a closed file is a terminal")
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this machine makes no terminals: ", err)
	}
	defer terminal.Close()
	if !isTerminal(terminal) {
		t.Error("a terminal is none")
	}
}

// TestProgressLineNamesWhoWaits: the first host, and the number of hosts.
func TestProgressLineNamesWhoWaits(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 5, 0, time.UTC)
	for _, tt := range []struct {
		hosts int
		until time.Time
		want  string
	}{
		{1, at, "0 visited (0/s), 1 in flight on 1 host, 0.0 MB, 0s; 1 host waits: a.example (it has answered 429, until 12:00:05)"},
		{0, at, "0 visited (0/s), 1 in flight on 0 hosts, 0.0 MB, 0s\x1b"},
		{2, time.Time{}, "0 visited (0/s), 1 in flight on 2 hosts, 0.0 MB, 0s; 2 hosts wait, the first: a.example (it has answered 429)"},
	} {
		var out strings.Builder
		waiting := make([]WaitingHost, tt.hosts)
		p := Progress{InFlight: 1, Hosts: tt.hosts, Waiting: slices.Values(waiting)}
		if tt.hosts > 0 {
			p.Next, p.NextAt, p.NextWhy = "a.example", tt.until, "it has answered 429"
		}
		progressLine(&out, true)(p)
		if !strings.Contains(out.String(), tt.want) {
			t.Errorf("line %q, want %q", &out, tt.want)
		}
	}
}

// TestProgressLineOfACrawlWithoutURLs: one line while those that are left are with other programs.
func TestProgressLineOfACrawlWithoutURLs(t *testing.T) {
	var out strings.Builder
	show := progressLine(&out, false)
	for second, p := range []Progress{{Open: true}, {Open: true}, {Open: true, Hosts: 1}, {Hosts: 0}, {Open: true}, {Open: true, Done: true}} {
		p.Elapsed = time.Duration(second) * time.Second
		show(p)
	}
	const alone = "0 visited, waiting: the URLs that are left are with other programs\n"
	if got, want := out.String(), alone+alone+"0 visited in 5s\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestProgressLineTellsALossOnce: state or evidence that can't be kept.
func TestProgressLineTellsALossOnce(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var out strings.Builder
		line := progressLine(&out, terminal)
		full := errors.New("state: no space left on device")
		for second := range 30 {
			p := Progress{Summary: Summary{Elapsed: time.Duration(second) * time.Second}}
			if second > 3 {
				p.Lost = full
			}
			line(p)
		}
		if n := strings.Count(out.String(), "lost: state: no space left on device; the crawl continues\n"); n != 1 {
			t.Errorf("told %d times:\n%s", n, out.String())
		}
	}
}

// TestProgressHasWhatTheTransportHasLost while the crawl runs.
func TestProgressHasWhatTheTransportHasLost(t *testing.T) {
	web := politenesstest.NewWeb()
	web.Site("https://example.com").Page("/", "page")
	dir := filepath.Join(t.TempDir(), "state")
	tr, err := politeness.New(politeness.Config{UserAgent: "CrawlTest/1.0 (+https://example.com/bot)", Base: web}.WithState(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil { // it can't be a directory any more
		t.Fatal(err)
	}
	var last Progress
	c, err := New(Config{
		Transport: tr, Visit: func(context.Context, *Page) error { return nil }, Progress: func(p Progress) { last = p },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Run(t.Context(), "https://example.com/"); err != nil {
		t.Fatal(err)
	}
	if last.Lost == nil || !strings.HasPrefix(last.Lost.Error(), "state: ") {
		t.Errorf("%+v", last)
	}
}

// TestOutcomesAreNamed: a summary names every outcome but duplicates, and the time in tenths of a second.
func TestOutcomesAreNamed(t *testing.T) {
	outcomes := map[Outcome]int{Duplicate: 1}
	for _, o := range order {
		outcomes[o]++
	}
	text := Summary{Outcomes: outcomes, Elapsed: 3249 * time.Millisecond}.String()
	if !strings.HasSuffix(text, " in 3.2s") {
		t.Error(text)
	}
	for _, o := range []Outcome{
		Visited, VisitFailed, Redirected, NotCanonical, Disallowed, Unreachable, Refused, OverBudget, Failed, Rejected,
		TooDeep, TooLong, TooMany, Invalid, NoRoom, EnoughOfHost, Left,
	} {
		if !strings.Contains(text, "1 "+string(o)) {
			t.Errorf("no %q in %s", o, text)
		}
	}
	if strings.Contains(text, string(Duplicate)) {
		t.Errorf("duplicates in %s", text)
	}
}

// TestWaitIsToldWithinTwoSeconds: who crawls one host with a crawl-delay of half a minute sees why
// nothing happens, on a terminal and in a pipe; so does who has asked for such a delay.
func TestWaitIsToldWithinTwoSeconds(t *testing.T) {
	for i := range 4 {
		terminal, own := i%2 > 0, i/2 > 0
		synctest.Test(t, func(t *testing.T) {
			web := politenesstest.NewWeb()
			web.Site("https://example.com").Robots("User-agent: *\nCrawl-delay: 30\n").Page("/", "")
			cfg := politeness.Config{UserAgent: "TestBot/1.0 (+https://example.com/bot)", Base: web}
			if own {
				cfg.Hosts.Delay.Min = 30 * time.Second
			}
			transport, err := politeness.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			var early string
			began, show := time.Now(), progressLine(&out, terminal)
			crawler, err := New(Config{
				Transport: transport, Visit: func(context.Context, *Page) error { return nil },
				Progress: func(p Progress) {
					show(p)
					if time.Since(began) <= 2*time.Second {
						early = out.String()
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := crawler.Run(t.Context(), "https://example.com/"); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(early, "waiting for example.com until ") || !strings.Contains(early, "its delay between requests") {
				t.Errorf("terminal %v: %q, in the end %q", terminal, early, &out)
			}
			if n := strings.Count(out.String(), "waiting for"); !terminal && n > 4 {
				t.Errorf("told %d times: %q", n, &out)
			}
		})
	}
}

// TestQuietHostIsTold: a URL that was answered with 503 comes back later, and until then the person
// sees what is waited for.
func TestQuietHostIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		transport, err := politeness.New(politeness.Config{UserAgent: "TestBot/1.0 (+https://example.com/bot)", Base: web})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel) // a crawl with a deadline wouldn't wait
		crawler, err := New(Config{
			Transport: transport, Visit: func(context.Context, *Page) error { return nil }, Progress: progressLine(&out, false),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := crawler.Run(ctx, "https://example.com/"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "waiting for example.com until ") || !strings.Contains(out.String(), "it has answered 503") {
			t.Errorf("told: %q", out.String())
		}
	})
}

// TestWhyAHostWaits: each host that can't be asked for more than a second is named, with what for.
func TestWhyAHostWaits(t *testing.T) {
	transport, err := politeness.New(politeness.Config{UserAgent: "TestBot/1.0 (+https://example.com/bot)"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	urls := make([]Request, 1)
	for name, tt := range map[string]struct {
		host
		until time.Duration // 0: not known
		why   string        // empty: it doesn't wait
	}{
		"asleep":                {host{wakes: in(9 * time.Second), refusals: refusals{status: 503}}, 9 * time.Second, "it has answered 503"},
		"no URL left":           {host{wakes: in(-9 * time.Second), at: in(-9 * time.Second)}, 0, ""},
		"paced":                 {host{urls: urls, at: in(9 * time.Second)}, 9 * time.Second, "its delay between requests"},
		"paced, another asleep": {host{urls: urls, at: in(9 * time.Second), wakes: in(5 * time.Second)}, 9 * time.Second, "its delay between requests"},
		"blocked":               {host{urls: urls, at: in(9 * time.Second), why: "a block"}, 9 * time.Second, "a block"},
		"soon":                  {host{urls: urls, at: in(time.Second)}, 0, ""},
		"new":                   {host{urls: urls, at: in(-9 * time.Second), place: asking, flights: 1}, 0, "its robots.txt"},
		"new, no connection":    {host{urls: urls, at: in(-9 * time.Second), place: inDue}, 0, "a connection, or a call of Visit"},
		"no connection":         {host{urls: urls, at: in(-9 * time.Second), place: inDue, robotsAsked: true}, 0, "a connection, or a call of Visit"},
		"behind a page":         {host{urls: urls, at: in(-9 * time.Second), robotsAsked: true, flights: 1}, 0, "its page in flight"},
		"behind pages":          {host{urls: urls, at: in(-9 * time.Second), robotsAsked: true, flights: 2}, 0, "its 2 pages in flight"},
		"asking for its turn":   {host{urls: urls, at: in(-9 * time.Second), robotsAsked: true, flights: 1, place: asking}, 0, "its page in flight"},
		"behind a page, lately": {host{urls: urls, at: in(-time.Second), robotsAsked: true, flights: 1}, 0, ""},
	} {
		r := &run{c: &Crawler{cfg: Config{Transport: transport}}}
		tt.key = "a.example"
		r.frontier.hosts = map[string]*host{"a.example": &tt.host}
		got := WaitingHost{}
		r.waiting(now, func(w WaitingHost) bool { got = w; return true })
		want := WaitingHost{}
		if tt.why != "" {
			want = WaitingHost{Host: "a.example", Why: tt.why}
			if tt.until > 0 {
				want.Until = in(tt.until)
			}
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if r.frontier.hosts["b.example"] = &tt.host; tt.why != "" {
			n := 0
			r.waiting(now, func(WaitingHost) bool { n++; return false })
			if n != 1 {
				t.Errorf("%s: %d hosts after the first one was enough", name, n)
			}
		}
	}
}

// TestProgressLineToAFile has no line that is drawn anew.
func TestProgressLineToAFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "progress"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ProgressLine(f)(Progress{Done: true})
	if text, err := os.ReadFile(f.Name()); err != nil || string(text) != "0 visited in 0s\n" {
		t.Errorf("%q, %v", text, err)
	}
}
