package audit_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
)

func check(tb testing.TB, log []byte) *audit.Report {
	tb.Helper()
	r, err := audit.Check(bytes.NewReader(log))
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestCheckProvesAPoliteCrawl(t *testing.T) {
	for _, cfg := range []evidence.LogConfig{{}, {Chained: true}} {
		records := logtest.Crawl(3, 60)
		r := check(t, logtest.WriteWith(t, records, cfg))
		if !r.OK() {
			t.Fatal(r.String())
		}
		for _, name := range []string{"allowed by robots.txt", "verdicts right", "every start ended"} {
			if p := r.Promise(name); p.Proved == 0 || p.Open > 0 {
				t.Errorf("not everything was put to the test: %+v", p)
			}
		}
		if !r.Numbered || r.Chained != cfg.Chained {
			t.Error(r)
		}
		if len(r.Hosts) != 3 || r.Hosts[0].Host != "h0.example" || r.Hosts[0].Blocks != 5 || r.Hosts[0].MinGap < 500*time.Millisecond {
			t.Errorf("hosts: %+v", r.Hosts)
		}
	}
}

func TestCheckProvesRecordsThatAreWrittenLate(t *testing.T) {
	// Each goroutine logs for itself, so the records of different exchanges may
	// swap places; those of one may not.
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		records := logtest.Crawl(3, 40)
		for range 2000 {
			i := rnd.IntN(len(records) - 1)
			a, b := records[i], records[i+1]
			sameTrip := a.Trip == b.Trip || a.Trip == 0 || b.Trip == 0
			// A goroutine goes on to its next request only when it has logged this one.
			if sameTrip || a.Type != evidence.Started && b.Type != evidence.Started && a.Type != evidence.HostBlocked && b.Type != evidence.HostBlocked {
				continue
			}
			records[i], records[i+1] = b, a
		}
		if r := check(t, logtest.Write(t, records)); !r.OK() {
			t.Fatal(r.String())
		}
	}
}

