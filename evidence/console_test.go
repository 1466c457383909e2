package evidence_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/logtest"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestDecisionStringIsALineForPeople(t *testing.T) {
	for _, test := range []struct {
		d    evidence.Decision
		want string
	}{
		{
			evidence.Decision{Type: evidence.Waiting, Time: noon, URL: "https://example.com/", Reason: "crawl-delay of 30s", Until: noon.Add(30 * time.Second)},
			"12:00:00 waiting       https://example.com/: crawl-delay of 30s, until 12:00:30 (in 30s)",
		},
		{
			evidence.Decision{Type: evidence.BlockedByRobots, Time: noon, URL: "https://example.com/a", Line: 2, MatchedRule: "Disallow: /a"},
			"12:00:00 disallowed    https://example.com/a: robots.txt, line 2: Disallow: /a",
		},
		{
			evidence.Decision{Type: evidence.BlockedByRobots, Time: noon, URL: "https://example.com/a", Reason: "connection refused", RetryAt: noon.Add(5 * time.Minute)},
			"12:00:00 not sent      https://example.com/a: no robots.txt (connection refused), retry at 12:05:00 (in 5m0s)",
		},
		{
			evidence.Decision{Type: evidence.Fetched, Time: noon, URL: "https://u:secret@example.com/", Status: 200, Bytes: 12345, Duration: 1234 * time.Millisecond},
			"12:00:00 fetched       https://example.com/: 200, 12 kB in 1.23s",
		},
		{
			evidence.Decision{Type: evidence.Fetched, Time: noon, URL: "https://example.com/", Status: 200, Bytes: 10_000_000, Duration: 48 * time.Hour},
			"12:00:00 fetched       https://example.com/: 200, 10 MB in 48h0m0s",
		},
		{
			evidence.Decision{
				Type: evidence.HostBlocked, Time: noon, URL: "https://example.com/", Status: 429, Reason: "by Retry-After",
				Until: noon.Add(24 * time.Hour), RetryAt: noon.Add(24 * time.Hour),
			},
			"12:00:00 host blocked  https://example.com/: it answered 429, by Retry-After, until 2026-11-22 12:00 (in 24h0m0s)",
		},
		{
			evidence.Decision{Type: evidence.SlotTimeout, Time: noon, URL: "https://example.com/", Reason: "host busy", RetryAt: noon.Add(5 * time.Second)},
			"12:00:00 not started   https://example.com/: host busy, retry at 12:00:05 (in 5s)",
		},
		{
			evidence.Decision{Type: evidence.BudgetExceeded, Time: noon, Host: "example.com", Limit: "pages_per_host", Used: 5, Max: 5},
			"12:00:00 budget spent  example.com: 5 of 5 pages per host",
		},
		{
			evidence.Decision{Type: evidence.Failed, Time: noon, URL: "https://example.com/\x1b[31m", Err: "no\nanswer\u202e"},
			`12:00:00 failed        https://example.com/\x1b[31m: no\nanswer\u202e`,
		},
		{
			evidence.Decision{Type: evidence.HostBlocked, Time: noon, Host: "example.com", Reason: "no response", Until: noon.Add(time.Second)},
			"12:00:00 host blocked  example.com: no response, until 12:00:01 (in 1s)",
		},
		{
			evidence.Decision{Type: evidence.HostBlocked, Time: noon, Host: "example.com", Kind: "unsure", Reason: "by the backoff policy"},
			"12:00:00 host blocked  example.com: no response, by the backoff policy",
		},
		{
			evidence.Decision{Type: evidence.HostBlocked, Time: noon, Host: "example.com", Status: 503, Until: noon},
			"12:00:00 host blocked  example.com: it answered 503, until 12:00:00",
		},
		{
			evidence.Decision{Type: evidence.HostBlocked, Time: noon, Host: "example.com", Until: noon.Add(-time.Second)},
			"12:00:00 host blocked  example.com: until 11:59:59",
		},
		{
			evidence.Decision{Type: evidence.HostBlocked, Time: noon, Host: "example.com", Until: noon.Add(71 * time.Hour)},
			"12:00:00 host blocked  example.com: until 2026-11-24 11:00 (in 71h0m0s)",
		},
		{
			evidence.Decision{Type: evidence.RobotsAllowed, Time: noon, URL: "https://example.com/a", Line: 3, MatchedRule: "Allow: /a"},
			"12:00:00 allowed       https://example.com/a: robots.txt, line 3: Allow: /a",
		},
		{evidence.Decision{Type: evidence.RobotsAllowed, Time: noon, URL: "https://example.com/a"}, "12:00:00 allowed       https://example.com/a"},
		{evidence.Decision{Type: evidence.Started, Time: noon, URL: "https://example.com/"}, "12:00:00 started       https://example.com/"},
		{
			evidence.Decision{Type: evidence.RobotsUnreachable, Time: noon, Host: "example.com", Err: "no response"},
			"12:00:00 no robots.txt example.com: no response",
		},
		{
			evidence.Decision{Type: evidence.ResponseRejected, Time: noon, URL: "https://example.com/", Err: "too long"},
			"12:00:00 rejected      https://example.com/: too long",
		},
		{
			evidence.Decision{Type: evidence.Started, Time: noon, URL: "https://example.com/", WaitSlot: time.Second, WaitDelay: 2 * time.Second, WaitBlock: 4 * time.Second},
			"12:00:00 started       https://example.com/: after 7s",
		},
		{evidence.Decision{Type: "of_the_future", Reason: "why"}, "of the future why"},
		{evidence.Decision{}, "              "},
	} {
		if got := test.d.String(); got != test.want {
			t.Errorf("got  %q\nwant %q", got, test.want)
		}
	}
}

