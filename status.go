package politeness

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/durations"
	"github.com/go-politeness/politeness/internal/tally"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A Status is the state of a crawl at one time. Counts are since New. Its JSON, which package
// statuspage serves, has delays in seconds and times in RFC 3339. Use it for a status page or
// metrics of your own.
type Status struct {
	Time      time.Time `json:"time"`
	UserAgent string    `json:"userAgent"`

	// Starts counts the requests that were sent, those for robots.txt included. Answers counts
	// their responses by class, such as "2xx". Class "none" counts requests without a response.
	Starts  int64            `json:"starts"`
	Answers map[string]int64 `json:"answers"`

	// Refusals counts the refusals by the Transport, by reason.
	Refusals map[string]int64 `json:"refusals"`

	// Waiting counts the requests that wait, by cause. Causes are "delay", "slot", "block",
	// "probe", "place", "site" and "visit-time". For the first six see hostlimit.Wait. "visit-time"
	// means that robots.txt has a Visit-time, and the present time is outside of it.
	Waiting map[string]int `json:"waiting"`

	// HostsBy counts the hosts by state. States are "blocked", "waited for", "in flight", "paced"
	// and "idle".
	HostsBy map[string]int `json:"hostsBy"`

	// Hosts are at most 1000 hosts that aren't "idle". Hosts that are blocked for longest come first.
	// Omitted is the number of hosts that are left out for this limit. Known is the number of all
	// hosts, "idle" ones included.
	Hosts   []HostStatus `json:"hosts"`
	Omitted int          `json:"omitted"`
	Known   int          `json:"known"`

	// Unlisted is the reason why the limiter couldn't list its hosts, empty if it could.
	Unlisted string `json:"unlisted,omitempty"`

	// Latency has the latencies of the last hour, the oldest minute first.
	Latency []MinuteStatus `json:"latency"`

	// Crawls has the crawls that run now, the oldest first. If none runs, it has the one that ended
	// last. It is empty if no crawler called ReportCrawl.
	Crawls []CrawlStatus `json:"crawls,omitempty"`

	// Lost is the text of Transport.EvidenceErr, empty if nothing is lost.
	Lost string `json:"lost,omitempty"`

	// Warning is set if another limiter of this process sends requests to a host too. It names the
	// remedy. Otherwise it is empty.
	Warning string `json:"warning,omitempty"`

	// Budget is nil if the Transport has none. BudgetError is the reason why a shared budget
	// couldn't be read, empty if it could.
	Budget      *budget.Usage `json:"budget,omitempty"`
	BudgetError string        `json:"budgetError,omitempty"`

	// Robots has the figures of the cache of robots.txt, nil if robots.txt is ignored.
	Robots *robotscache.Stats `json:"robots,omitempty"`

	// Unreachable are the origins whose robots.txt couldn't be fetched at the last try. They are the
	// latest 1000, sorted by name.
	Unreachable []UnreachableStatus `json:"unreachable"`

	// MaxWait is the longest wait of a request for its start, in seconds.
	MaxWait float64 `json:"maxWait"`
}

// A HostStatus is the state of a host that has requests in flight or waiting, a delay that runs,
// or a block. It has the limiter's state of the host, and the counts of this Transport.
type HostStatus struct {
	hostlimit.HostState

	// Answers counts the responses to this Transport. A try that got no response counts too.
	// Refused counts the refusals among them, which are 429, 401, 402, 403, 451, 408, 425, 5xx and
	// no response.
	Answers int64 `json:"answers"`
	Refused int64 `json:"refused,omitempty"`

	// Leak is true if Silent is over a minute. Probably the program doesn't close the body of a
	// response.
	Leak bool `json:"leak,omitempty"`
}

// RefusalShare returns the share of the host's responses that were refusals, from 0 to 1. A host
// with more than a tenth is asked for more than it wants to give.
func (h *HostStatus) RefusalShare() float64 {
	return float64(h.Refused) / float64(max(1, h.Answers))
}

// A MinuteStatus is how fast hosts responded in one minute. Use it to draw the response times of
// the last hour.
type MinuteStatus struct {
	Time    time.Time `json:"time"`
	Answers int64     `json:"answers"`
	Mean    float64   `json:"mean"` // seconds from the start to the headers
}

// An UnreachableStatus is an origin whose robots.txt can't be fetched.
type UnreachableStatus struct {
	Origin   string    `json:"origin"`
	Reason   string    `json:"reason"`
	Until    time.Time `json:"until"`    // time from which the next request asks for robots.txt again
	Fallback bool      `json:"fallback"` // pages are fetched all the same
}

// shownHosts bounds Status.Hosts, so that the page can be read, and a Status stays cheap.
const shownHosts = 1000

// leak is how long a slot is held without a sign of life before its body is suspected: longer than
// a response takes.
const leak = time.Minute

// Status returns the present state of the crawl. Package statuspage serves it. Use it to show a
// crawl in a page of your own.
func (t *Transport) Status(ctx context.Context) Status { return t.StatusOf(ctx, "") }