// A tamper is one change to a crawl's records that breaks a promise.
var tampers = []struct {
	name   string
	kind   audit.Kind
	change func(t *testing.T, records []evidence.Decision) []evidence.Decision
}{
	{"a start moved towards the one before", audit.BrokenGap, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[nth(t, rs, evidence.Started, 9)].Start = rs[nth(t, rs, evidence.Started, 9)].Start.Add(-2 * time.Millisecond)
		return rs
	}},
	{"an exchange moved towards the one before", audit.BrokenGap, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		i := nth(t, rs, evidence.Started, 9)
		for j := range rs {
			if rs[j].Trip == rs[i].Trip && rs[j].Seq == rs[i].Seq {
				rs[j].Start, rs[j].Time = rs[j].Start.Add(-time.Nanosecond), rs[j].Time.Add(-time.Nanosecond)
			}
		}
		return rs
	}},
	{"a crawl-delay that wasn't kept", audit.BrokenGap, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[nth(t, rs, evidence.Started, 9)].CrawlDelay = time.Hour
		return rs
	}},
	{"a start and an end at different times", audit.Contradiction, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		i := nth(t, rs, evidence.Fetched, 9)
		rs[i].Start = rs[i].Start.Add(-time.Second)
		return rs
	}},
	{"a record made before its start", audit.Contradiction, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		i := nth(t, rs, evidence.Started, 9)
		rs[i].Time = rs[i].Time.Add(-time.Second)
		return rs
	}},
	{"a record made long after its start", audit.Contradiction, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[nth(t, rs, evidence.Started, 9)].Time = logtest.Day.Add(time.Hour)
		return rs
	}},
	{"a body that ended before its headers came", audit.Contradiction, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		i := nth(t, rs, evidence.Fetched, 9)
		rs[i].Duration, rs[i].Time = rs[i].Latency/2, rs[i].Start.Add(rs[i].Latency/2)
		return rs
	}},
	{"a verdict given after the start", audit.Contradiction, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[nth(t, rs, evidence.RobotsAllowed, 9)].Time = logtest.Day.Add(time.Hour)
		return rs
	}},
	{"a wait below zero", audit.Contradiction, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[nth(t, rs, evidence.Started, 9)].WaitSlot = -1
		return rs
	}},
	{"an end put back before it was reached", audit.Contradiction, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[nth(t, rs, evidence.Fetched, 9)].Duration += time.Hour
		return rs
	}},
	{"a third request on two slots", audit.BrokenConcurrency, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		for i := range rs {
			if rs[i].Host == "h0.example" {
				rs[i].Slots = min(rs[i].Slots, 1)
				rs[i].Slot = min(rs[i].Slot, 1)
			}
		}
		return rs
	}},
	{"a start inside of a block", audit.BrokenBlock, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[nth(t, rs, evidence.HostBlocked, 0)].Until = logtest.Day.Add(time.Hour)
		for i := range rs { // and no word of its end
			if rs[i].Type == evidence.HostCleared {
				rs[i].Type = evidence.Retried
			}
		}
		return rs
	}},
	{"a disallowed fetch", audit.BrokenRobots, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		i := nth(t, rs, evidence.RobotsAllowed, 9)
		rs[i].Type, rs[i].Allowed = evidence.BlockedByRobots, false
		return rs
	}},
	{"a fetch of another URL than the allowed one", audit.BrokenRobots, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[nth(t, rs, evidence.RobotsAllowed, 9)].URL += "x"
		return rs
	}},
	{"allowed flipped in a verdict", audit.Contradiction, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[nth(t, rs, evidence.BlockedByRobots, 2)].Allowed = true
		return rs
	}},
	{"a verdict turned round", audit.BrokenVerdict, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		i := nth(t, rs, evidence.BlockedByRobots, 2)
		rs[i].Type, rs[i].Allowed, rs[i].MatchedRule = evidence.RobotsAllowed, true, ""
		return rs
	}},
	{"a verdict turned round for a reason that the log doesn't know", audit.BrokenVerdict, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		i := nth(t, rs, evidence.BlockedByRobots, 2)
		rs[i].Type, rs[i].Allowed, rs[i].MatchedRule, rs[i].Line = evidence.RobotsAllowed, true, "", 0
		rs[i].Confidence, rs[i].Reason = "low", "status 503"
		return rs
	}},
	{"a request with two URLs", audit.Contradiction, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[nth(t, rs, evidence.Fetched, 9)].URL += "x"
		return rs
	}},
	{"a fetch of robots.txt from somewhere else", audit.Contradiction, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[nth(t, rs, evidence.Started, 0)].URL = "https://h0.example/private"
		return rs
	}},
	{"a block with two ends", audit.Contradiction, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		i := nth(t, rs, evidence.HostBlocked, 1)
		rs[i].RetryAt = rs[i].Until
		rs[i].Until = rs[i].Until.Add(-time.Second)
		return rs
	}},
	{"a verdict by another line", audit.BrokenVerdict, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[nth(t, rs, evidence.BlockedByRobots, 2)].Line = 4
		return rs
	}},
	{"a verdict by a rule of the other kind", audit.BrokenVerdict, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[nth(t, rs, evidence.BlockedByRobots, 2)].MatchedRule = "Allow: /private/open"
		return rs
	}},
	{"another robots.txt", audit.Contradiction, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		i := nth(t, rs, evidence.RobotsFetched, 1)
		rs[i].Text = strings.Replace(rs[i].Text, "/private", "/secrets", 1)
		return rs
	}},
	{"a start without an end", audit.MissingEnd, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		i := nth(t, rs, evidence.Fetched, 9)
		return slices.Delete(rs, i, i+1)
	}},
	{"an end without a start", audit.MissingEnd, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		i := nth(t, rs, evidence.Fetched, 9)
		return slices.Insert(rs, i+1, rs[i])
	}},
	{"an exchange that is missing", audit.MissingStart, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		d := rs[nth(t, rs, evidence.Started, 9)]
		return slices.DeleteFunc(rs, func(e evidence.Decision) bool { return e.Seq == d.Seq && e.Host == d.Host })
	}},
	{"a start that is numbered twice", audit.MissingStart, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		d := rs[nth(t, rs, evidence.Started, 9)]
		for i := range rs {
			if rs[i].Seq == d.Seq+1 && rs[i].Host == d.Host {
				rs[i].Seq = d.Seq - 1
			}
		}
		return rs
	}},
	{"a slot that the host doesn't have", audit.BrokenConcurrency, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[nth(t, rs, evidence.Started, 9)].Slot = 3
		return rs
	}},
	{"a record without a type", audit.Contradiction, func(t *testing.T, rs []evidence.Decision) []evidence.Decision {
		rs[9].Type = ""
		return rs
	}},
}