// lines returns what a Console wrote.
func lines(b *bytes.Buffer) []string {
	return strings.FieldsFunc(b.String(), func(r rune) bool { return r == '\n' })
}

func TestConsoleIsQuietAboutTheRoutine(t *testing.T) {
	for _, typ := range allTypes {
		var quiet, all bytes.Buffer
		sink := evidence.Multi(evidence.Console(&quiet), evidence.NewConsole(&all, evidence.ConsoleConfig{All: true}))
		sink.Record(t.Context(), evidence.Decision{Type: typ, Time: noon, Status: 200, URL: "https://example.com/", Host: "example.com"})
		want := 1
		switch typ {
		case evidence.RobotsAllowed, evidence.Started, evidence.Fetched, evidence.Resent, evidence.RobotsFetched, evidence.RobotsRevalidated,
			evidence.PolicyStated, evidence.LogClosed, evidence.Checkpoint, evidence.StaysOpen:
			want = 0
		}
		if n := len(lines(&quiet)); n != want {
			t.Errorf("%s: %d lines, want %d", typ, n, want)
		}
		if n := len(lines(&all)); n != 1 {
			t.Errorf("%s: %d lines, want all", typ, n)
		}
	}
	for _, status := range []int{400, 404, 500} {
		var b bytes.Buffer
		evidence.Console(&b).Record(t.Context(), evidence.Decision{Type: evidence.Fetched, Status: status, URL: "https://example.com/"})
		if len(lines(&b)) != 1 {
			t.Errorf("a %d: %q", status, &b)
		}
	}
}

