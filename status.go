package politeness

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A statusPage is what StatusHandler serves as JSON: the state of a crawl right now. Delays are
// seconds, times RFC 3339. Counts are since New. docs/steering.md names each member.
type statusPage struct {
	Time      time.Time        `json:"time"`
	UserAgent string           `json:"userAgent"`
	Starts    int64            `json:"starts"`             // requests that were sent, those for robots.txt included
	Answers   map[string]int64 `json:"answers"`            // by "2xx" and so on; "none" where none came
	Refusals  map[string]int64 `json:"refusals"`           // refusals of our own, by reason
	Waiting   map[string]int   `json:"waiting"`            // requests that wait, by what holds their host: "delay", "slot", "block", "probe", "place", "visit-time"
	HostsBy   map[string]int   `json:"hostsBy"`            // hosts by state: "blocked", "waited for", "in flight", "paced", "idle"
	Hosts     []statusHost     `json:"hosts"`              // hosts in force
	Omitted   int              `json:"omitted"`            // hosts in force that Hosts leaves out
	Known     int              `json:"known"`              // hosts whose state is kept, in force or not
	Unlisted  string           `json:"unlisted,omitempty"` // why there are no hosts: the limiter can't be asked
	Latency   []statusMinute   `json:"latency"`            // of the last hour
	Lost      string           `json:"lost,omitempty"`     // what EvidenceErr says: records that were lost
	Budget    *statusBudget    `json:"budget,omitempty"`   // nil: there is none
	Robots    *statusRobots    `json:"robots,omitempty"`   // nil: robots.txt is ignored
	Down      []statusDown     `json:"unreachable"`        // origins whose robots.txt can't be had
	MaxWait   float64          `json:"maxWait"`            // longest wait for a turn
}

// A statusHost is a host that somebody holds, wants, or has to stay away from.
type statusHost struct {
	Host         string     `json:"host"`
	SlotsUsed    int        `json:"slotsUsed"`
	Slots        int        `json:"slots"`
	Waiters      int        `json:"waiters"`
	Hold         string     `json:"hold,omitempty"` // what they wait for
	Why          string     `json:"why,omitempty"`  // the same, in a sentence
	NextStart    time.Time  `json:"nextStart"`
	Delay        float64    `json:"delay"`
	DelaySource  string     `json:"delaySource"`       // "random", "crawl-delay", "adaptive" or "learned"; empty before the first start
	Learned      float64    `json:"learned,omitempty"` // delay that refusals have taught
	BlockedUntil *time.Time `json:"blockedUntil,omitempty"`
	BlockedBy    string     `json:"blockedBy,omitempty"` // why it is blocked
	Refusals     int        `json:"refusals,omitempty"`  // in a row
	Starts       uint64     `json:"starts"`
	Silent       float64    `json:"silent,omitempty"`   // longest time for which a slot was held without a sign of life
	SilentBy     string     `json:"silentBy,omitempty"` // the request that holds it
	Leak         bool       `json:"leak,omitempty"`     // so long that its body may never be closed
}

// A statusMinute is how fast hosts answered in one minute.
type statusMinute struct {
	Time    time.Time `json:"time"`
	Answers int64     `json:"answers"`
	Mean    float64   `json:"mean"` // seconds from the start to the headers
}

// A statusDown is an origin whose robots.txt can't be had.
type statusDown struct {
	Origin   string    `json:"origin"`
	Reason   string    `json:"reason"`
	Until    time.Time `json:"until"`    // when it is asked again, if somebody wants it then
	Fallback bool      `json:"fallback"` // its pages are fetched all the same
}

// A statusBudget is what has been spent; a limit of 0 is none.
type statusBudget struct {
	Pages        int64   `json:"pages"`
	MaxPages     int64   `json:"maxPages"`
	PagesPerHost int64   `json:"maxPagesPerHost"`
	Bytes        int64   `json:"bytes"`
	MaxBytes     int64   `json:"maxBytes"`
	Seconds      float64 `json:"seconds"`
	MaxSeconds   float64 `json:"maxSeconds"`
	Error        string  `json:"error,omitempty"` // a shared budget that couldn't be asked
}