// nth returns the index of the n-th record of a type, from 0.
func nth(t *testing.T, rs []evidence.Decision, typ evidence.Type, n int) int {
	t.Helper()
	for i := range rs {
		if rs[i].Type == typ {
			if n == 0 {
				return i
			}
			n--
		}
	}
	t.Fatalf("no such record: %s", typ)
	return 0
}

func TestCheckFindsBrokenPromises(t *testing.T) {
	for _, tc := range tampers {
		t.Run(tc.name, func(t *testing.T) {
			r := check(t, logtest.WriteWith(t, tc.change(t, logtest.Crawl(3, 40)), evidence.LogConfig{Chained: true}))
			if r.Broken[tc.kind] == 0 {
				t.Fatalf("no violation of kind %s:\n%s", tc.kind, r)
			}
			for _, v := range r.Violations {
				if len(v.Lines) == 0 || slices.Contains(v.Lines, 0) || !slices.IsSorted(v.Lines) {
					t.Errorf("lines %v: %s", v.Lines, v)
				}
			}
		})
	}
}

func TestCheckNamesTheLinesOfBothRecords(t *testing.T) {
	records := logtest.Crawl(1, 20)
	i := nth(t, records, evidence.Started, 5)
	before := nth(t, records, evidence.Started, 4)
	gap := records[i].Start.Sub(records[before].Start)
	records[before].Delay = gap + time.Second
	r := check(t, logtest.Write(t, records))
	if len(r.Violations) != 1 {
		t.Fatal(r)
	}
	if v := r.Violations[0]; !slices.Equal(v.Lines, []int{before + 1, i + 1}) || v.Kind != audit.BrokenGap || v.Host != "h0.example" {
		t.Errorf("%+v, want lines %d and %d", v, before+1, i+1)
	}
}

func TestCheckFindsEachLineThatWasRemoved(t *testing.T) {
	for _, cfg := range []evidence.LogConfig{{}, {Chained: true}} {
		log := logtest.Lines(logtest.WriteWith(t, logtest.Crawl(2, 20), cfg))
		for i := range len(log) - 1 { // without the last it is cut off: see the next test
			r := check(t, bytes.Join(slices.Delete(slices.Clone(log), i, i+1), nil))
			if r.OK() {
				t.Errorf("line %d of %d removed: not found", i+1, len(log))
			}
		}
	}
}

// openFor returns the reasons why a promise is open.
func openFor(r *audit.Report, promise string) string {
	i := slices.IndexFunc(r.Promises, func(p audit.Promise) bool { return p.Name == promise })
	return strings.Join(r.Promises[i].Why, "\n")
}

// TestALogThatWasCutOffIsOpen: a kill and a pair of scissors leave the same.
func TestALogThatWasCutOffIsOpen(t *testing.T) {
	for name, cfg := range map[string]evidence.LogConfig{
		"chained": {Chained: true}, "signed": {Signed: &evidence.SignConfig{Key: testKey, Origin: testOrigin}},
	} {
		log := logtest.Lines(logtest.WriteWith(t, logtest.Crawl(2, 20), cfg))
		for i, line := range log {
			if bytes.HasPrefix(line, []byte(`{"type":"log_closed"`)) {
				log = log[:i]
				break
			}
		}
		for i := range log {
			r := check(t, bytes.Join(log[:i+1], nil))
			if !r.OK() || name == "chained" && !strings.Contains(openFor(r, "log whole"), "isn't sealed") || r.Complete() {
				t.Errorf("%s, cut after line %d of %d: %v", name, i+1, len(log), r)
			}
		}
	}
}

