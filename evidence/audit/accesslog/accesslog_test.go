package accesslog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/accesslog"
	"github.com/go-politeness/politeness/internal/logtest"
)

// A visitedSite makes both logs of one crawl, each in the words of the side that writes it.
type visitedSite struct {
	rnd     *rand.Rand
	format  string                             // "apache", "nginx", "vhost"
	clock   func(t time.Time) time.Time        // of the site
	latency func(*rand.Rand) time.Duration     // of an answer
	seq     map[string]uint64                  // by host
	records []evidence.Decision                // the crawler's
	lines   []string                           // the site's
	escape  func(agent string) (quoted string) // as the server does it
}

const crawlerAgent = `TestBot/1.0 (+https://bot.test/; "polite")`

func newVisitedSite(seed uint64, format string, offset time.Duration) *visitedSite {
	s := &visitedSite{
		rnd: rand.New(rand.NewPCG(seed, 1)), format: format, seq: map[string]uint64{},
		clock:   func(t time.Time) time.Time { return t.Add(offset) },
		latency: func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(4000)) * time.Millisecond },
		escape:  func(a string) string { return strings.ReplaceAll(a, `"`, `\"`) },
	}
	if format == "nginx" {
		s.escape = func(a string) string { return strings.ReplaceAll(a, `"`, `\x22`) }
	}
	return s
}

// line writes the site's line about a request.
func (s *visitedSite) line(start time.Time, took time.Duration, host, target, agent string, status int, size int64) {
	noted, address := start, "192.0.2.7"
	if s.rnd.IntN(2) == 0 {
		address = "2001:db8::7"
	}
	if s.format == "nginx" {
		noted = start.Add(took)
	}
	zone := time.FixedZone("", 2*3600)
	line := fmt.Sprintf(`%s - - [%s] "GET %s HTTP/1.1" %d %d "-" "%s"`,
		address, s.clock(noted).In(zone).Format("02/Jan/2006:15:04:05 -0700"), target, status, size, s.escape(agent))
	switch s.format {
	case "nginx":
		line += fmt.Sprintf(" %.3f", took.Seconds())
	case "apache":
		line += fmt.Sprintf(" %d", took.Microseconds())
	case "vhost":
		line = host + ":443 " + line
	}
	s.lines = append(s.lines, line)
}

// A fate is what one of the logs hides.
type fate int

const (
	told     fate = iota
	hidden        // the crawler has no record of it
	invented      // the site has none
)

func (s *visitedSite) visit(start time.Time, host, target string, f fate) {
	took := s.latency(s.rnd)
	status, size := 200, int64(s.rnd.IntN(100_000))
	if s.rnd.IntN(10) == 0 {
		status, size = 404, 153
	}
	if f != invented {
		s.line(start, took, host, target, crawlerAgent, status, size)
	}
	if f == hidden {
		return
	}
	s.seq[host]++
	d := evidence.Decision{
		Type: evidence.Started, Time: start, Start: start, Trip: s.seq[host], Attempt: 1, Method: "GET", URL: "https://" + host + target,
		Host: host, Agent: "TestBot", Allowed: true, Seq: s.seq[host],
	}
	s.records = append(s.records, d)
	d.Type, d.Time, d.Status, d.Bytes, d.Latency, d.Duration = evidence.Fetched, start.Add(took), status, size, took, took
	s.records = append(s.records, d)
}