// A statusRobots is the state of the robots.txt cache; counts are since New.
type statusRobots struct {
	Origins     int   `json:"origins"`
	InFlight    int   `json:"inFlight"`
	Fetched     int64 `json:"fetched"`
	Revalidated int64 `json:"revalidated"`
	Unreachable int64 `json:"unreachable"`
	Bytes       int64 `json:"bytes"`
	MaxBytes    int64 `json:"maxBytes"`
	Evicted     int64 `json:"evicted"` // origins forgotten for want of room
}

// shownHosts is how many hosts a status lists at most: a page that a person can
// read, and a bound on what asking for it costs.
const shownHosts = 1000

// leak is for how long a slot is held without a sign of life before its body is suspected: longer
// than an answer takes.
const leak = time.Minute

// StatusHandler returns a read-only page about t, in the manner of package net/http/pprof: HTML for
// people, which keeps itself up to date; JSON for programs that ask with "Accept: application/json"
// or "?format=json", whose members docs/steering.md names; and with "?format=prometheus" what
// Prometheus scrapes; another format is answered with 400. "?host=example" keeps the hosts whose key
// holds that text. It shows what waits and why, the hosts in force, what was started and refused,
// the budget and the robots.txt cache. Nothing is served unless you mount it, and it holds the names
// of the hosts that are crawled: mount it where only you can reach it.
//
//	http.Handle("/debug/politeness", politeness.StatusHandler(t))
//
// A request is answered if its Host is localhost, an IP address or one of the given
// names, which are without a port; any other is refused with 421. So a page of a
// stranger, whose name resolves to your own machine, can't have your browser read the
// status (DNS rebinding). Nor can any other page frame it or load it.
func StatusHandler(t *Transport, names ...string) http.Handler {
	names = slices.Clone(names)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		if !expected(r.Host, names) {
			http.Error(w, "not served under this Host; give StatusHandler its name", http.StatusMisdirectedRequest)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the status is read-only", http.StatusMethodNotAllowed)
			return
		}
		format := r.FormValue("format")
		if !slices.Contains([]string{"", "json", "prometheus"}, format) {
			http.Error(w, `format is "json" or "prometheus"; without it there is a page for people`, http.StatusBadRequest)
			return
		}
		status := t.status(r)
		var page bytes.Buffer
		switch {
		case format == "prometheus":
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			status.writePrometheus(&page)
		case format == "json" || strings.Contains(r.Header.Get("Accept"), "application/json"):
			w.Header().Set("Content-Type", "application/json")
			enc := json.NewEncoder(&page)
			enc.SetIndent("", "  ")
			if err := enc.Encode(status); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		default:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			status.writeHTML(&page, r.FormValue("host"))
		}
		w.Header().Set("Cache-Control", "no-store")
		_, _ = page.WriteTo(w)
	})
}

// protect sets the headers that keep other pages from using this one. The style and the script are
// the page's own.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src '"+statusScriptHash+
		"'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// expected reports whether host, a Host header, can't be the name of a stranger.