func TestCheckFindsLinesThatWereSwapped(t *testing.T) {
	log := logtest.Lines(logtest.Write(t, logtest.Crawl(2, 20)))
	for i := range len(log) - 1 {
		swapped := slices.Clone(log)
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
		if r := check(t, bytes.Join(swapped, nil)); r.OK() {
			t.Errorf("lines %d and %d swapped: not found", i+1, i+2)
		}
	}
}

func TestCheckFindsEachAllowedThatWasFlipped(t *testing.T) {
	log := logtest.Lines(logtest.Write(t, logtest.Crawl(2, 20)))
	for i := range log {
		var d evidence.Decision
		if err := json.Unmarshal(log[i], &d); err != nil {
			t.Fatal(err)
		}
		flipped := slices.Clone(log)
		flipped[i] = bytes.Replace(log[i], fmt.Appendf(nil, `"allowed":%t`, d.Allowed), fmt.Appendf(nil, `"allowed":%t`, !d.Allowed), 1)
		if r := check(t, bytes.Join(flipped, nil)); r.OK() {
			t.Errorf("line %d flipped: not found: %s", i+1, log[i])
		}
	}
}

func TestCheckFindsAnyChangedByteOfAChainedLog(t *testing.T) {
	log := logtest.WriteWith(t, logtest.Crawl(1, 3), evidence.LogConfig{Chained: true})
	for i := range len(log) - 1 { // the last is a line end
		changed := bytes.Clone(log)
		changed[i] ^= 1
		if r := check(t, changed); r.OK() {
			t.Errorf("byte %d (%q) changed: not found", i, log[max(0, i-20):min(len(log), i+20)])
		}
	}
}

func TestCheckReportsAChangeOfAChainedLogOnce(t *testing.T) {
	log := logtest.WriteWith(t, logtest.Crawl(1, 20), evidence.LogConfig{Chained: true})
	at := bytes.Index(log, []byte(`"bytes":1000`))
	log[at+8] = '2'
	r := check(t, log)
	if len(r.Violations) != 1 || r.Violations[0].Kind != audit.BrokenChain {
		t.Fatal(r)
	}
}

func TestCheckReadsLogsOneAfterTheOther(t *testing.T) {
	for _, cfg := range []evidence.LogConfig{{}, {Chained: true}} {
		var file []byte
		for run := range 3 {
			file = append(file, logtest.WriteWith(t, logtest.Again(logtest.Crawl(2, 20), run), cfg)...)
		}
		r := check(t, file)
		if !r.OK() || r.Logs != 3 {
			t.Errorf("%d logs: %s", r.Logs, r)
		}
	}
}

func TestCheckOfAnEmptyLog(t *testing.T) {
	for _, in := range []string{"", "\n\n"} {
		r := check(t, []byte(in))
		if !r.OK() || r.Logs != 0 || r.Numbered {
			t.Errorf("%q: %+v", in, r)
		}
	}
}

func TestCheckOfNoise(t *testing.T) {
	in := logtest.Write(t, logtest.Crawl(1, 5))
	r := check(t, slices.Concat(in, []byte("no record\n{\"type\":\n"), bytes.Repeat([]byte("x"), 200_000)))
	if r.Broken[audit.Unreadable] != 3 {
		t.Errorf("%d unreadable lines:\n%s", r.Broken[audit.Unreadable], r)
	}
}

type failingReader struct{ err error }

func (b failingReader) Read([]byte) (int, error) { return 0, b.err }