func TestConsoleTellsOfEachWaitOnce(t *testing.T) {
	var b bytes.Buffer
	sink := evidence.Console(&b)
	say := func(after time.Duration, host, hold string) {
		sink.Record(t.Context(), evidence.Decision{Type: evidence.Waiting, Time: noon.Add(after), Host: host, Hold: hold})
	}
	for i := range 59 {
		say(time.Duration(i)*time.Second, "a.example", "delay")
	}
	say(59*time.Second, "b.example", "delay")
	say(59*time.Second, "a.example", "block")
	say(60*time.Second, "a.example", "block")
	say(61*time.Second, "b.example", "delay")
	say(119*time.Second-1, "b.example", "delay")
	say(119*time.Second, "b.example", "delay")
	say(3*time.Minute, "a.example", "block")
	var told []string
	for _, line := range lines(&b) {
		told = append(told, line[:8]+line[len(line)-10:])
	}
	if got := strings.Join(told, ","); got != "12:00:00 a.example,12:00:59 b.example,12:00:59 a.example,12:01:59 b.example,12:03:00 a.example" {
		t.Errorf("told at %s", got)
	}
}

// TestConsoleRemembersTheLastWaits: the waits of very many hosts make none of the last hosts new.
func TestConsoleRemembersTheLastWaits(t *testing.T) {
	var b bytes.Buffer
	sink := evidence.Console(&b)
	const hosts = 10_050 // more than it remembers
	for round := range 2 {
		for i := range hosts {
			if round == 0 || i >= 100 {
				sink.Record(t.Context(), evidence.Decision{
					Type: evidence.Waiting, Time: noon.Add(time.Duration(round) * time.Second), Host: fmt.Sprintf("%d.example", i), Hold: "delay",
				})
			}
		}
	}
	if n := len(lines(&b)); n != hosts {
		t.Errorf("%d lines for %d hosts", n, hosts)
	}
}

