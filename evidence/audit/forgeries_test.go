package audit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// Whoever holds a log can change it and make its numbers and its chain anew. This is what the judge
// makes of that: of an impolite act that the log shows, and of the lies that would hide one.
const (
	caught   = "caught"
	leftOpen = "open"   // not caught, but not called proved either
	missed   = "missed" // not catchable in principle from the log: see why
)

// polite is the log of a crawl in which much happens.
func polite(t *testing.T) []evidence.Decision {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		site := web.Site("https://a.example")
		site.Robots("User-agent: *\nDisallow: /private\nCrawl-delay: 1\n").Latency(200*time.Millisecond).
			Page("/1", "x").Page("/2", "x").Page("/3", "x").Page("/4", "x").
			Handle("/busy", politenesstest.InTurn(politenesstest.Status(429, "Retry-After", "20"), politenesstest.Text("fine"))).
			Handle("/moved", http.RedirectHandler("/4", http.StatusFound)).
			Handle("/flaky", politenesstest.InTurn(politenesstest.Status(500), politenesstest.Text("fine")))
		log := evidence.JSONLines(&out)
		transport, err := politeness.New(politeness.Config{
			UserAgent: "ExampleBot/1.0 (bot@example.com)", Base: web, Evidence: log,
			Hosts:  hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{Min: time.Second}, LeaseTTL: time.Minute},
			Robots: robotscache.Config{RecordText: true}, Spend: budget.Limits{Pages: 9}, Retry: politeness.Retry{Max: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: transport}
		for _, path := range []string{"/1", "/private/1", "/busy", "/2", "/moved", "/flaky", "/3"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example"+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := client.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return parse(t, out.Bytes())
}

func parse(t *testing.T, log []byte) (ds []evidence.Decision) {
	t.Helper()
	for line := range bytes.Lines(log) {
		var e evidence.LogLine
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type != evidence.LogClosed {
			ds = append(ds, e.Decision)
		}
	}
	return ds
}

// A forger changes a log.
type forger struct {
	t  *testing.T
	ds []evidence.Decision
}

// of returns the records of a URL's path, of a type.
func (f *forger) of(typ evidence.Type, path string) *evidence.Decision {
	f.t.Helper()
	for i := range f.ds {
		if d := &f.ds[i]; d.Type == typ && (path == "" || strings.HasSuffix(d.URL, path)) {
			return d
		}
	}
	f.t.Fatalf("no %s of %s", typ, path)
	return nil
}

func (f *forger) drop(which func(d *evidence.Decision) bool) {
	f.ds = slices.DeleteFunc(f.ds, func(d evidence.Decision) bool { return which(&d) })
}

// insert puts records before the first one that comes later than the first of them.
func (f *forger) insert(ds ...evidence.Decision) {
	for _, d := range ds {
		d.Transport = f.ds[0].Transport
		i := slices.IndexFunc(f.ds, func(o evidence.Decision) bool { return o.Time.After(d.Time) })
		if i < 0 {
			i = len(f.ds)
		}
		f.ds = slices.Insert(f.ds, i, d)
	}
}

// visit adds a whole request at a time that numbers the starts after it anew.
func (f *forger) visit(url string, at time.Time, change func(started, fetched *evidence.Decision)) {
	like := *f.of(evidence.Started, "/1")
	s := evidence.Decision{
		Type: evidence.Started, Time: at, Start: at, Trip: 900, Attempt: 1, Method: "GET", URL: url, Host: like.Host, Allowed: true,
		Delay: like.Delay, DelaySource: like.DelaySource, CrawlDelay: like.CrawlDelay, Slot: 1, Slots: 1,
	}
	e := s
	e.NoDate = true
	e.Type, e.Status, e.Latency, e.Duration, e.Time = evidence.Fetched, 200, 100*time.Millisecond, 100*time.Millisecond, at.Add(100*time.Millisecond)
	if change != nil {
		change(&s, &e)
	}
	v := s
	v.Type, v.Start, v.Group = evidence.RobotsAllowed, time.Time{}, "*"
	v.Delay, v.DelaySource, v.Slot, v.Slots, v.NoDate = 0, "", 0, 0, false
	s.NoDate = false
	e.Delay, e.DelaySource, e.Slot, e.Slots, e.CrawlDelay = 0, "", 0, 0, 0
	if !s.RobotsTxt {
		f.insert(v)
	}
	f.insert(s, e)
	f.renumber()
}

// renumber numbers all starts of each host anew, by their times.
func (f *forger) renumber() {
	starts := map[string][]time.Time{}
	for _, d := range f.ds {
		if d.Type == evidence.Started {
			starts[d.Host] = append(starts[d.Host], d.Start)
		}
	}
	for _, of := range starts {
		slices.SortFunc(of, time.Time.Compare)
	}
	for i := range f.ds {
		if d := &f.ds[i]; !d.Start.IsZero() && (d.Type == evidence.Started || d.Type == evidence.Fetched || d.Type == evidence.Failed) {
			j, _ := slices.BinarySearchFunc(starts[d.Host], d.Start, time.Time.Compare)
			if d.Seq, d.Instead = uint64(j+1), 0; d.Type == evidence.Started {
				if d.Prev = (time.Time{}); j > 0 {
					d.Prev = starts[d.Host][j-1]
				}
			}
		}
	}
}

// cutOff has each log that is named here end without its seal, as after a kill.
var cutOff = map[string]bool{
	"the last lines cut off": true, "an end removed, and the seal": true, "a trip removed whole, and the seal": true, "a block hidden by an end that is missing": true,
}

// TestForgeries is the table of docs/design/judge.md: each lie, told by somebody who makes numbers and chain
// anew, and what the judge says.
func TestForgeries(t *testing.T) {
	const site = "https://a.example"
	for _, c := range []struct {
		name, want, why string
		lie             func(f *forger)
	}{
		{"nothing", "", "an honest log", func(*forger) {}},

		{"a start too soon", caught, "", func(f *forger) {
			f.visit(site+"/4", f.of(evidence.Started, "/1").Start.Add(300*time.Millisecond), nil)
		}},
		{"a start too soon, its delay declared away", caught, "", func(f *forger) {
			first := f.of(evidence.Started, "/1").Start
			f.of(evidence.Started, "/1").Delay = time.Millisecond
			f.visit(site+"/4", first.Add(300*time.Millisecond), func(s, _ *evidence.Decision) { s.Delay, s.CrawlDelay = time.Millisecond, 0 })
		}},
		{"two in flight, slots declared away", caught, "", func(f *forger) {
			e := f.of(evidence.Fetched, "/1")
			e.Duration = 5 * time.Second
			e.Time = e.Start.Add(e.Duration)
			for i := range f.ds {
				f.ds[i].Slots = min(f.ds[i].Slots*100, 100)
			}
		}},
		{"a policy of one host, made up", caught, "", func(f *forger) {
			f.insert(evidence.Decision{Type: evidence.PolicyStated, Time: f.ds[0].Time, Host: "a.example", Seq: 1, Allowed: true, Policy: &evidence.Policy{Slots: 100}})
		}},
		{"a start into a block, the block's record removed", caught, "", func(f *forger) {
			f.drop(func(d *evidence.Decision) bool {
				return d.Type == evidence.HostBlocked || d.Type == evidence.HostCleared
			})
			f.visit(site+"/4", f.of(evidence.Fetched, "/busy").Time.Add(5*time.Second), nil)
		}},
		{"a shorter block than the answer asked for", caught, "", func(f *forger) {
			b := f.of(evidence.HostBlocked, "/busy")
			b.Until = b.Time.Add(2 * time.Second)
			b.RetryAt = b.Until
			f.visit(site+"/4", b.Time.Add(5*time.Second), nil)
		}},
		{"a host_cleared that no response explains", caught, "", func(f *forger) {
			b := f.of(evidence.HostBlocked, "/busy")
			f.insert(evidence.Decision{Type: evidence.HostCleared, Time: b.Time.Add(time.Second), Host: b.Host, Allowed: true, Status: 200})
			f.visit(site+"/4", b.Time.Add(5*time.Second), nil)
		}},
		{"a host_cleared by an answer that refuses", caught, "", func(f *forger) {
			b := *f.of(evidence.HostBlocked, "/busy")
			b.Type, b.Allowed, b.Until, b.RetryAt = evidence.HostCleared, true, time.Time{}, time.Time{}
			f.insert(b)
		}},
		{"a 429 that became a 200 in one of its records", caught, "", func(f *forger) {
			f.of(evidence.Fetched, "/busy").Status = 200
		}},
		{"a 429 that became a 200 in all its records", missed, "nothing in the log says what the site answered but these records; the site's own log does", func(f *forger) {
			f.of(evidence.Fetched, "/busy").Status = 200
			f.of(evidence.Fetched, "/busy").RetryAfter = ""
			f.drop(func(d *evidence.Decision) bool {
				return (d.Type == evidence.HostBlocked || d.Type == evidence.HostCleared || d.Type == evidence.Retried) && strings.HasSuffix(d.URL, "/busy")
			})
		}},
		{"a disallowed page with a verdict that allows", caught, "", func(f *forger) {
			f.visit(site+"/private/2", f.of(evidence.Started, "/3").Start.Add(5*time.Second), nil)
		}},
		{"the same, by a group that robots.txt hasn't", caught, "", func(f *forger) {
			f.visit(site+"/private/2", f.of(evidence.Started, "/3").Start.Add(5*time.Second), nil)
			f.of(evidence.RobotsAllowed, "/private/2").Group = "Nobody"
		}},
		{"the same, with REDACTED in its query", caught, "", func(f *forger) {
			f.visit(site+"/private/2?x=REDACTED", f.of(evidence.Started, "/3").Start.Add(5*time.Second), nil)
		}},
		{"the same, with :// in its path", caught, "", func(f *forger) {
			f.visit(site+"/private/2/http://x", f.of(evidence.Started, "/3").Start.Add(5*time.Second), nil)
		}},
		{"the same, robots.txt once unreachable", caught, "", func(f *forger) {
			at := f.of(evidence.Started, "/3").Start.Add(5 * time.Second)
			f.insert(evidence.Decision{
				Type: evidence.RobotsUnreachable, Time: f.ds[0].Time, URL: site + "/robots.txt", Host: "a.example", RobotsTxt: true, Status: 503, Reason: "status 503", Until: at.Add(time.Hour),
			})
			f.visit(site+"/private/2", at, nil)
			f.of(evidence.RobotsAllowed, "/private/2").Reason = "status 503"
		}},
		{"the same, with an inserted 404 for robots.txt", caught, "", func(f *forger) {
			at := f.of(evidence.Started, "/3").Start.Add(5 * time.Second)
			f.insert(evidence.Decision{
				Type: evidence.RobotsFetched, Time: at.Add(-time.Second), URL: site + "/robots.txt", Host: "a.example", RobotsTxt: true, Allowed: true, Status: 404,
			})
			f.visit(site+"/private/2", at, nil)
		}},
		{"the same, marked as robots.txt", caught, "", func(f *forger) {
			f.visit(site+"/private/2", f.of(evidence.Started, "/3").Start.Add(5*time.Second), func(s, e *evidence.Decision) { s.RobotsTxt, e.RobotsTxt = true, true })
		}},
		{"the same, with REDACTED in its URL", caught, "", func(f *forger) {
			f.visit(site+"/private/2?x=REDACTED", f.of(evidence.Started, "/3").Start.Add(5*time.Second), func(s, e *evidence.Decision) { s.RobotsTxt, e.RobotsTxt = true, true })
		}},
		{"the same, its verdict removed", caught, "", func(f *forger) {
			f.visit(site+"/private/2", f.of(evidence.Started, "/3").Start.Add(5*time.Second), nil)
			f.drop(func(d *evidence.Decision) bool {
				return d.Type == evidence.RobotsAllowed && strings.HasSuffix(d.URL, "/private/2")
			})
		}},
		{"all verdicts removed", caught, "", func(f *forger) {
			f.drop(func(d *evidence.Decision) bool {
				return d.Type == evidence.RobotsAllowed || d.Type == evidence.BlockedByRobots
			})
		}},
		{"the texts of robots.txt removed", leftOpen, "", func(f *forger) {
			f.of(evidence.RobotsFetched, "").Text = ""
		}},
		{"another text of robots.txt, with its hash", missed, "who holds everything can write that the site served it; the site knows better", func(f *forger) {
			text := "User-agent: *\nCrawl-delay: 1\nDisallow: /private/1\n"
			d := f.of(evidence.RobotsFetched, "")
			d.Text, d.Bytes, d.SHA256 = text, int64(len(text)), hash(text)
			f.of(evidence.BlockedByRobots, "").Line, f.of(evidence.BlockedByRobots, "").MatchedRule = 3, "Disallow: /private/1"
			f.visit(site+"/private/2", f.of(evidence.Started, "/3").Start.Add(5*time.Second), nil)
		}},
		{"a page past the budget", caught, "", func(f *forger) {
			last := f.of(evidence.Started, "/3").Start
			for i := range 5 {
				f.visit(fmt.Sprint(site, "/4?", i), last.Add(time.Duration(i+1)*5*time.Second), func(s, e *evidence.Decision) { s.Trip, e.Trip = uint64(900+i), uint64(900+i) })
			}
		}},
		{"the same, as redirects out of nothing", caught, "", func(f *forger) {
			last := f.of(evidence.Started, "/3").Start
			for i := range 5 {
				f.visit(fmt.Sprint(site, "/4?", i), last.Add(time.Duration(i+1)*5*time.Second), func(s, e *evidence.Decision) {
					s.Redirects, e.Redirects = 1, 1
				})
			}
		}},
		{"the same, as second tries of nothing", caught, "", func(f *forger) {
			last := f.of(evidence.Started, "/3").Start
			for i := range 5 {
				f.visit(fmt.Sprint(site, "/4?", i), last.Add(time.Duration(i+1)*5*time.Second), func(s, e *evidence.Decision) {
					s.Attempt, e.Attempt = 2, 2
				})
			}
		}},
		{"one host under two keys", caught, "", func(f *forger) {
			at := f.of(evidence.Started, "/1").Start.Add(300 * time.Millisecond)
			f.visit(site+"/4", at, func(s, e *evidence.Decision) { s.Host, e.Host = "other.example", "other.example" })
		}},
		{"a lease_expired that frees what is too young", caught, "", func(f *forger) {
			e := f.of(evidence.Fetched, "/1")
			e.Duration = 5 * time.Second
			e.Time = e.Start.Add(e.Duration)
			f.insert(evidence.Decision{Type: evidence.LeaseExpired, Time: e.Start.Add(900 * time.Millisecond), Host: e.Host, Seq: e.Seq})
		}},
		{"a trip removed whole", caught, "", func(f *forger) {
			trip := f.of(evidence.Started, "/2").Trip
			f.drop(func(d *evidence.Decision) bool { return d.Trip == trip })
		}},
		{"a trip removed whole, and the starts numbered anew", missed, "a start that left no trace; the site's own log has it", func(f *forger) {
			trip := f.of(evidence.Started, "/2").Trip
			f.drop(func(d *evidence.Decision) bool { return d.Trip == trip })
			f.renumber()
		}},
		{"the same host, spelled with a final dot", caught, "", func(f *forger) {
			at := f.of(evidence.Started, "/1").Start.Add(300 * time.Millisecond)
			f.visit("https://A.example./4", at, func(s, e *evidence.Decision) { s.Host, e.Host = "A.example.", "A.example." })
		}},
		{"another host, by a URL that doesn't tell", leftOpen, "", func(f *forger) {
			at := f.of(evidence.Started, "/1").Start.Add(300 * time.Millisecond)
			f.visit("https://%61.example/4", at, func(s, e *evidence.Decision) { s.Host, e.Host = "other.example", "other.example" })
		}},
		{"a host that is there now and then", caught, "", func(f *forger) {
			p := *f.ds[0].Policy
			p.HostKey = "site"
			f.ds[0].Policy = &p
			at := f.of(evidence.Started, "/3").Start
			for i, key := range []string{"x.a.example", "a.example"} {
				f.visit("https://x.a.example/4", at.Add(time.Duration(i+5)*time.Second), func(s, e *evidence.Decision) { s.Host, e.Host = key, key })
			}
		}},
		{"a block lifted by a hand that never was", leftOpen, "a person may do that, and the report says so", func(f *forger) {
			b := f.of(evidence.HostBlocked, "/busy").Time
			f.insert(evidence.Decision{Type: evidence.HostCleared, Time: b.Add(time.Second), Host: "a.example", Allowed: true, Hand: true})
			f.visit(site+"/4", b.Add(5*time.Second), nil)
		}},
		{"a block forgotten for one that was restored", caught, "", func(f *forger) {
			b, first := f.of(evidence.HostBlocked, "/busy").Time, f.ds[0].Time
			f.visit(site+"/4", b.Add(5*time.Second), nil)
			i := slices.IndexFunc(f.ds, func(d evidence.Decision) bool { return d.Type == evidence.HostBlocked })
			f.ds = slices.Insert(f.ds, i+1, evidence.Decision{
				Type: evidence.HostBlocked, Time: first, Host: "a.example", Restored: true, Until: first.Add(1), RetryAt: first.Add(1), Transport: f.ds[0].Transport,
			})
		}},
		{"a block forgotten for many by a hand", caught, "", func(f *forger) {
			b := f.of(evidence.HostBlocked, "/busy").Time
			for i := range time.Duration(100) {
				f.insert(evidence.Decision{Type: evidence.HostBlocked, Time: b.Add(i), Until: b.Add(i + 1), RetryAt: b.Add(i + 1), Host: "a.example", Hand: true})
			}
			f.visit(site+"/4", b.Add(5*time.Second), nil)
		}},
		{"a block logged once many starts after it are", caught, "", func(f *forger) {
			blocked, last := f.of(evidence.HostBlocked, "/busy"), f.of(evidence.Started, "/3").Start
			f.visit(site+"/4", blocked.Time.Add(5*time.Second), nil)
			for i := range 17 {
				f.visit(site+"/robots.txt", last.Add(time.Duration(i+5)*2*time.Second), func(s, e *evidence.Decision) { s.RobotsTxt, e.RobotsTxt = true, true })
			}
			trip := f.of(evidence.HostBlocked, "/busy").Trip
			late := func(d evidence.Decision) bool {
				return d.Trip == trip && d.Attempt <= 1 && (d.Type == evidence.HostBlocked || d.Type == evidence.Fetched)
			}
			var moved []evidence.Decision
			for _, d := range f.ds {
				if late(d) {
					moved = append(moved, d)
				}
			}
			f.drop(func(d *evidence.Decision) bool { return late(*d) })
			f.ds = append(f.ds, moved...)
		}},
		{"a robots.txt used long after its time", leftOpen, "its server may have said so", func(f *forger) {
			for i := range f.ds {
				f.ds[i].TTL *= 1000
			}
			f.visit(site+"/4", f.of(evidence.Started, "/3").Start.Add(3*time.Hour), nil)
		}},
		{"a page as a robots.txt with a query", caught, "", func(f *forger) {
			f.visit(site+"/robots.txt?private", f.of(evidence.Started, "/3").Start.Add(5*time.Second), func(s, e *evidence.Decision) { s.RobotsTxt, e.RobotsTxt = true, true })
		}},
		{"records of a type of one's own", leftOpen, "", func(f *forger) {
			f.visit(site+"/private/2", f.of(evidence.Started, "/3").Start.Add(300*time.Millisecond), func(s, e *evidence.Decision) {
				s.Type, e.Type, s.Seq, e.Seq = "visited", "seen", 0, 0
			})
			f.drop(func(d *evidence.Decision) bool {
				return d.Type == evidence.RobotsAllowed && strings.HasSuffix(d.URL, "/private/2")
			})
		}},
		{"the times of a host shifted by a day", leftOpen, "only its Date headers disagree", func(f *forger) {
			for i := range f.ds {
				for _, at := range []*time.Time{&f.ds[i].Time, &f.ds[i].Start, &f.ds[i].Prev, &f.ds[i].BlockedUntil, &f.ds[i].Until, &f.ds[i].RetryAt} {
					if !at.IsZero() && f.ds[i].Type != evidence.PolicyStated {
						*at = at.Add(24 * time.Hour)
					}
				}
			}
		}},
		{"the last lines cut off", leftOpen, "a kill leaves the same; a checkpoint that somebody has kept, and the site's own log, tell", func(f *forger) {
			f.ds = f.ds[:len(f.ds)-7]
		}},
		{"an end removed, and the seal", caught, "", func(f *forger) {
			end := f.of(evidence.Fetched, "/2").Trip
			f.drop(func(d *evidence.Decision) bool { return d.Trip == end && d.Type == evidence.Fetched })
		}},
		{"a trip removed whole, and the seal", caught, "", func(f *forger) {
			trip := f.of(evidence.Started, "/2").Trip
			f.drop(func(d *evidence.Decision) bool { return d.Trip == trip })
		}},
		{"a block hidden by an end that is missing", leftOpen, "as if the answer had been on its way when the crawler was killed", func(f *forger) {
			i := slices.IndexFunc(f.ds, func(d evidence.Decision) bool { return d.Type == evidence.HostBlocked })
			f.ds = f.ds[:i]
		}},
		{"a trip removed whole, its start said to be given up by a wait", caught, "", func(f *forger) {
			s := *f.of(evidence.Started, "/2")
			f.drop(func(d *evidence.Decision) bool { return d.Trip == s.Trip })
			f.insert(evidence.Decision{Type: evidence.Waiting, Time: s.Time, Host: s.Host, Allowed: true, Instead: s.Seq})
		}},
		{"a trip removed whole, its start said to be replaced by the next one", missed, "as one is whose connection comes late; the site's own log has it", func(f *forger) {
			s := *f.of(evidence.Started, "/2")
			f.drop(func(d *evidence.Decision) bool { return d.Trip == s.Trip })
			next := f.of(evidence.Started, "/3")
			next.Instead, next.InsteadAt = s.Seq, s.Start
		}},
		{"and no stamp said of it", caught, "", func(f *forger) {
			s := *f.of(evidence.Started, "/2")
			f.drop(func(d *evidence.Decision) bool { return d.Trip == s.Trip })
			f.of(evidence.Started, "/3").Instead = s.Seq
		}},
		{"the policy removed", leftOpen, "", func(f *forger) {
			f.drop(func(d *evidence.Decision) bool { return d.Type == evidence.PolicyStated })
		}},
		{"a policy that promises less", missed, "the report shows what was promised, and who reads it has to like that", func(f *forger) {
			p := *f.ds[0].Policy
			p.Slots, p.DelayMin, p.DelayMax = 100, 0, 0
			f.ds[0].Policy = &p
		}},
		{"all times shifted and stretched", leftOpen, "only the servers' Date headers disagree", func(f *forger) {
			zero := f.ds[0].Time
			for i := range f.ds {
				d := &f.ds[i]
				for _, at := range []*time.Time{&d.Time, &d.Start, &d.Prev, &d.InsteadAt, &d.BlockedUntil, &d.Until, &d.RetryAt} {
					if !at.IsZero() {
						*at = zero.Add(at.Sub(zero) * 3)
					}
				}
				d.Latency, d.Duration = d.Latency*3, d.Duration*3
			}
		}},
		{"a crawl that never was", missed, "who holds everything can invent a crawl; not without the site's log noticing", func(*forger) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &forger{t, polite(t)}
			c.lie(f)
			log := logtest.WriteWith(t, f.ds, evidence.LogConfig{Chained: true})
			if cutOff[c.name] {
				lines := logtest.Lines(log)
				log = slices.Concat(lines[:len(lines)-1]...)
			}
			report, err := audit.Check(bytes.NewReader(log))
			if err != nil {
				t.Fatal(err)
			}
			got := missed
			switch {
			case !report.OK():
				got = caught
			case !report.Complete():
				got = leftOpen
			}
			want := c.want
			if want == "" {
				want = missed
			}
			t.Logf("%s: %v", got, report.Violations)
			if got != want {
				t.Errorf("%s, want %s (%s): %v", got, want, c.why, report)
			}
		})
	}
}

// TestOneLogPerTripIsFound: a log that is split, so that no two starts are in one, is judged as what it
// is, since its Transport has the same name in all of them.
func TestOneLogPerTripIsFound(t *testing.T) {
	f := &forger{t, polite(t)}
	f.visit("https://a.example/4", f.of(evidence.Started, "/1").Start.Add(300*time.Millisecond), nil)
	trips := map[uint64][]evidence.Decision{}
	var order []uint64
	for _, d := range f.ds[1:] {
		trip := d.Trip
		if d.Type == evidence.RobotsFetched {
			trip = 0
		}
		if trips[trip] == nil {
			order = append(order, trip)
		}
		trips[trip] = append(trips[trip], d)
	}
	var all []byte
	for _, trip := range order {
		for i := range trips[trip] {
			if trips[trip][i].Seq > 0 {
				trips[trip][i].Seq = 1
			}
		}
		all = append(all, logtest.WriteWith(t, append([]evidence.Decision{f.ds[0]}, trips[trip]...), evidence.LogConfig{Chained: true})...)
	}
	report, err := audit.Check(bytes.NewReader(all))
	if err != nil || report.OK() {
		t.Errorf("%v, %v", report, err)
	}
}

// TestALogThatIsSplitIsOpen: a process that begins anew may have forgotten the start before, but has a
// new name.
func TestALogThatIsSplitIsOpen(t *testing.T) {
	f := &forger{t, polite(t)}
	last := f.of(evidence.Started, "/3").Start
	f.visit("https://a.example/4", last.Add(300*time.Millisecond), nil)
	at := slices.IndexFunc(f.ds, func(d evidence.Decision) bool { return d.Trip == 900 })
	r := check(t, slices.Concat(logtest.WriteWith(t, f.ds[:at], evidence.LogConfig{Chained: true}), logtest.WriteWith(t, f.ds[at:], evidence.LogConfig{Chained: true})))
	if !strings.Contains(openFor(r, "delays kept"), "between two logs") {
		t.Error(r)
	}
}

func TestWhatIsMissingIsOpenInWords(t *testing.T) {
	for name, c := range map[string]struct {
		log  []byte
		want string
	}{
		"an empty file":  {nil, "the log has no record"},
		"without policy": {logtest.Write(t, logtest.Crawl(1, 5)[1:]), "no policy record"},
	} {
		report, err := audit.Check(bytes.NewReader(c.log))
		if err != nil || !report.OK() || report.Complete() || !strings.Contains(report.String(), c.want) {
			t.Errorf("%s: %v, %v", name, report, err)
		}
	}
	ignored := crawlOnce(t, func(cfg *politeness.Config) { cfg.DangerouslyIgnoreRobots = true })
	if r := check(t, ignored); !r.OK() || r.Complete() || !strings.Contains(r.String(), "robots.txt is ignored, by the policy") {
		t.Error(r)
	}
	if r := check(t, crawlOnce(t, nil)); !r.Complete() {
		t.Error(r)
	}
}

// getPage fetches the page of https://a.example.
func getPage(t *testing.T, transport http.RoundTripper) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// crawlOnce returns the chained log of a page.
func crawlOnce(t *testing.T, change func(*politeness.Config)) []byte {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://a.example").Robots("User-agent: *\nDisallow: /private\n").Page("/", "x")
		log := logtest.New(t, &out, evidence.LogConfig{Chained: true})
		cfg := politeness.Config{UserAgent: "ExampleBot/1.0 (bot@example.com)", Base: web, Evidence: log, Robots: robotscache.Config{RecordText: true}}
		if change != nil {
			change(&cfg)
		}
		transport, err := politeness.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		getPage(t, transport)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return out.Bytes()
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestALogTakenOutOfAFileIsFound: chained logs that one file holds are linked.
func TestALogTakenOutOfAFileIsFound(t *testing.T) {
	name := filepath.Join(t.TempDir(), "crawl.jsonl")
	var sizes []int
	for run := range 3 {
		log, err := evidence.OpenFile(name, evidence.LogConfig{Chained: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range logtest.Again(logtest.Crawl(1, 3), run) {
			log.Record(t.Context(), d)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, int(info.Size()))
	}
	all, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if r := check(t, all); !r.OK() || r.Logs != 3 {
		t.Error(r)
	}
	if r := check(t, slices.Concat(all[:sizes[0]], all[sizes[1]:])); r.Broken[audit.BrokenChain] == 0 {
		t.Error(r)
	}
	// Of the first and the last log only the others tell: the first is missed by its successor, the
	// last by whoever knows its hash.
	if r := check(t, all[sizes[0]:]); r.Complete() || !strings.Contains(r.String(), "which isn't in the file") {
		t.Error(r)
	}
}

// TestADelayThatWasNotLearnedIsFound: a limiter that promises to learn from refusals, and doesn't,
// writes an honest log of its starts.
func TestADelayThatWasNotLearnedIsFound(t *testing.T) {
	crawl := func(adaptive hostlimit.Adaptive) string {
		var out bytes.Buffer
		synctest.Test(t, func(t *testing.T) {
			web := politenesstest.NewWeb()
			web.Site("https://a.example").Robots("").Handle("/", politenesstest.InTurn(
				politenesstest.Status(200), politenesstest.Status(429, "Retry-After", "2"), politenesstest.Status(200)))
			log := evidence.JSONLines(&out)
			transport, err := politeness.New(politeness.Config{
				UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)", Base: web, Evidence: log,
				Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second, Max: time.Second, Adaptive: adaptive}},
			})
			if err != nil {
				t.Fatal(err)
			}
			for range 8 {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example/", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				if resp, err := transport.RoundTrip(req); err == nil {
					resp.Body.Close()
				}
			}
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
		})
		return out.String()
	}
	honest, err := audit.Check(strings.NewReader(crawl(hostlimit.Learned)))
	if err != nil || !honest.OK() {
		t.Fatalf("%v, %v", honest, err)
	}
	if i := slices.IndexFunc(honest.Promises, func(p audit.Promise) bool { return p.Name == "delays kept" }); honest.Promises[i].Open > 0 {
		t.Errorf("open: %+v", honest.Promises[i])
	}
	fixed := crawl(hostlimit.Fixed)
	told := strings.Replace(fixed, `"adaptive":"Fixed"`, `"adaptive":"Learned"`, 1)
	if told == fixed {
		t.Fatal(fixed)
	}
	rude, err := audit.Check(strings.NewReader(told))
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(rude.Promises, func(p audit.Promise) bool { return p.Name == "delays kept" }); rude.Promises[i].Open == 0 {
		t.Errorf("%v", rude)
	}
}

// TestARobotsTxtByRedirectsIsProved: each hop names the trip whose answer led to it.
func TestARobotsTxtByRedirectsIsProved(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://b.example").Robots("").Page("/rules", "User-agent: *\nDisallow: /private\n")
		web.Site("https://a.example").Page("/", "x").Handle("/robots.txt", http.RedirectHandler("/moved", http.StatusFound)).
			Handle("/moved", http.RedirectHandler("https://b.example/rules", http.StatusFound))
		log := logtest.New(t, &out, evidence.LogConfig{Chained: true})
		transport, err := politeness.New(politeness.Config{
			UserAgent: "ExampleBot/1.0 (bot@example.com)", Base: web, Evidence: log, Robots: robotscache.Config{RecordText: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			getPage(t, transport)
			time.Sleep(20 * time.Hour)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
	if r := check(t, out.Bytes()); !r.Complete() || r.Records[evidence.RobotsFetched] != 4 { // b.example's own as well
		t.Errorf("%v\n%s", r, out.Bytes())
	}
	if r := check(t, bytes.ReplaceAll(out.Bytes(), []byte(`"from":2`), []byte(`"from":9`))); r.OK() {
		t.Error(r)
	}
}