func expected(host string, names []string) bool {
	u := url.URL{Host: host}
	name := strings.TrimSuffix(u.Hostname(), ".")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return strings.EqualFold(name, "localhost") ||
		slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

func (t *Transport) status(r *http.Request) statusPage {
	now := time.Now()
	s := statusPage{
		Time: now, UserAgent: t.userAgent[0], Starts: t.tally.starts.Load(), MaxWait: t.maxWait.Seconds(),
		Answers: map[string]int64{}, Waiting: map[string]int{}, HostsBy: map[string]int{},
		Hosts: []statusHost{}, Latency: []statusMinute{}, Down: []statusDown{},
	}
	for class := range t.tally.answers {
		name := fmt.Sprintf("%dxx", class)
		if class == 0 {
			name = "none"
		}
		if n := t.tally.answers[class].Load(); n > 0 {
			s.Answers[name] = n
		}
	}
	refusals, down, closed := t.tally.copy()
	s.Refusals = map[string]int64{}
	maps.Copy(s.Refusals, refusals)
	s.Down = append(s.Down, slices.SortedFunc(maps.Values(down), func(a, b statusDown) int { return cmp.Compare(a.Origin, b.Origin) })...)
	s.Latency = append(s.Latency, t.tally.latencies(now)...)
	if err := s.addHosts(t.hosts.List(r.Context()), r.FormValue("host"), now); err != nil {
		s.Unlisted = fmt.Sprintf("The limiter (%T) can't list its hosts: %v.", t.hosts, err)
	}
	for _, v := range closed {
		s.Waiting["visit-time"] += v.waiting
	}
	for i := range s.Hosts {
		h := &s.Hosts[i]
		if v, ok := closed[h.Host]; ok && h.Why == "" {
			h.Waiters, h.Hold, h.Why, h.NextStart = v.waiting, "visit-time", "outside of the Visit-time of robots.txt", v.until
		}
	}
	if err := t.EvidenceErr(); err != nil {
		s.Lost = err.Error()
	}
	if t.budget != nil {
		u, err := t.budget.Usage(r.Context())
		s.Budget = newStatusBudget(u, err)
	}
	if t.robots != nil {
		s.Robots = newStatusRobots(t.robots.Snapshot())
	}
	return s
}

// addHosts keeps the hosts in force, the most telling first.
func (s *statusPage) addHosts(hosts iter.Seq2[hostlimit.HostState, error], filter string, now time.Time) error {
	for h, err := range hosts {
		if err != nil {
			return err
		}
		s.Known++
		if h.Waiters > 0 {
			s.Waiting[string(h.Hold)] += h.Waiters
		}
		state := stateOf(&h, now)
		s.HostsBy[state]++
		if state == "idle" || !strings.Contains(h.Key, strings.ToLower(filter)) {
			continue
		}
		if len(s.Hosts) == 2*shownHosts {
			s.cut()
		}
		s.Hosts = append(s.Hosts, newStatusHost(h))
	}
	s.cut()
	return nil
}

// stateOf is what is most telling of a host.
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

func (s *statusPage) cut() {
	slices.SortFunc(s.Hosts, func(a, b statusHost) int {
		blocked := func(h statusHost) int {
			if h.BlockedUntil != nil {
				return 1
			}
			return 0
		}
		return cmp.Or(
			cmp.Compare(blocked(b), blocked(a)), cmp.Compare(b.Waiters, a.Waiters),
			cmp.Compare(b.SlotsUsed, a.SlotsUsed), cmp.Compare(a.Host, b.Host),
		)
	})
	shown := min(len(s.Hosts), shownHosts)
	s.Omitted += len(s.Hosts) - shown
	s.Hosts = s.Hosts[:shown]
}

func newStatusHost(h hostlimit.HostState) statusHost {
	s := statusHost{
		Host: h.Key, SlotsUsed: h.InFlight, Slots: h.Slots, Waiters: h.Waiters, NextStart: h.Next, Hold: string(h.Hold), Why: h.Why,
		Delay: h.Delay.Seconds(), DelaySource: h.DelaySource, Learned: h.Learned.Seconds(), Refusals: h.Refusals, Starts: h.Starts,
		Silent: h.Silent.Seconds(), SilentBy: h.SilentBy, Leak: h.Silent > leak,
	}
	if !h.BlockedUntil.IsZero() {
		s.BlockedUntil, s.BlockedBy = &h.BlockedUntil, h.BlockedBy
	}
	return s
}

func newStatusBudget(u budget.Usage, err error) *statusBudget {
	s := &statusBudget{
		Pages: u.Pages, MaxPages: u.Limits.Pages, PagesPerHost: u.Limits.PagesPerHost,
		Bytes: u.Bytes, MaxBytes: u.Limits.Bytes, Seconds: u.Elapsed.Seconds(), MaxSeconds: u.Limits.Duration.Seconds(),
	}
	if err != nil {
		s.Error = err.Error()
	}
	return s
}

func newStatusRobots(c robotscache.Stats) *statusRobots {
	return &statusRobots{
		Origins: c.Origins, InFlight: c.InFlight, Fetched: c.Fetched, Revalidated: c.Revalidated, Unreachable: c.Unreachable,
		Bytes: c.Bytes, MaxBytes: c.MaxBytes, Evicted: c.Evicted,
	}
}