func TestCheckReturnsTheReadersError(t *testing.T) {
	want := errors.New("no such disk")
	r, err := audit.Check(failingReader{want})
	if !errors.Is(err, want) || r.Lines != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestCheckTakesALeaseThatExpired(t *testing.T) {
	// Two bodies are never closed. The third start gets the slot of the first.
	records := []evidence.Decision{{Type: evidence.PolicyStated, Transport: logtest.Policy.ID, Allowed: true, Policy: &logtest.Policy}}
	for i := range 3 {
		trip := uint64(i + 1)
		at := logtest.Day.Add(time.Duration(i) * 400 * time.Second)
		d := evidence.Decision{Type: evidence.RobotsAllowed, Time: at, Transport: logtest.Policy.ID, Trip: trip, Attempt: 1, URL: fmt.Sprint("http://h/", i), Host: "h", Allowed: true}
		records = append(records, d)
		if i == 2 {
			records = append(records, evidence.Decision{
				Type: evidence.LeaseExpired, Time: at, Transport: logtest.Policy.ID, Host: "h", Seq: 1, Of: logtest.Policy.Limiter + "/1",
			})
		}
		d.Type, d.Start, d.Seq, d.Slot, d.Slots, d.Delay = evidence.Started, at, trip, 1, 2, time.Second
		records = append(records, d)
		if i == 2 {
			d.Type, d.Time, d.Duration, d.Status = evidence.Fetched, at.Add(2*time.Second), 2*time.Second, 200
			records = append(records, d)
		}
	}
	if r := check(t, logtest.Write(t, records)); !r.OK() {
		t.Fatal(r)
	}
	// Without that record the log is three requests on two slots.
	records = slices.DeleteFunc(records, func(d evidence.Decision) bool { return d.Type == evidence.LeaseExpired })
	if r := check(t, logtest.WriteWith(t, records, evidence.LogConfig{Chained: true})); r.Broken[audit.BrokenConcurrency] != 1 {
		t.Fatal(r)
	}
}

func TestCheckTakesAHostThatWasForgotten(t *testing.T) {
	first := logtest.Crawl(1, 10)
	second := logtest.Crawl(1, 10)
	for i := range second {
		d := &second[i]
		d.Trip += 1000
		for _, at := range []*time.Time{&d.Time, &d.Start, &d.Until} {
			if !at.IsZero() {
				*at = at.Add(time.Hour)
			}
		}
	}
	if r := check(t, logtest.Write(t, append(first, second...))); !r.OK() {
		t.Fatal(r)
	}
}

func TestCheckTakesAPageThatWasGivenBack(t *testing.T) {
	records := logtest.Crawl(1, 3)
	i := nth(t, records, evidence.Fetched, 2)
	f := &records[i]
	f.Type, f.Allowed, f.Status, f.Bytes, f.Latency, f.Reason = evidence.Failed, false, 0, 0, 0, "given up before it was sent"
	pages := evidence.Decision{Type: evidence.BudgetWarning, Time: records[len(records)-1].Time, Allowed: true, Limit: "pages", Used: 2, Max: 2}
	if r := check(t, logtest.Write(t, append(records, pages))); !r.OK() || r.Hosts[0].Pages != 2 {
		t.Fatal(r)
	}
}

func TestCheckDoesNotAskRobotsAboutRedactedURLs(t *testing.T) {
	var out bytes.Buffer
	log := evidence.JSONLines(&out)
	e := evidence.Redact(log, "q")
	for _, d := range logtest.Crawl(1, 10) {
		e.Record(t.Context(), d)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	// No rule of the file says anything about a query, so the verdict is the same whatever it was.
	if r := check(t, out.Bytes()); !r.OK() || r.Promise("verdicts right").Open != 0 {
		t.Fatal(r)
	}
}

func TestCheckTakesStartsThatAreNotNumbered(t *testing.T) {
	records := logtest.Crawl(2, 20)
	for i := range records {
		records[i].Seq = 0
	}
	if r := check(t, logtest.Write(t, records)); !r.OK() || !strings.Contains(openFor(r, "log whole"), "starts without numbers") {
		t.Fatal(r)
	}
}

func TestCrawlDelayThatIsNotKeptIsFound(t *testing.T) {
	delayed := func(delay, verdict, start float64) story {
		var s story
		for i := range 3 {
			trip, at := uint64(i+1), float64(i+1)
			s.allowed(trip, at, func(d *evidence.Decision) { d.CrawlDelay = seconds(verdict) })
			s.started(trip, at, func(d *evidence.Decision) { d.CrawlDelay, d.Delay = seconds(start), seconds(delay) })
			s.fetched(trip, 0.2)
		}
		return s
	}
	delayed(0.5, 10, 0).wants(t, audit.Contradiction)
	delayed(0.5, 0, 0.7).wants(t, audit.Contradiction)
	delayed(1, 1, 0).wants(t, "")
	delayed(1, 0, 0.5).wants(t, "")
	delayed(1, 0.3, 0.5).wants(t, "") // another robots.txt by the time of the start

	// A turn that is given back because of a longer delay doesn't keep it.
	var s story
	s.page(1, 0)
	s.allowed(2, 1)
	s.started(2, 1, func(d *evidence.Decision) { d.CrawlDelay = seconds(10) })
	sent := s
	s.fetched(2, 0, func(d *evidence.Decision) {
		d.Type, d.Allowed, d.Status, d.Bytes, d.Latency, d.Reason = evidence.Failed, false, 0, 0, 0, "robots.txt changed during the wait"
	})
	s.wants(t, "")
	sent.wants(t, "") // killed in between
	sent.fetched(2, 1)
	sent.wants(t, audit.BrokenGap)
	sent.wants(t, audit.Contradiction)
}

func TestRecordsOfOneRequestThatDisagreeAreFound(t *testing.T) {
	changes := map[string]func(*evidence.Decision){
		"redirects": func(d *evidence.Decision) { d.Redirects = 1 },
		"robotsTxt": func(d *evidence.Decision) { d.RobotsTxt = true },
	}
	for name, change := range changes {
		for _, typ := range []evidence.Type{evidence.RobotsAllowed, evidence.Started, evidence.Fetched} {
			s := pages(3, 0.2)
			change(&s[nth(t, s, typ, 1)])
			if r := check(t, logtest.Write(t, s)); r.OK() {
				t.Errorf("%s of %s: not found", name, typ)
			}
		}
		s := pages(3, 0.2)
		for i := range s { // all alike
			if s[i].Trip == 2 && name != "robotsTxt" {
				change(&s[i])
			}
		}
		s.wants(t, "")
	}
}

func TestBudgetThatSaysItWasExceededIsFound(t *testing.T) {
	for limit, want := range map[string]audit.Kind{
		"pages": audit.BrokenBudget, "pages_per_host": audit.BrokenBudget, "bytes": audit.BrokenBudget, "time": "",
	} {
		var s story
		s.add(evidence.Decision{Type: evidence.BudgetExceeded, Time: at(0), Trip: 1, Limit: limit, Used: 25, Max: 20}, nil)
		p := s[0].Policy
		p.Pages, p.PagesPerHost, p.Bytes, p.MaxTime = 20, 20, 20, 20*time.Second
		s.wants(t, want)
		s[1].Used = 20
		s.wants(t, "")
	}
}

func TestLogBehindALineThatWasCutOffIsProved(t *testing.T) {
	for _, cfg := range []evidence.LogConfig{{}, {Chained: true}} {
		log := logtest.Lines(logtest.WriteWith(t, logtest.Crawl(2, 30), cfg))
		whole := len(log) - 5
		var killed []byte
		for _, line := range log[:whole] {
			killed = append(killed, line...)
		}
		before := check(t, killed)
		next := logtest.WriteWith(t, logtest.Again(logtest.Crawl(2, 10), 1), cfg)
		for _, cut := range []int{1, 20, len(log[whole]) / 2, len(log[whole]) - 1} {
			file := append(append(append([]byte{}, killed...), log[whole][:cut]...), next...)
			r := check(t, file)
			// What the half line said is lost, and nothing else.
			for kind, n := range r.Broken {
				if want := before.Broken[kind]; n != want {
					t.Errorf("cut after %d bytes: %d of %s, want %d", cut, n, kind, want)
				}
			}
			if r.Logs != 2 || !strings.Contains(openFor(r, "log whole"), "half a line") {
				t.Errorf("cut after %d bytes: %d logs, %v", cut, r.Logs, r)
			}
		}
		// The same where nothing else had been written before.
		if r := check(t, append(append([]byte{}, log[0][:30]...), next...)); !r.OK() || !strings.Contains(openFor(r, "log whole"), "half a line") {
			t.Error(r)
		}
	}
}

func TestReportText(t *testing.T) {
	r := check(t, logtest.Write(t, logtest.Crawl(2, 20)))
	text := r.String()
	for _, want := range []string{"delays kept", "slots kept", "Nothing is broken", "slowest hosts", "h1.example"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	page := func(at float64) []byte { return logtest.Write(t, run(func(s *story) { s.page(1, at) })) }
	if text := check(t, slices.Concat(page(1), page(9))).String(); !strings.Contains(text, "\na.example      2       100ms    8s       500ms      -       0 ") {
		t.Errorf("the site saw two starts 8 s apart, of two logs:\n%s", text)
	}
	broken := logtest.Crawl(2, 20)
	broken[nth(t, broken, evidence.Started, 3)].CrawlDelay = time.Hour
	r = check(t, logtest.Write(t, broken))
	if text := r.String(); !strings.Contains(text, "BROKEN 1") || !strings.Contains(text, "2 violations:") || r.OK() {
		t.Errorf("%s", text)
	}
}

func TestReportJSON(t *testing.T) {
	r := check(t, logtest.Write(t, logtest.Crawl(2, 20)))
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got audit.Report
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for i := range r.Hosts { // these are written in seconds, for people and pages
		h := &r.Hosts[i]
		h.MinGap, h.MaxDelay, h.Wait, h.Latency = 0, 0, 0, 0
	}
	if !reflect.DeepEqual(&got, r) || !bytes.Contains(b, []byte(`"minGap":0.5,`)) {
		t.Errorf("%s", b)
	}
}

func TestReportNamesAThousandViolationsAndCountsAll(t *testing.T) {
	r := check(t, bytes.Repeat([]byte("x\n"), 5000))
	if len(r.Violations) != 1000 || r.Broken[audit.Unreadable] != 5000 || !strings.Contains(r.String(), "and 4000 more") {
		t.Errorf("%d named, %d counted", len(r.Violations), r.Broken[audit.Unreadable])
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(logtest.Write(f, logtest.Crawl(1, 6)))
	f.Add(logtest.WriteWith(f, logtest.Crawl(2, 5), evidence.LogConfig{Chained: true}))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := audit.Check(bytes.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, n := range r.Broken {
			total += n
		}
		if r.OK() != (total == 0) || len(r.Violations) > total {
			t.Fatalf("%d violations named of %d", len(r.Violations), total)
		}
		if !slices.IsSortedFunc(r.Hosts, func(a, b audit.HostReport) int { return cmp.Compare(a.Host, b.Host) }) {
			t.Fatal("hosts out of order")
		}
		_ = r.String()

		half := len(in) / 2
		several, err := audit.Check(bytes.NewReader(in[:half]), bytes.NewReader(in[half:]))
		if err != nil {
			t.Fatal(err)
		}
		_ = several.String()
	})
}

// TestAStartWhoseNumberWasGivenUpIsFound: its number can't stand for both.
func TestAStartWhoseNumberWasGivenUpIsFound(t *testing.T) {
	var s story
	s.page(1, 1)
	s.page(2, 2)
	for i := range s {
		if s[i].Type == evidence.Started {
			s[i].Instead = 1
		}
	}
	s.wants(t, audit.MissingStart)
}

// TestQuestionsAreNoTrip: what Transport.Check and Filter record belongs to no request.
func TestQuestionsAreNoTrip(t *testing.T) {
	var out bytes.Buffer
	log := evidence.JSONLines(&out)
	log.Record(t.Context(), evidence.Decision{
		Type: evidence.PolicyStated, Time: time.Now(), Transport: "0123abcd", Allowed: true,
		Policy: &evidence.Policy{ID: "0123abcd01234567", Slots: 2, Robots: "obeyed", Retries: 1},
	})
	for _, host := range []string{"a.example", "b.example", "a.example"} {
		log.Record(t.Context(), evidence.Decision{
			Type: evidence.RobotsAllowed, Time: time.Now(), Transport: "0123abcd", URL: "https://" + host + "/", Host: host, Allowed: true,
		})
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if report, err := audit.Check(&out); err != nil || !report.OK() {
		t.Errorf("%v, %v", report, err)
	}
}