// StatusOf is like Status, but Hosts has only those whose key contains text. Use it if a crawl has
// many hosts.
func (t *Transport) StatusOf(ctx context.Context, text string) Status {
	now := time.Now()
	counted := t.tally.Snapshot(now)
	s := Status{
		Time:        now,
		UserAgent:   t.userAgent[0],
		Starts:      counted.Starts,
		Answers:     counted.Answers,
		Refusals:    map[string]int64{},
		Waiting:     map[string]int{},
		HostsBy:     map[string]int{},
		Hosts:       []HostStatus{},
		Latency:     []MinuteStatus{},
		Unreachable: []UnreachableStatus{},
		MaxWait:     t.maxWait.Seconds(),
	}
	// Empty maps and slices are written as such, which spares a reader of the JSON the null.
	maps.Copy(s.Refusals, counted.Refusals)
	for _, u := range counted.Unreachable {
		s.Unreachable = append(s.Unreachable, UnreachableStatus(u))
	}
	for _, m := range counted.Latency {
		s.Latency = append(s.Latency, MinuteStatus(m))
	}
	if err := s.addHosts(t.cfg.Limiter.List(ctx), text, counted.Visitors); err != nil {
		s.Unlisted = fmt.Sprintf("The limiter (%T) can't list its hosts: %v.", t.cfg.Limiter, err)
	}
	for _, v := range counted.Visitors {
		s.Waiting["visit-time"] += v.Waiting
	}
	// Only the hosts that are shown are looked up, after cut.
	for i := range s.Hosts {
		h := &s.Hosts[i]
		of := t.tally.Host(h.Key)
		h.Answers = of.Answers
		h.Refused = of.Refused
	}
	s.Crawls = t.crawls.list()
	if err := t.EvidenceErr(); err != nil {
		s.Lost = err.Error()
	}
	if t.kin != nil {
		s.Warning = t.kin.warned()
	}
	if t.cfg.Budget != nil {
		usage, err := t.cfg.Budget.Usage(ctx)
		s.Budget = &usage
		if err != nil {
			s.BudgetError = err.Error()
		}
	}
	if t.robots != nil {
		figures := t.robots.Snapshot()
		s.Robots = &figures
	}
	return s
}

// addHosts counts hosts and keeps those that aren't idle and whose key contains text, at most
// 2 * shownHosts of them at a time.
func (s *Status) addHosts(
	hosts iter.Seq2[hostlimit.HostState, error], text string, visitors map[string]tally.Visitors,
) error {
	defer s.cut()
	for h, err := range hosts {
		if err != nil {
			return err
		}
		s.Known++
		if h.Waiters > 0 {
			s.Waiting[h.Hold] += h.Waiters
		}
		// The limiter knows nothing of those that wait for a Visit-time, which wait before its queue.
		if v, ok := visitors[h.Key]; ok && h.Why == "" {
			h.Waiters = v.Waiting
			h.Hold = "visit-time"
			h.Why = "outside of the Visit-time of robots.txt"
			h.Next = v.Until
		}
		state := stateOf(&h, s.Time)
		s.HostsBy[state]++
		if state == "idle" || !strings.Contains(strings.ToLower(h.Key), strings.ToLower(text)) {
			continue
		}
		// The limiter may know millions of hosts: no more than twice those shown are in memory.
		if len(s.Hosts) == 2*shownHosts {
			s.cut()
		}
		s.Hosts = append(s.Hosts, HostStatus{HostState: h, Leak: h.Silent > leak})
	}
	return nil
}

// stateOf returns the state under which Status.HostsBy counts h: the first that applies.
func stateOf(h *hostlimit.HostState, now time.Time) string {
	switch {
	case !h.BlockedUntil.IsZero(), h.Refusals > 0: // after a block its probe is still to come
		return "blocked"
	case h.Waiters > 0:
		return "waited for"
	case h.InFlight > 0:
		return "in flight"
	case h.Next.After(now):
		return "paced"
	}
	return "idle"
}

// cut sorts Hosts, those that are blocked for longest first, and drops those beyond shownHosts.
func (s *Status) cut() {
	slices.SortFunc(s.Hosts, func(a, b HostStatus) int {
		return cmp.Or(
			b.BlockedUntil.Compare(a.BlockedUntil),
			cmp.Compare(b.Waiters, a.Waiters),
			cmp.Compare(b.InFlight, a.InFlight),
			cmp.Compare(a.Key, b.Key),
		)
	})
	shown := min(len(s.Hosts), shownHosts)
	s.Omitted += len(s.Hosts) - shown
	s.Hosts = s.Hosts[:shown]
}

// hostJSON has the members of a HostStatus's JSON. Its own fields hide those of the same name.
type hostJSON struct {
	hostFields
	Delay    durations.Seconds `json:"delay"`
	Adaptive durations.Seconds `json:"adaptive,omitempty"`
	Learned  durations.Seconds `json:"learned,omitempty"`
	Silent   durations.Seconds `json:"silent,omitempty"`
}

// hostFields is a HostStatus without its methods.
type hostFields HostStatus

// MarshalJSON implements json.Marshaler.
func (h HostStatus) MarshalJSON() ([]byte, error) {
	return json.Marshal(hostJSON{
		hostFields: hostFields(h),
		Delay:      durations.Seconds(h.Delay),
		Adaptive:   durations.Seconds(h.Adaptive),
		Learned:    durations.Seconds(h.Learned),
		Silent:     durations.Seconds(h.Silent),
	})
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *HostStatus) UnmarshalJSON(data []byte) error {
	var read hostJSON
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	*h = HostStatus(read.hostFields)
	h.Delay = time.Duration(read.Delay)
	h.Adaptive = time.Duration(read.Adaptive)
	h.Learned = time.Duration(read.Learned)
	h.Silent = time.Duration(read.Silent)
	return nil
}