func (s *visitedSite) compare(t *testing.T, o accesslog.Options) *accesslog.Comparison {
	t.Helper()
	log := logtest.Write(t, s.records)
	c, err := accesslog.Compare(bytes.NewReader(log), o, strings.NewReader(strings.Join(s.lines, "\n")+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAccessLogFindsWhatOneSideHides makes random crawls, and hides some requests on either side.
func TestAccessLogFindsWhatOneSideHides(t *testing.T) {
	type clock = func(time.Time) time.Time
	clocks := map[string]clock{
		"right":     func(t time.Time) time.Time { return t },
		"hours off": func(t time.Time) time.Time { return t.Add(-7*time.Hour - 13*time.Second) },
		"days off":  func(t time.Time) time.Time { return t.Add(100 * 24 * time.Hour) },
		"3 s off":   func(t time.Time) time.Time { return t.Add(3 * time.Second) },
		"lags":      func(t time.Time) time.Time { return t.Add(-t.Sub(logtest.Day) / 10_000) }, // 1.6 s in all
	}
	seed := uint64(0)
	for _, format := range []string{"apache", "nginx", "vhost"} {
		for name, clock := range clocks {
			seed++
			s := newVisitedSite(seed, format, 0)
			s.clock = clock
			hosts := []string{"site.test"}
			if format == "vhost" {
				hosts = append(hosts, "www.site.test", "shop.site.test")
			}
			var wantMissing, wantUnseen int
			at := logtest.Day
			s.line(at.Add(-time.Hour), 0, hosts[0], "/", "Mozilla/5.0", 200, 1)
			for i := range 2000 {
				at = at.Add(time.Duration(1000+s.rnd.IntN(15_000)) * time.Millisecond)
				target := fmt.Sprintf("/page/%d?q=%d", s.rnd.IntN(1500), i%2)
				if i%100 == 0 {
					target = "/robots.txt"
				}
				f := told
				if i > 100 && i < 1900 && i%97 == 13 {
					f = hidden
					wantMissing++
				} else if i > 100 && i < 1900 && i%89 == 7 {
					f = invented
					wantUnseen++
				}
				s.visit(at, hosts[s.rnd.IntN(len(hosts))], target, f)
				s.line(at, time.Second, hosts[0], target, "OtherBot/2.0", 200, 77)
			}
			s.line(at.Add(time.Hour), 0, hosts[0], "/", "Mozilla/5.0", 200, 1)
			if seed%2 == 0 { // the newest file first
				s.lines = append(s.lines[len(s.lines)/2:], s.lines[:len(s.lines)/2]...)
			}
			c := s.compare(t, accesslog.Options{})
			if c.Missing.N != wantMissing || c.Unseen.N != wantUnseen || c.Outside.N != 0 || c.Status.N != 0 || c.Unreadable != 0 {
				t.Errorf("%s, clock %s: want %d missing, %d unseen:\n%v", format, name, wantMissing, wantUnseen, c)
			}
			if c.OK() {
				t.Errorf("%s, clock %s: %v", format, name, c)
			}
		}
	}
}

// TestAccessLogOfOneURLAskedForAgainAndAgain has nothing but the times to go by.
func TestAccessLogOfOneURLAskedForAgainAndAgain(t *testing.T) {
	for _, offset := range []time.Duration{0, 3*time.Hour + 20*time.Second, -time.Minute} {
		s := newVisitedSite(1, "apache", offset)
		for i := range 300 {
			f := told
			if i == 150 {
				f = hidden
			}
			s.visit(logtest.Day.Add(time.Duration(i)*time.Minute), "site.test", "/feed", f)
		}
		c := s.compare(t, accesslog.Options{})
		if c.Missing.N != 1 || c.Unseen.N != 0 || (c.Offset-offset).Abs() > 3*time.Second {
			t.Errorf("offset %v: %v", offset, c)
		}
	}
}

func TestAccessLogTellsDifferences(t *testing.T) {
	s := newVisitedSite(1, "apache", 0)
	for i := range 50 {
		s.visit(logtest.Day.Add(time.Duration(i)*10*time.Second), "site.test", fmt.Sprintf("/%d", i), told)
	}
	for i := range s.records {
		switch d := &s.records[i]; {
		case d.Type != evidence.Fetched:
		case d.Seq == 20:
			d.Status = 429
		case d.Seq == 30:
			d.Bytes /= 2 // it was compressed on its way
		case d.Seq == 40:
			d.Type, d.Status, d.Allowed, d.Err = evidence.Failed, 0, false, "timeout"
		}
	}
	c := s.compare(t, accesslog.Options{})
	if c.Matched != 50 || c.Status.N != 1 || c.Missing.N != 0 || c.Unseen.N != 0 {
		t.Fatal(c)
	}
	if f := c.Status.First[0]; f.Target != "/19" || f.Status != 429 || f.SiteStatus == 429 || f.Line != 20 || f.Record != 39 {
		t.Errorf("%+v", f)
	}
	var text struct{ Status struct{ N int } }
	if b, err := json.Marshal(c); err != nil || json.Unmarshal(b, &text) != nil || text.Status.N != 1 {
		t.Errorf("%+v, %v", text, err)
	}
}

func TestAccessLogKnowsWhichTimeItCovers(t *testing.T) {
	s := newVisitedSite(1, "apache", 0)
	for i := range 100 {
		s.visit(logtest.Day.Add(time.Duration(i)*10*time.Second), "site.test", fmt.Sprintf("/%d", i), told)
	}
	all := s.lines
	s.lines = all[30:60] // one file of several: the rest of the evidence is not unseen
	if c := s.compare(t, accesslog.Options{}); !c.OK() || c.Unseen.N != 0 || c.Matched != 30 {
		t.Error(c)
	}
	s.lines, s.records = all, s.records[40:100] // the evidence begins later, and ends earlier
	if c := s.compare(t, accesslog.Options{}); c.OK() || c.Missing.N != 0 || c.Outside.N != 70 || c.Matched != 30 {
		t.Error(c)
	}
}

// TestAccessLogSeesWhatTheSiteSaw: gaps are those of starts, also where the site notes ends.
func TestAccessLogSeesWhatTheSiteSaw(t *testing.T) {
	for _, format := range []string{"nginx", "apache"} {
		s := newVisitedSite(1, format, 0)
		for i := range 60 {
			s.visit(logtest.Day.Add(time.Duration(i)*10*time.Second), "site.test", fmt.Sprintf("/%d", i), told)
		}
		if c := s.compare(t, accesslog.Options{}); !c.OK() || c.Closer != nil {
			t.Errorf("%s: %v", format, c)
		}
		for i := range s.records { // a log whose starts are closer at times
			s.records[i].Start = s.records[i].Start.Add(time.Duration(i%4/2) * 4 * time.Second)
		}
		if c := s.compare(t, accesslog.Options{}); !c.OK() || c.Closer != nil {
			t.Errorf("%s: %v", format, c)
		}

		s = newVisitedSite(1, format, 0)
		for i := range 60 {
			s.visit(logtest.Day.Add(time.Duration(10*i+i%2*4)*time.Second), "site.test", fmt.Sprintf("/%d", i), told)
		}
		for i := range s.records { // a log that spreads its starts
			s.records[i].Start = s.records[i].Start.Add(-time.Duration(i/2%2) * 4 * time.Second)
		}
		c := s.compare(t, accesslog.Options{})
		if !c.OK() || len(c.Closer) != 1 || !strings.Contains(c.String(), "The site saw requests to site.test 6 s apart, and the evidence has them 10 s apart at least.\n") {
			t.Errorf("%s: %v", format, c)
		}
	}
}

func TestAccessLogWithQueriesRedacted(t *testing.T) {
	s := newVisitedSite(1, "apache", time.Hour)
	for i := range 30 {
		s.visit(logtest.Day.Add(time.Duration(i)*20*time.Second), "site.test", fmt.Sprintf("/%d?token=%d", i%10, i), told)
		if i%3 == 0 {
			s.visit(logtest.Day.Add(time.Duration(i)*20*time.Second+10*time.Second), "site.test", fmt.Sprintf("/plain/%d", i), told)
		}
	}
	var out bytes.Buffer
	log := evidence.JSONLines(&out)
	redacted := evidence.Redact(log, "token")
	for _, d := range s.records {
		redacted.Record(t.Context(), d)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := accesslog.Compare(&out, accesslog.Options{}, strings.NewReader(strings.Join(s.lines, "\n")))
	if err != nil || !c.OK() || c.Matched != 40 {
		t.Errorf("%v, %v", c, err)
	}
}

func TestAccessLogAsksForWhatItMissed(t *testing.T) {
	s := newVisitedSite(1, "apache", 0)
	s.visit(logtest.Day, "a.test", "/", told)
	s.visit(logtest.Day.Add(time.Minute), "b.test", "/", told)
	log := logtest.Write(t, s.records)
	access := strings.Join(s.lines, "\n")
	if _, err := accesslog.Compare(bytes.NewReader(log), accesslog.Options{}, strings.NewReader(access)); err == nil || !strings.Contains(err.Error(), "Options.Host") {
		t.Errorf("several hosts: %v", err)
	}
	if c, err := accesslog.Compare(bytes.NewReader(log), accesslog.Options{Host: "A.test."}, strings.NewReader(s.lines[0])); err != nil || !c.OK() || c.Matched != 1 {
		t.Errorf("one of them: %v, %v", c, err)
	}
	if _, err := accesslog.Compare(strings.NewReader(""), accesslog.Options{}, strings.NewReader(access)); err == nil || !strings.Contains(err.Error(), "is it another file") {
		t.Errorf("no evidence: %v", err)
	}
	c, err := accesslog.Compare(strings.NewReader(""), accesslog.Options{Agent: "testbot", Host: "a.test"}, strings.NewReader(access))
	if !errors.Is(err, accesslog.ErrNothing) || c.OK() || c.Outside.N != 2 {
		t.Errorf("an empty log: %v, %v", c, err)
	}
}

func FuzzAccessLog(f *testing.F) {
	s := newVisitedSite(1, "nginx", time.Hour)
	for i := range 5 {
		s.visit(logtest.Day.Add(time.Duration(i)*time.Minute), "site.test", "/", told)
	}
	log := logtest.Write(f, s.records)
	f.Add(log, strings.Join(s.lines, "\n"))
	f.Fuzz(func(t *testing.T, log []byte, access string) {
		c, err := accesslog.Compare(bytes.NewReader(log), accesslog.Options{Agent: "TestBot", Host: "site.test"}, strings.NewReader(access))
		if err != nil && (c == nil || c.OK()) {
			return
		}
		if c.Matched+c.Missing.N+c.Outside.N != c.Requests || c.Requests > c.Lines || c.Status.N+c.Left.N+c.Unsent.N > c.Matched {
			t.Errorf("%+v", c)
		}
		_ = c.String()
		if _, err := json.Marshal(c); err != nil {
			t.Error(err)
		}
	})
}
