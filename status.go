package politeness

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/tally"
)

// A Status is the state of a crawl at one time. Counts are since New. Its JSON, which package
// statuspage serves, has delays in seconds and times in RFC 3339.
type Status struct {
	Time        time.Time           `json:"time"`
	UserAgent   string              `json:"userAgent"`
	Starts      int64               `json:"starts"`             // requests that were sent, those for robots.txt included
	Answers     map[string]int64    `json:"answers"`            // answers by class: "2xx" and so on; "none" where none came
	Refusals    map[string]int64    `json:"refusals"`           // refusals by the Transport, by reason
	Waiting     map[string]int      `json:"waiting"`            // waiting requests by cause: "delay", "slot", "block", "probe", "place", "visit-time"
	HostsBy     map[string]int      `json:"hostsBy"`            // hosts by state: "blocked", "waited for", "in flight", "paced", "idle"
	Hosts       []HostStatus        `json:"hosts"`              // hosts in another state than "idle": at most 1000, those that are blocked for longest first
	Omitted     int                 `json:"omitted"`            // number of such hosts that Hosts leaves out
	Known       int                 `json:"known"`              // number of hosts with a state, "idle" included
	Unlisted    string              `json:"unlisted,omitempty"` // why the limiter couldn't list its hosts; empty if it could
	Latency     []MinuteStatus      `json:"latency"`            // latencies of the last hour, the oldest minute first
	Lost        string              `json:"lost,omitempty"`     // text of Transport.EvidenceErr
	Budget      *BudgetStatus       `json:"budget,omitempty"`   // nil if the Transport has no budget
	Robots      *RobotsStatus       `json:"robots,omitempty"`   // nil if robots.txt is ignored
	Unreachable []UnreachableStatus `json:"unreachable"`        // origins whose robots.txt couldn't be had when it was last asked for, by name; the last 1000
	MaxWait     float64             `json:"maxWait"`            // longest wait for a turn, in seconds
}

// A HostStatus is the state of a host that has requests in flight or waiting, a delay that runs, or
// a block.
type HostStatus struct {
	Host         string    `json:"host"`
	SlotsUsed    int       `json:"slotsUsed"`
	Slots        int       `json:"slots"`
	Waiters      int       `json:"waiters"`
	Hold         string    `json:"hold,omitempty"` // cause of their wait, as in Status.Waiting
	Why          string    `json:"why,omitempty"`  // the same as a sentence
	NextStart    time.Time `json:"nextStart"`
	Delay        float64   `json:"delay"`
	DelaySource  string    `json:"delaySource"`       // "random", "crawl-delay", "adaptive" or "learned"; empty before the first start
	Learned      float64   `json:"learned,omitempty"` // delay that was learned from refusals
	BlockedUntil time.Time `json:"blockedUntil,omitzero"`
	BlockedBy    string    `json:"blockedBy,omitempty"` // reason of the block
	Refusals     int       `json:"refusals,omitempty"`  // refusals in a row
	Starts       uint64    `json:"starts"`
	Answers      int64     `json:"answers"`            // answers to this Transport, none included
	Refused      int64     `json:"refused,omitempty"`  // those of them that were refusals: 429, 401, 402, 403, 451, 408, 425, 5xx, none
	Silent       float64   `json:"silent,omitempty"`   // longest time for which a held slot's body wasn't read
	SilentBy     string    `json:"silentBy,omitempty"` // URL of the request that holds that slot
	Leak         bool      `json:"leak,omitempty"`     // Silent is over a minute: the body may never be closed
}

// RefusalShare returns the share of the host's answers that were refusals, from 0 to 1. A host with
// more than a tenth is asked for more than it wants to give.
func (h *HostStatus) RefusalShare() float64 {
	return float64(h.Refused) / float64(max(1, h.Answers))
}

// A MinuteStatus is how fast hosts answered in one minute.
type MinuteStatus struct {
	Time    time.Time `json:"time"`
	Answers int64     `json:"answers"`
	Mean    float64   `json:"mean"` // seconds from the start to the headers
}

// An UnreachableStatus is an origin whose robots.txt can't be had.
type UnreachableStatus struct {
	Origin   string    `json:"origin"`
	Reason   string    `json:"reason"`
	Until    time.Time `json:"until"`    // time from which the next request asks for robots.txt again
	Fallback bool      `json:"fallback"` // pages are fetched all the same
}

// A BudgetStatus is what has been spent. A limit of 0 is none.
type BudgetStatus struct {
	Pages        int64   `json:"pages"`
	MaxPages     int64   `json:"maxPages"`
	PagesPerHost int64   `json:"maxPagesPerHost"`
	Bytes        int64   `json:"bytes"`
	MaxBytes     int64   `json:"maxBytes"`
	Seconds      float64 `json:"seconds"`
	MaxSeconds   float64 `json:"maxSeconds"`
	Error        string  `json:"error,omitempty"` // error of a shared budget; empty if it answered
}

