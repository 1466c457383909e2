package logtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

const (
	crawlDelay = 500 * time.Millisecond
	robotsText = "User-agent: *\nCrawl-delay: 0.5\nDisallow: /private\nAllow: /private/open\n"
)

// Crawl returns the records of a polite crawl of so many pages on each of so many hosts, in the
// order in which they are made: its policy, then two slots a host, half a second between starts, a
// 429 now and then, some disallowed URLs, a retry, a redirect.
func Crawl(hosts, pages int) []evidence.Decision {
	c := &crawl{random: rand.New(rand.NewPCG(1, 2))}
	for i := range hosts {
		h := &hostCrawl{
			crawl: c,
			host:  fmt.Sprintf("h%d.example", i),
			now:   Day.Add(time.Duration(i) * 37 * time.Millisecond),
		}
		h.robots()
		for page := range pages {
			h.page(page, fmt.Sprintf("q=%d", i))
		}
	}
	all := c.records
	slices.SortStableFunc(all, func(a, b evidence.Decision) int { return a.Time.Compare(b.Time) })
	all = slices.Insert(all, 0, evidence.Decision{
		Type:    evidence.PolicyStated,
		Time:    Day,
		Allowed: true,
		Policy:  &Policy,
	})
	for i := range all {
		all[i].Transport = Policy.ID
	}
	return all
}

// A crawl collects the records of Crawl.
type crawl struct {
	records []evidence.Decision
	random  *rand.Rand
	trip    uint64 // number of the latest trip
}

// A hostCrawl is the part of a crawl on one host, where one request follows the other.
type hostCrawl struct {
	*crawl
	host    string
	now     time.Time    // when the caller has got the headers of the last response
	free    [2]time.Time // when each slot is free
	next    time.Time    // earliest next start, by the delay
	blocked time.Time    // end of the last block; zero: there was none
	starts  uint64
}

// add adds a record about the host.
func (h *hostCrawl) add(d evidence.Decision) {
	d.Host = h.host
	d.Method = "GET"
	d.Agent = "TestBot"
	h.records = append(h.records, d)
}

// exchange adds the records of one request, and returns when it ends. The caller goes on while the
// body is read.
func (h *hostCrawl) exchange(d evidence.Decision, status int) time.Time {
	slot := 0
	if h.free[1].Before(h.free[0]) {
		slot = 1
	}
	start := slices.MaxFunc([]time.Time{h.now, h.free[slot], h.next, h.blocked}, time.Time.Compare)
	latency := time.Duration(h.random.IntN(300)+1) * time.Millisecond
	duration := latency + time.Duration(h.random.IntN(900))*time.Millisecond
	used := 1
	if h.free[1-slot].After(start) {
		used = 2
	}
	h.starts++
	d.Attempt = max(d.Attempt, 1)
	d.Seq = h.starts
	d.Start = start
	d.Allowed = true

	started := d
	started.Type = evidence.Started
	started.Time = start
	started.Delay = crawlDelay
	started.Slot = used
	started.Slots = 2
	started.WaitDelay = start.Sub(h.now)
	started.Probe = !h.blocked.IsZero() && start.Equal(h.blocked)
	h.add(started)

	h.next = start.Add(crawlDelay)
	h.free[slot] = start.Add(duration)
	h.now = start.Add(latency)
	h.learn(&started, status)

	fetched := d
	fetched.Type = evidence.Fetched
	fetched.Time = start.Add(duration)
	fetched.Status = status
	fetched.Latency = latency
	fetched.Duration = duration
	fetched.Bytes = 1000
	fetched.NoDate = true
	h.add(fetched)
	return fetched.Time
}

// learn adds the record of a block that a 429 sets, or of its end after the probe.
func (h *hostCrawl) learn(started *evidence.Decision, status int) {
	d := evidence.Decision{
		Time:    h.now,
		Trip:    started.Trip,
		Attempt: started.Attempt,
		URL:     started.URL,
		Status:  status,
	}
	switch {
	case status == 429:
		h.blocked = h.now.Add(5 * time.Second)
		d.Type = evidence.HostBlocked
		d.Until = h.blocked
		d.Kind = "refused"
		d.Refusals = 1
		h.add(d)
	case started.Probe:
		d.Type = evidence.HostCleared
		d.Allowed = true
		h.add(d)
	}
}

// robots adds the fetch of robots.txt, whose end the first page waits for.
func (h *hostCrawl) robots() {
	h.trip++
	url := "https://" + h.host + "/robots.txt"
	h.now = h.exchange(evidence.Decision{Trip: h.trip, URL: url, RobotsTxt: true}, 200)
	sum := sha256.Sum256([]byte(robotsText))
	h.add(evidence.Decision{
		Type:    evidence.RobotsFetched,
		Time:    h.now,
		Trip:    h.trip,
		Allowed: true,
		URL:     url,
		Status:  200,
		Bytes:   int64(len(robotsText)),
		SHA256:  hex.EncodeToString(sum[:]),
		Text:    robotsText,
		TTL:     time.Hour,
	})
}

// page adds the records of page i, of which some are disallowed, refused, or redirect to another
// one.
func (h *hostCrawl) page(i int, query string) {
	h.trip++
	d := evidence.Decision{
		Trip:    h.trip,
		Attempt: 1,
		URL:     fmt.Sprintf("https://%s/page/%d?%s", h.host, i, query),
	}
	verdict := d
	verdict.Type = evidence.RobotsAllowed
	verdict.Time = h.now
	verdict.Allowed = true
	verdict.CrawlDelay = crawlDelay
	verdict.Group = "*"
	switch i % 7 {
	case 3:
		verdict.Type = evidence.BlockedByRobots
		verdict.Allowed = false
		verdict.URL = fmt.Sprintf("https://%s/private/%d", h.host, i)
		verdict.MatchedRule = "Disallow: /private"
		verdict.Line = 3
		h.add(verdict)
		return
	case 5:
		d.URL = fmt.Sprintf("https://%s/private/open/%d", h.host, i)
		verdict.URL = d.URL
		verdict.MatchedRule = "Allow: /private/open"
		verdict.Line = 4
	}
	h.add(verdict)
	switch i % 10 {
	case 4: // a refusal, and another try
		h.exchange(d, 429)
		h.add(evidence.Decision{
			Type:    evidence.Retried,
			Time:    h.now,
			Trip:    h.trip,
			Attempt: 1,
			URL:     d.URL,
			Allowed: true,
			Status:  429,
		})
		d.Attempt = 2
		h.exchange(d, 200)
	case 6: // a redirect: one more trip, no page
		h.exchange(d, 200)
		h.trip++
		d.Trip = h.trip
		d.Redirects = 1
		d.URL += "&to=1"
		verdict.Trip = h.trip
		verdict.Redirects = 1
		verdict.URL = d.URL
		verdict.Time = h.now
		h.add(verdict)
		h.exchange(d, 200)
	default:
		h.exchange(d, 200)
	}
}
