package page

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/logtest"
)

// sample returns the log of a crawl that never was, of about n records: hosts of
// all sizes and tempers, two slots each, refusals, blocks, retries, redirects and
// failures. change may spoil the records; nil leaves the crawl polite.
func sample(tb testing.TB, n int, change func([]evidence.Decision)) []byte {
	tb.Helper()
	names := []string{
		"www.harbourside-books.example", "shop.nordlicht.example", "docs.kiwi-tools.example", "news.eastgate.example",
		"api.parcel-post.example", "blog.fernweh.example", "wiki.old-maps.example", "static.blue-heron.example",
		"forum.tinkerers.example", "archive.city-hall.example", "museum.example", "recipes.grandma.example",
		"jobs.lighthouse.example", "img.photofarm.example", "tickets.opera.example", "weather.coast.example",
	}
	for i := 0; len(names) < 16+n/2500; i++ {
		names = append(names, fmt.Sprintf("site-%03d.example", i))
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	var all []evidence.Decision
	trip := uint64(0)
	var hosts []*sampleHost
	perSecond := 0.0 // requests, of all hosts
	for i, name := range names {
		c := &sampleHost{name: name, rnd: rnd, trip: &trip, all: &all, delay: time.Duration(rnd.IntN(6)+2) * 250 * time.Millisecond}
		c.latency = time.Duration(20+rnd.IntN(900)) * time.Millisecond
		c.now = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC).Add(time.Duration(i*173) * time.Millisecond)
		c.rate = 1 / (max(c.delay, c.latency) + 500*time.Millisecond).Seconds() * (0.5 + rnd.Float64()/2)
		perSecond += c.rate
		hosts = append(hosts, c)
	}
	for i, c := range hosts {
		c.crawl(max(3, int(float64(n)/3.1*c.rate/perSecond)), i)
	}
	slices.SortStableFunc(all, func(a, b evidence.Decision) int { return a.Time.Compare(b.Time) })
	all = slices.Insert(all, 0, evidence.Decision{Type: evidence.PolicyStated, Time: all[0].Time, Allowed: true, Policy: &evidence.Policy{
		ID: "SampleOfACr", Product: "ExampleBot", Limiter: "c0ffee", Slots: 2, DelayMin: 500 * time.Millisecond, Adaptive: "Fixed", HostKey: "host",
		Backoff: "doubling", BackoffStep: time.Second, BackoffCap: time.Minute, Robots: "obeyed", Unreachable: "deny", Retries: 1,
	}})
	for i := range all {
		all[i].Transport = all[0].Policy.ID
	}
	if change != nil {
		change(all)
	}
	var out bytes.Buffer
	log := logtest.New(tb, &out, evidence.LogConfig{Chained: true})
	for _, d := range all {
		log.Record(context.Background(), d)
	}
	if err := log.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

type sampleHost struct {
	name           string
	rnd            *rand.Rand
	trip           *uint64
	all            *[]evidence.Decision
	delay, latency time.Duration
	rate           float64 // requests a second, about

	now, next, blocked time.Time
	free               [2]time.Time
	seq                uint64
	refusals           int
}

func (c *sampleHost) add(d evidence.Decision) {
	d.Host, d.Method, d.Agent = c.name, "GET", "ExampleBot"
	d.Attempt = max(d.Attempt, 1)
	*c.all = append(*c.all, d)
}

func (c *sampleHost) crawl(pages, kind int) {
	base := "https://" + c.name
	text := "User-agent: *\nDisallow: /private\nDisallow: /*?sessionid=\nDisallow: /cart\nAllow: /private/press\n"
	*c.trip++
	c.exchange(evidence.Decision{Trip: *c.trip, URL: base + "/robots.txt", RobotsTxt: true}, 200, 0)
	c.now = (*c.all)[len(*c.all)-1].Time // when its body was read
	sum := sha256.Sum256([]byte(text))
	c.add(evidence.Decision{
		Type: evidence.RobotsFetched, Time: c.now, Trip: *c.trip, Allowed: true, URL: base + "/robots.txt", Status: 200,
		Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:]), Text: text, TTL: time.Hour,
	})
	words := []string{"news", "item", "article", "product", "category/shoes", "about", "press", "2026/11", "archive/1998"}
	for p := range pages {
		if c.rnd.IntN(12) == 0 { // nothing to fetch here for a while
			c.now = c.now.Add(time.Duration(c.rnd.IntN(8000)) * time.Millisecond)
		}
		*c.trip++
		d := evidence.Decision{Trip: *c.trip, URL: fmt.Sprintf("%s/%s/%d", base, words[c.rnd.IntN(len(words))], p)}
		v := d
		v.Type, v.Time, v.Allowed, v.Group = evidence.RobotsAllowed, c.now, true, "*"
		roll := c.rnd.IntN(1000)
		if roll < 45 {
			path, rule, line := "/private/reports/", "Disallow: /private", 2
			switch roll % 3 {
			case 1:
				path, rule, line = "/item?sessionid=", "Disallow: /*?sessionid=", 3
			case 2:
				path, rule, line = "/cart/", "Disallow: /cart", 4
			}
			v.Type, v.Allowed, v.URL = evidence.BlockedByRobots, false, fmt.Sprintf("%s%s%d", base, path, p)
			v.MatchedRule, v.Line = rule, line
			c.add(v)
			continue
		}
		c.add(v)
		switch {
		case roll < 57 && kind%3 == 0 && c.now.After(c.blocked.Add(20*time.Second)):
			c.exchange(d, 429, time.Duration(5+c.rnd.IntN(30))*time.Second)
			c.add(evidence.Decision{Type: evidence.Retried, Time: c.now, Trip: d.Trip, URL: d.URL, Allowed: true, Status: 429})
			d.Attempt = 2
			c.exchange(d, 200, 0)
		case roll < 80:
			c.exchange(d, 404, 0)
		case roll < 110:
			c.exchange(d, 301, 0)
			*c.trip++
			d.Trip, d.Redirects, d.URL = *c.trip, 1, d.URL+"/"
			v.Trip, v.Redirects, v.URL, v.Time = d.Trip, 1, d.URL, c.now
			c.add(v)
			c.exchange(d, 200, 0)
		case roll < 116:
			c.exchange(d, 0, 0)
		case roll < 122:
			c.exchange(d, 500, time.Second)
		default:
			c.exchange(d, 200, 0)
		}
	}
}

