// Package logtest makes logs for tests of what writes and reads them.
package logtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots"
)

// Day is when the crawl of Crawl begins.
var Day = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

const robotsText = "User-agent: *\nCrawl-delay: 0.5\nDisallow: /private\nAllow: /private/open\n"

// Policy is what the crawl of Crawl promises.
var Policy = evidence.Policy{
	ID: "CrawlOfTest", Product: "TestBot", Limiter: "c0ffee", Slots: 2, DelayMin: 500 * time.Millisecond, DelayMax: 500 * time.Millisecond,
	Adaptive: "Fixed", HostKey: "host", LeaseTTL: 5 * time.Minute, Backoff: "fibonacci", BackoffStep: time.Second, BackoffCap: 10 * time.Minute,
	InARow: 5, MaxRetryAfter: 24 * time.Hour, Forgive: 30 * time.Minute, Robots: "obeyed", Unreachable: "deny", Retries: 2,
}

// Crawl returns the records of a polite crawl of pages pages on each of hosts
// hosts, in the order in which they are made: its policy, then two slots a host, half a second
// between starts, a 429 now and then, some disallowed URLs, a retry, a redirect.
func Crawl(hosts, pages int) []evidence.Decision {
	var all []evidence.Decision
	trip := uint64(0)
	rnd := rand.New(rand.NewPCG(1, 2))
	const delay = 500 * time.Millisecond
	for i := range hosts {
		host := fmt.Sprintf("h%d.example", i)
		now := Day.Add(time.Duration(i) * 37 * time.Millisecond)
		var free [2]time.Time // when each slot is free
		var next, blocked time.Time
		seq := uint64(0)
		add := func(d evidence.Decision) {
			d.Host = host
			d.Method = "GET"
			d.Agent = "TestBot"
			all = append(all, d)
		}
		// exchange makes the records of one request and returns its end.
		exchange := func(d evidence.Decision, status int) time.Time {
			slot := 0
			if free[1].Before(free[0]) {
				slot = 1
			}
			start := slices.MaxFunc([]time.Time{now, free[slot], next, blocked}, time.Time.Compare)
			latency := time.Duration(rnd.IntN(300)+1) * time.Millisecond
			duration := latency + time.Duration(rnd.IntN(900))*time.Millisecond
			used := 1
			if free[1-slot].After(start) {
				used = 2
			}
			seq++
			d.Attempt = max(d.Attempt, 1)
			d.Seq = seq
			d.Start = start
			d.Allowed = true
			s := d
			s.Type = evidence.Started
			s.Time = start
			s.Delay = delay
			s.Slot = used
			s.Slots = 2
			s.WaitDelay = start.Sub(now)
			s.Probe = !blocked.IsZero() && start.Equal(blocked)
			add(s)
			next, free[slot] = start.Add(delay), start.Add(duration)
			if status == 429 {
				blocked = start.Add(latency + 5*time.Second)
				add(evidence.Decision{Type: evidence.HostBlocked, Time: start.Add(latency), Trip: d.Trip, Attempt: d.Attempt, URL: d.URL, Status: 429, Until: blocked, Kind: "refused", Refusals: 1})
			} else if s.Probe {
				add(evidence.Decision{Type: evidence.HostCleared, Time: start.Add(latency), Trip: d.Trip, Attempt: d.Attempt, URL: d.URL, Status: status, Allowed: true})
			}
			d.Type, d.Time, d.Status, d.Latency, d.Duration, d.Bytes, d.NoDate = evidence.Fetched, start.Add(duration), status, latency, duration, 1000, true
			add(d)
			// The caller goes on while the body is read.
			now = start.Add(latency)
			return start.Add(duration)
		}

		trip++
		end := exchange(evidence.Decision{Trip: trip, URL: "https://" + host + "/robots.txt", RobotsTxt: true}, 200)
		now = end
		sum := sha256.Sum256([]byte(robotsText))
		add(evidence.Decision{
			Type: evidence.RobotsFetched, Time: now, Trip: trip, Allowed: true, URL: "https://" + host + "/robots.txt", Status: 200,
			Bytes: int64(len(robotsText)), SHA256: hex.EncodeToString(sum[:]), Text: robotsText, TTL: time.Hour,
		})
		for p := range pages {
			trip++
			d := evidence.Decision{Trip: trip, Attempt: 1, URL: fmt.Sprintf("https://%s/page/%d?q=%d", host, p, i)}
			v := d
			v.Type = evidence.RobotsAllowed
			v.Time = now
			v.Allowed = true
			v.CrawlDelay = delay
			v.Group = "*"
			switch p % 7 {
			case 3:
				v.Type, v.Allowed, v.URL = evidence.BlockedByRobots, false, fmt.Sprintf("https://%s/private/%d", host, p)
				v.MatchedRule, v.Line = "Disallow: /private", 3
				add(v)
				continue
			case 5:
				d.URL = fmt.Sprintf("https://%s/private/open/%d", host, p)
				v.URL = d.URL
				v.MatchedRule = "Allow: /private/open"
				v.Line = 4
			}
			add(v)
			status := 200
			if p%10 == 4 {
				status = 429
			}
			exchange(d, status)
			if status == 429 {
				add(evidence.Decision{Type: evidence.Retried, Time: now, Trip: trip, Attempt: 1, URL: d.URL, Allowed: true, Status: 429})
				d.Attempt = 2
				exchange(d, 200)
			}
			if p%10 == 6 { // a redirect: one more trip, no page
				trip++
				d.Trip = trip
				d.Redirects = 1
				d.Attempt = 1
				d.URL = d.URL + "&to=1"
				v.Trip = trip
				v.Redirects = 1
				v.URL = d.URL
				v.Time = now
				v.Type, v.Allowed = evidence.RobotsAllowed, true
				add(v)
				exchange(d, 200)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b evidence.Decision) int { return a.Time.Compare(b.Time) })
	all = slices.Insert(all, 0, evidence.Decision{Type: evidence.PolicyStated, Time: Day, Allowed: true, Policy: &Policy})
	for i := range all {
		all[i].Transport = Policy.ID
	}
	return all
}

// Again returns the records of another process that makes the same crawl so many days later.
func Again(records []evidence.Decision, days int) []evidence.Decision {
	p := Policy
	p.ID, p.Limiter = fmt.Sprint(p.ID, days), fmt.Sprint(p.Limiter, days)
	again := slices.Clone(records)
	for i := range again {
		d := &again[i]
		if d.Transport = p.ID; d.Policy != nil {
			d.Policy = &p
		}
		for _, t := range [...]*time.Time{&d.Time, &d.Start, &d.Until} {
			if !t.IsZero() {
				*t = t.AddDate(0, 0, days)
			}
		}
	}
	return again
}

// New is evidence.NewLog for a cfg that is right.
func New(tb testing.TB, w io.Writer, cfg evidence.LogConfig) *evidence.Log {
	tb.Helper()
	log, err := evidence.NewLog(w, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return log
}

// Write returns records as the lines of a plain log.
func Write(tb testing.TB, records []evidence.Decision) []byte {
	tb.Helper()
	return WriteWith(tb, records, evidence.LogConfig{})
}

// WriteWith returns records as the lines of a log that has cfg.
func WriteWith(tb testing.TB, records []evidence.Decision, cfg evidence.LogConfig) []byte {
	tb.Helper()
	var out bytes.Buffer
	log := New(tb, &out, cfg)
	for _, d := range records {
		log.Record(context.Background(), d)
	}
	if err := log.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// Lines returns the lines of a log, each with its end.
func Lines(log []byte) [][]byte { return slices.Collect(bytes.Lines(log)) }

// A fullStore keeps nothing.
type fullStore struct{}

func (fullStore) Update(_ context.Context, _ string, change func(hostlimit.Debt) hostlimit.Debt) (hostlimit.Debt, error) {
	return change(hostlimit.Debt{}), errors.New("no space left on device")
}

// Real returns the log of a real Transport that meets whatever it can record.
func Real(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://a.example").
			Robots("User-agent: *\nDisallow: /private\nCrawl-delay: 1\n").
			Page("/", "home").Page("/large", strings.Repeat("x", 5000)).Page("/rule", "").
			Handle("/moved", http.RedirectHandler("/", http.StatusFound)).
			Handle("/noindex", politenesstest.Text("<meta name=robots content=noindex>")).
			Handle("/busy", politenesstest.InTurn(politenesstest.Status(429, "Retry-After", "20"), politenesstest.Text("fine"))).
			Handle("/gone", politenesstest.Drop()).
			Handle("/reserved", politenesstest.Status(200, "Tdm-Reservation", "1")).
			Latency(300 * time.Millisecond).Dial(450 * time.Millisecond)
		web.Site("https://b.example").RobotsStatus(503).Page("/", "home")
		limiter, err := hostlimit.New(hostlimit.Config{SlotTimeout: 20 * time.Second, LeaseTTL: time.Minute, Store: fullStore{}})
		if err != nil {
			t.Fatal(err)
		}
		log := New(t, &out, evidence.LogConfig{Chained: true})
		transport, err := politeness.New(politeness.Config{
			UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
			Base:      web, Limiter: limiter, Evidence: log,
			Budget:   budget.New(budget.Limits{Pages: 20, WarnAt: 0.5}),
			Retry:    politeness.Retry{Max: 1},
			Purposes: []robots.Purpose{robots.Train},
			Response: politeness.ResponseLimits{MaxBytes: 2000},
			Refuse: func(r *http.Request) error {
				if r.URL.Path == "/rule" {
					return errors.New("not this one")
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: transport}
		get := func(url string) *http.Response {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Error(err)
				return nil
			}
			resp, err := client.Do(req)
			if err != nil {
				return nil // refused, and in the log
			}
			return resp
		}
		read := func(url string) {
			if resp := get(url); resp != nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		for _, path := range []string{"/", "/private", "/large", "/rule", "/moved", "/noindex", "/busy", "/gone", "/reserved"} {
			read("https://user:hunter2@a.example" + path)
			if path == "/noindex" {
				web.Site("https://a.example").HangUp()
			}
		}
		read("https://b.example/")
		// Two bodies are kept open: nobody gets a turn until their leases end.
		kept := []*http.Response{get("https://a.example/"), get("https://a.example/")} //nolint:bodyclose // below
		read("https://a.example/")
		time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual
		read("https://a.example/")
		for _, resp := range kept {
			resp.Body.Close()
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { read(fmt.Sprintf("https://a.example/?page=%d", i)) })
		}
		wg.Wait()
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return out.Bytes()
}
