package politeness

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/printable"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// Status is what StatusHandler serves as JSON: the state of a crawl right now.
// Delays are seconds, times RFC 3339.
type Status struct {
	Time      time.Time    `json:"time"`
	UserAgent string       `json:"userAgent"`
	Hosts     []HostStatus `json:"hosts"`
	Omitted   int          `json:"omitted"`            // hosts in force that Hosts leaves out
	Known     int          `json:"known"`              // hosts whose state is kept, in force or not
	Unlisted  string       `json:"unlisted,omitempty"` // why there are no hosts: the limiter keeps them elsewhere
	Budget    *BudgetUsage `json:"budget,omitempty"`
	Robots    *RobotsUsage `json:"robots,omitempty"`
}

// HostStatus is one host that somebody holds, wants, or has to stay away from.
type HostStatus struct {
	Host         string     `json:"host"`
	SlotsUsed    int        `json:"slotsUsed"`
	Slots        int        `json:"slots"`
	Waiters      int        `json:"waiters"`
	NextStart    time.Time  `json:"nextStart"`
	Delay        float64    `json:"delay"`
	DelaySource  string     `json:"delaySource"` // "random", "crawl-delay", "adaptive" or "learned"; empty before the first start
	BlockedUntil *time.Time `json:"blockedUntil,omitempty"`
	BlockedBy    string     `json:"blockedBy,omitempty"` // why it is blocked
	Refusals     int        `json:"refusals,omitempty"`  // in a row
	Starts       uint64     `json:"starts"`
}

// BudgetUsage is what has been spent; a limit of 0 is none.
type BudgetUsage struct {
	Pages        int64   `json:"pages"`
	MaxPages     int64   `json:"maxPages"`
	PagesPerHost int64   `json:"maxPagesPerHost"`
	Bytes        int64   `json:"bytes"`
	MaxBytes     int64   `json:"maxBytes"`
	Seconds      float64 `json:"seconds"`
	MaxSeconds   float64 `json:"maxSeconds"`
	Error        string  `json:"error,omitempty"` // a shared budget that couldn't be asked
}

// RobotsUsage is the state of the robots.txt cache; counts are since New.
type RobotsUsage struct {
	Origins     int   `json:"origins"`
	InFlight    int   `json:"inFlight"`
	Fetched     int64 `json:"fetched"`
	Revalidated int64 `json:"revalidated"`
	Unreachable int64 `json:"unreachable"`
	Bytes       int64 `json:"bytes"`
	MaxBytes    int64 `json:"maxBytes"`
	Evicted     int64 `json:"evicted"`   // origins forgotten for want of room
	Refetched   int64 `json:"refetched"` // fetches that forgetting has caused
}

// shownHosts is how many hosts a status lists at most: a page that a person can
// read, and a bound on what asking for it costs.
const shownHosts = 1000

// StatusHandler returns a read-only page about t, in the manner of package net/http/pprof: HTML for
// people, JSON (type Status) for programs that ask with "Accept: application/json" or
// "?format=json". "?host=example" keeps the hosts whose key holds that text. It shows the hosts in
// force, the budget and the robots.txt cache. Nothing is served unless you mount it, and it holds
// the names of the hosts that are crawled: mount it where only you can reach it.
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
		status := t.status(r)
		var page bytes.Buffer
		if r.FormValue("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
			w.Header().Set("Content-Type", "application/json")
			enc := json.NewEncoder(&page)
			enc.SetIndent("", "  ")
			if err := enc.Encode(status); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		} else {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			status.writeHTML(&page)
		}
		w.Header().Set("Cache-Control", "no-store")
		_, _ = page.WriteTo(w)
	})
}

// protect sets the headers that keep other pages from using this one. The style is the page's own.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
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

func (t *Transport) status(r *http.Request) Status {
	now := time.Now()
	s := Status{Time: now, UserAgent: t.userAgent[0], Hosts: []HostStatus{}}
	if c, ok := t.hosts.(hostlimit.Controller); ok {
		if err := s.addHosts(c.List(r.Context()), r.FormValue("host"), now); err != nil {
			s.Unlisted = fmt.Sprintf("The limiter (%T) can't list its hosts: %v.", t.hosts, err)
		}
	} else {
		s.Unlisted = fmt.Sprintf("The limiter (%T) doesn't list its hosts.", t.hosts)
	}
	if t.budget != nil {
		u, err := t.budget.Usage(r.Context())
		s.Budget = budgetUsage(u, err)
	}
	if t.robots != nil {
		s.Robots = robotsUsage(t.robots.Snapshot())
	}
	return s
}

// addHosts keeps the hosts in force, the most telling first.
func (s *Status) addHosts(hosts iter.Seq2[hostlimit.HostState, error], filter string, now time.Time) error {
	for h, err := range hosts {
		if err != nil {
			return err
		}
		s.Known++
		inForce := h.InFlight > 0 || h.Waiters > 0 || h.Next.After(now) || h.Refusals > 0
		if !inForce || !strings.Contains(h.Key, filter) {
			continue
		}
		if len(s.Hosts) == 2*shownHosts {
			s.cut()
		}
		s.Hosts = append(s.Hosts, hostStatus(h))
	}
	s.cut()
	return nil
}