// A RobotsStatus is the state of the robots.txt cache.
type RobotsStatus struct {
	Origins     int   `json:"origins"`
	InFlight    int   `json:"inFlight"`
	Fetched     int64 `json:"fetched"`
	Revalidated int64 `json:"revalidated"`
	Unreachable int64 `json:"unreachable"`
	Restored    int64 `json:"restored"` // copies loaded from the Store
	Bytes       int64 `json:"bytes"`
	MaxBytes    int64 `json:"maxBytes"`
	Evicted     int64 `json:"evicted"` // origins forgotten for want of room
}

// shownHosts bounds Status.Hosts: a page that a person can read, and what a Status costs.
const shownHosts = 1000

// leak is how long a slot is held without a sign of life before its body is suspected: longer than
// an answer takes.
const leak = time.Minute

// Status returns what the crawl is doing right now. Package statuspage serves it.
func (t *Transport) Status(ctx context.Context) Status { return t.StatusOf(ctx, "") }

// StatusOf is like Status, but Hosts has only those whose key contains text.
func (t *Transport) StatusOf(ctx context.Context, text string) Status {
	now := time.Now()
	counted := t.tally.Snapshot(now)
	s := Status{
		Time: now, UserAgent: t.userAgent[0], Starts: counted.Starts, MaxWait: t.maxWait.Seconds(),
		Answers: counted.Answers, Refusals: map[string]int64{}, Waiting: map[string]int{}, HostsBy: map[string]int{},
		Hosts: []HostStatus{}, Latency: []MinuteStatus{}, Unreachable: []UnreachableStatus{},
	}
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
	for i := range s.Hosts {
		h := &s.Hosts[i]
		of := t.tally.Host(h.Host)
		h.Answers, h.Refused = of.Answers, of.Refused
	}
	if err := t.EvidenceErr(); err != nil {
		s.Lost = err.Error()
	}
	if t.cfg.Budget != nil {
		u, err := t.cfg.Budget.Usage(ctx)
		s.Budget = &BudgetStatus{
			Pages: u.Pages, MaxPages: u.Limits.Pages, PagesPerHost: u.Limits.PagesPerHost,
			Bytes: u.Bytes, MaxBytes: u.Limits.Bytes, Seconds: u.Elapsed.Seconds(), MaxSeconds: u.Limits.Duration.Seconds(),
		}
		if err != nil {
			s.Budget.Error = err.Error()
		}
	}
	if t.robots != nil {
		figures := RobotsStatus(t.robots.Snapshot())
		s.Robots = &figures
	}
	return s
}

// addHosts counts hosts and keeps those that aren't idle and whose key contains text, at most
// 2 * shownHosts of them at a time.
func (s *Status) addHosts(hosts iter.Seq2[hostlimit.HostState, error], text string, visitors map[string]tally.Visitors) error {
	defer s.cut()
	for h, err := range hosts {
		if err != nil {
			return err
		}
		s.Known++
		if h.Waiters > 0 {
			s.Waiting[h.Hold] += h.Waiters
		}
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
		if len(s.Hosts) == 2*shownHosts {
			s.cut()
		}
		s.Hosts = append(s.Hosts, newHostStatus(&h))
	}
	return nil
}

// stateOf returns the state under which Status.HostsBy counts h: the first that applies.
func stateOf(h *hostlimit.HostState, now time.Time) string {
	switch {
	case !h.BlockedUntil.IsZero(), h.Refusals > 0:
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
			b.BlockedUntil.Compare(a.BlockedUntil), cmp.Compare(b.Waiters, a.Waiters),
			cmp.Compare(b.SlotsUsed, a.SlotsUsed), cmp.Compare(a.Host, b.Host),
		)
	})
	shown := min(len(s.Hosts), shownHosts)
	s.Omitted += len(s.Hosts) - shown
	s.Hosts = s.Hosts[:shown]
}

func newHostStatus(h *hostlimit.HostState) HostStatus {
	return HostStatus{
		Host: h.Key, SlotsUsed: h.InFlight, Slots: h.Slots, Waiters: h.Waiters, NextStart: h.Next, Hold: h.Hold, Why: h.Why,
		Delay: h.Delay.Seconds(), DelaySource: h.DelaySource, Learned: h.Learned.Seconds(),
		BlockedUntil: h.BlockedUntil, BlockedBy: h.BlockedBy, Refusals: h.Refusals, Starts: h.Starts,
		Silent: h.Silent.Seconds(), SilentBy: h.SilentBy, Leak: h.Silent > leak,
	}
}