// exchange makes the records of one request; block is how long the host wants
// to be left alone after it.
func (c *sampleHost) exchange(d evidence.Decision, status int, block time.Duration) {
	slot := 0
	if c.free[1].Before(c.free[0]) {
		slot = 1
	}
	start := slices.MaxFunc([]time.Time{c.now, c.free[slot], c.next, c.blocked}, time.Time.Compare)
	latency := c.latency/2 + time.Duration(c.rnd.Int64N(int64(c.latency)))
	if c.rnd.IntN(40) == 0 {
		latency *= 4
	}
	duration := latency + time.Duration(c.rnd.Int64N(int64(c.latency)*2))
	used := 1
	if c.free[1-slot].After(start) {
		used = 2
	}
	c.seq++
	d.Attempt = max(d.Attempt, 1)
	d.Seq, d.Start, d.Allowed = c.seq, start, true
	s := d
	s.Type, s.Time, s.Delay, s.Slot, s.Slots = evidence.Started, start, c.delay+time.Duration(c.rnd.IntN(200))*time.Millisecond, used, 2
	s.Probe = !c.blocked.IsZero() && start.Equal(c.blocked)
	if s.Probe {
		s.WaitBlock = start.Sub(c.now)
	} else if wait := start.Sub(c.now); wait > 0 {
		s.WaitDelay = wait
	}
	c.add(s)
	c.next, c.free[slot] = start.Add(s.Delay), start.Add(duration)
	switch {
	case block > 0:
		c.refusals++
		kind := "refused"
		if status == 500 {
			kind = "unsure"
		}
		c.blocked = start.Add(latency + block)
		c.add(evidence.Decision{
			Type: evidence.HostBlocked, Time: start.Add(latency), Trip: d.Trip, Attempt: d.Attempt, URL: d.URL, Status: status,
			Until: c.blocked, RetryAt: c.blocked, Refusals: 1, Kind: kind, Reason: "by Retry-After",
		})
	case s.Probe:
		c.add(evidence.Decision{Type: evidence.HostCleared, Time: start.Add(latency), Trip: d.Trip, Attempt: d.Attempt, URL: d.URL, Status: status, Allowed: true})
	}
	d.Type, d.Status, d.Latency, d.Duration = evidence.Fetched, status, latency, duration
	d.Bytes, d.ContentType = 2000+c.rnd.Int64N(60_000), "text/html; charset=utf-8"
	if status == 0 {
		d.Type, d.Allowed, d.Bytes, d.ContentType = evidence.Failed, false, 0, ""
		d.Err, d.Left = "context canceled", true
	}
	d.Time = start.Add(duration)
	c.add(d)
	c.now = start.Add(latency)
}

// spoil breaks a few promises.
func spoil(all []evidence.Decision) {
	i := slices.IndexFunc(all, func(d evidence.Decision) bool {
		return d.Type == evidence.BlockedByRobots && strings.HasPrefix(d.Host, "shop.")
	})
	blocked := all[i]
	j := i + slices.IndexFunc(all[i:], func(d evidence.Decision) bool {
		return d.Type == evidence.Started && d.Host == blocked.Host
	})
	all[j].URL, all[j].Trip = blocked.URL, cmp.Or(blocked.Trip)
	seen := 0
	for i := range all {
		d := &all[i]
		if !strings.HasPrefix(d.Host, "news.") || d.Type != evidence.Started {
			continue
		}
		switch seen++; {
		case seen == 12:
			d.CrawlDelay = 20 * time.Second
		case seen > 30 && d.Slot == 2:
			d.Slot, d.Slots = 1, 1
			return
		}
	}
}