func (s *Status) cut() {
	slices.SortFunc(s.Hosts, func(a, b HostStatus) int {
		blocked := func(h HostStatus) int {
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
	if extra := len(s.Hosts) - shownHosts; extra > 0 {
		s.Omitted += extra
		s.Hosts = s.Hosts[:shownHosts]
	}
}

func hostStatus(h hostlimit.HostState) HostStatus {
	s := HostStatus{
		Host: h.Key, SlotsUsed: h.InFlight, Slots: h.Slots, Waiters: h.Waiters, NextStart: h.Next,
		Delay: h.Delay.Seconds(), DelaySource: h.DelaySource, Refusals: h.Refusals, Starts: h.Starts,
	}
	if !h.BlockedUntil.IsZero() {
		s.BlockedUntil, s.BlockedBy = &h.BlockedUntil, h.BlockedBy
	}
	return s
}

func budgetUsage(u budget.Usage, err error) *BudgetUsage {
	s := &BudgetUsage{
		Pages: u.Pages, MaxPages: u.Limits.Pages, PagesPerHost: u.Limits.PagesPerHost,
		Bytes: u.Bytes, MaxBytes: u.Limits.Bytes, Seconds: u.Elapsed.Seconds(), MaxSeconds: u.Limits.Duration.Seconds(),
	}
	if err != nil {
		s.Error = err.Error()
	}
	return s
}

func robotsUsage(c robotscache.Stats) *RobotsUsage {
	return &RobotsUsage{
		Origins: c.Origins, InFlight: c.InFlight, Fetched: c.Fetched, Revalidated: c.Revalidated, Unreachable: c.Unreachable,
		Bytes: c.Bytes, MaxBytes: c.MaxBytes, Evicted: c.Evicted, Refetched: c.Refetched,
	}
}

// The page is written by hand: html/template would keep the linker from
// leaving unused methods out of every program that imports this package.
const statusHead = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>politeness</title>
<meta name="robots" content="noindex"><meta name="viewport" content="width=device-width">
<style>
:root { color-scheme: light dark }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em; max-width: 80em }
table { border-collapse: collapse; margin: 1em 0 }
th, td { text-align: left; padding: .25em .9em .25em 0; border-bottom: 1px solid #8884 }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
tr.blocked td { background: #e5484d22 }
.quiet { opacity: .65 }
</style></head><body><h1>politeness</h1>
`

func (s *Status) writeHTML(w *bytes.Buffer) {
	w.WriteString(statusHead)
	fmt.Fprintf(w, "<p>%s <span class=quiet>at %s · <a href=\"?format=json\">JSON</a></span></p>\n",
		escape(s.UserAgent), s.Time.UTC().Format(time.RFC3339))
	if b := s.Budget; b != nil {
		fmt.Fprintf(w, "<h2>Budget</h2><p>%s · %s · %s", share("pages", float64(b.Pages), float64(b.MaxPages)),
			share("bytes", float64(b.Bytes), float64(b.MaxBytes)), share("seconds", b.Seconds, b.MaxSeconds))
		if b.PagesPerHost > 0 {
			fmt.Fprintf(w, " · at most %d pages of a host", b.PagesPerHost)
		}
		w.WriteString("</p>\n")
		if b.Error != "" {
			fmt.Fprintf(w, "<p>The budget can't be asked: %s</p>\n", escape(b.Error))
		}
	}
	if c := s.Robots; c != nil {
		fmt.Fprintf(w, "<h2>robots.txt</h2><p>%d origins, %d being asked · %d fetched, %d revalidated, %d times unreachable</p>\n",
			c.Origins, c.InFlight, c.Fetched, c.Revalidated, c.Unreachable)
		fmt.Fprintf(w, "<p>%s", share("bytes kept", float64(c.Bytes), float64(c.MaxBytes)))
		if c.Refetched > 0 {
			fmt.Fprintf(w, " · %d origins forgotten for want of room, which caused %d fetches: raise Robots.MaxBytes or set Robots.Store",
				c.Evicted, c.Refetched)
		}
		w.WriteString("</p>\n")
	}
	w.WriteString("<h2>Hosts in force</h2>\n")
	if s.Unlisted != "" {
		fmt.Fprintf(w, "<p>%s</p>\n", escape(s.Unlisted))
	}
	fmt.Fprintf(w, "<p class=quiet>%d of %d known", len(s.Hosts)+s.Omitted, s.Known)
	if s.Omitted > 0 {
		fmt.Fprintf(w, "; %d are left out here: add ?host=TEXT", s.Omitted)
	}
	w.WriteString("</p>\n<table><tr><th>host<th class=n>slots<th class=n>waiting<th class=n>next start<th class=n>delay<th>by<th>blocked\n")
	for _, h := range s.Hosts {
		class, blocked := "", ""
		if h.BlockedUntil != nil {
			class = " class=blocked"
			blocked = fmt.Sprintf("for %s, until %s: %s (refusal %d in a row)", until(*h.BlockedUntil, s.Time),
				h.BlockedUntil.UTC().Format(time.RFC3339), escape(h.BlockedBy), h.Refusals)
		}
		fmt.Fprintf(w, "<tr%s><td>%s<td class=n>%d of %d<td class=n>%d<td class=n>%s<td class=n>%.3f s<td>%s<td>%s\n",
			class, escape(h.Host), h.SlotsUsed, h.Slots, h.Waiters, h.next(s.Time), h.Delay, h.DelaySource, blocked)
	}
	w.WriteString("</table></body></html>\n")
}

// escape is s for HTML. What can't be printed is escaped as by %q.
func escape(s string) string { return html.EscapeString(printable.Text(s)) }

func share(what string, used, limit float64) string {
	if limit == 0 {
		return fmt.Sprintf("%.0f %s", used, what)
	}
	return fmt.Sprintf("%.0f of %.0f %s (%.0f %%)", used, limit, what, 100*used/limit)
}

// next tells when the next request may start.
func (h *HostStatus) next(now time.Time) string {
	if h.SlotsUsed >= h.Slots && !h.NextStart.After(now) {
		return "with a free slot"
	}
	return until(h.NextStart, now)
}

func until(t, now time.Time) string {
	if d := t.Sub(now); d > 0 {
		return d.Round(time.Millisecond).String()
	}
	return "now"
}