func TestConsoleCountsWhatIsFetched(t *testing.T) {
	var b bytes.Buffer
	sink := evidence.Console(&b)
	for i := range 25 {
		page := evidence.Decision{
			Type: evidence.Fetched, Time: noon.Add(time.Duration(i) * time.Second), Status: 200, Bytes: 1000,
			URL: fmt.Sprintf("https://example.com/%d", i),
		}
		start, robotsTxt := page, page
		start.Type, start.Status, start.Bytes, robotsTxt.RobotsTxt = evidence.Started, 0, 0, true
		for _, d := range []evidence.Decision{start, page, robotsTxt} {
			sink.Record(t.Context(), d)
		}
	}
	if got, want := b.String(), "12:00:10 fetched       11 pages, 11 kB in 10s\n12:00:20 fetched       10 pages, 10 kB in 10s\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestConsoleIsPlainWhereNoTerminalIs: no escape sequence reaches a file.
// TestConsoleShowsASlowPage: what has sent its body for half a minute is why nothing happened.
func TestConsoleShowsASlowPage(t *testing.T) {
	var b bytes.Buffer
	sink := evidence.Console(&b)
	for _, took := range []time.Duration{9 * time.Second, 30 * time.Second} {
		sink.Record(t.Context(), evidence.Decision{
			Type: evidence.Fetched, Time: noon.Add(took), Status: 200, Bytes: 30, URL: "https://example.com/drip", Duration: took,
		})
	}
	if got, want := b.String(), "12:00:30 fetched       https://example.com/drip: 200, 30 bytes in 30s\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestConsoleIsPlainWhereNoTerminalIs(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sink := evidence.Console(file)
	sink.Record(t.Context(), evidence.Decision{Type: evidence.BlockedByRule, URL: "https://example.com/\x1b[31m"})
	text, err := os.ReadFile(file.Name())
	if err != nil || len(text) == 0 || bytes.ContainsRune(text, 0x1b) {
		t.Errorf("%q, %v", text, err)
	}
}

// TestConsoleForgetsWaits: a crawl of any number of hosts keeps no more than a bound of them.
func TestConsoleForgetsWaits(t *testing.T) {
	var b bytes.Buffer
	sink := evidence.Console(&b)
	for i := range 30_000 {
		sink.Record(t.Context(), evidence.Decision{Type: evidence.Waiting, Time: noon, Host: fmt.Sprint(i)})
	}
	if n := len(lines(&b)); n != 30_000 {
		t.Errorf("%d lines", n)
	}
}

func TestSealTellsOfLostRecords(t *testing.T) {
	w := &stuckWriter{err: errors.New("disk full")}
	log := logtest.New(t, w, evidence.LogConfig{Chained: true})
	d := evidence.Decision{Type: evidence.RobotsFetched, Text: strings.Repeat("x", 1<<20)}
	for range 40 {
		log.Record(context.Background(), d)
	}
	w.err = nil
	if err := log.Close(); err == nil {
		t.Fatal("Close says that nothing was lost")
	}
	var seal evidence.LogLine
	all := bytes.Split(bytes.TrimSpace(w.Bytes()), []byte("\n"))
	if err := seal.UnmarshalJSON(all[len(all)-1]); err != nil {
		t.Fatal(err)
	}
	if seal.Type != evidence.LogClosed || !strings.Contains(seal.Err, "records lost") || !strings.Contains(seal.Err, "disk full") {
		t.Errorf("the seal: %v", seal)
	}
}

// A stuckWriter is a disk that fails until err is nil.
type stuckWriter struct {
	bytes.Buffer
	err error
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	return w.Buffer.Write(p)
}

// TestConsoleTellsOfRepeats: a program that asks for one URL again and again hears of it, and of how
// much of that brought nothing.
func TestConsoleTellsOfRepeats(t *testing.T) {
	var b bytes.Buffer
	sink := evidence.Console(&b)
	n := 0
	ask := func(d evidence.Decision) {
		d.Time = noon.Add(time.Duration(n) * 2 * time.Minute)
		d.Type = evidence.Fetched
		n++
		sink.Record(t.Context(), d)
	}
	page := evidence.Decision{URL: "https://example.com/list.json", Status: 200, ETag: `"1"`, Bytes: 10}
	unchanged := page
	unchanged.Status = 304
	changed := page
	changed.ETag = `"2"`
	ask(page)
	for range 4 {
		ask(unchanged)
	}
	for range 3 {
		ask(page)
	}
	// None of these counts.
	for _, change := range []func(d *evidence.Decision){
		func(d *evidence.Decision) { d.RobotsTxt = true },
		func(d *evidence.Decision) { d.Redirects = 1 },
		func(d *evidence.Decision) { d.Attempt = 2 },
		func(d *evidence.Decision) { d.Method = "POST" },
		func(d *evidence.Decision) { d.Transport = "another" },
	} {
		d := page
		change(&d)
		ask(d)
	}
	ask(changed)
	repeats := func() (found []string) {
		for line := range strings.Lines(b.String()) {
			if strings.Contains(line, " asked ") {
				found = append(found, strings.TrimSpace(line))
			}
		}
		return found
	}
	if got := repeats(); len(got) != 0 {
		t.Errorf("after 9 requests: %q", got)
	}
	ask(changed)
	want := "12:28:00 asked         10 times in 28m0s: https://example.com/list.json; 8 responses were the same (304, or their ETag and bytes)"
	if got := repeats(); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	for range 90 {
		ask(changed)
	}
	if got := repeats(); len(got) != 2 || !strings.Contains(got[1], "100 times") {
		t.Errorf("after 100 requests: %q", got)
	}
	// Another day begins anew.
	n += 24 * 30
	for range 9 {
		ask(page)
	}
	if got := repeats(); len(got) != 2 {
		t.Errorf("9 requests a day later: %q", got[2:])
	}
}

// TestAStatusIsSaidOnce: also where the reason says it.
func TestAStatusIsSaidOnce(t *testing.T) {
	for reason, want := range map[string]string{
		"status 503":      "no robots.txt http://a.example/robots.txt: status 503",
		"no such service": "no robots.txt http://a.example/robots.txt: 503, no such service",
	} {
		d := evidence.Decision{Type: evidence.RobotsUnreachable, URL: "http://a.example/robots.txt", Status: 503, Reason: reason}
		if got := d.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
