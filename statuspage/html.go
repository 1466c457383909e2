package statuspage

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/internal/printable"
	"github.com/go-politeness/politeness/robots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

var (
	//go:embed page.html
	pageText string
	//go:embed status.css
	style string
	//go:embed status.js
	script string

	// scriptHash lets browsers run the page's own script, and no other.
	scriptHash = func() string {
		sum := sha256.Sum256([]byte(script))
		return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
	}()

	tmpl = template.Must(template.New("").Funcs(template.FuncMap{
		"text":   printable.Text, // escapes what can't be printed as %q does; the template escapes the rest
		"robots": robotsCard,
		"bars":   budgetBars,
		"delay":  delay,
		"within": within,
		"plural": plural,
	}).Parse(pageText))
)

// writeHTML writes the page for people. filter is what was searched for.
func writeHTML(w *bytes.Buffer, s *politeness.Status, filter string) error {
	return tmpl.ExecuteTemplate(w, "page", view{s, filter})
}

// A view is what page.html shows: a Status, and what follows from it.
type view struct {
	*politeness.Status
	Filter string
}

func (view) Style() template.CSS { return template.CSS(style) }
func (view) Script() template.JS { return template.JS(script) }

// Title is the name of the crawler.
func (v view) Title() string { return cmp.Or(robots.ProductToken(v.UserAgent), "politeness") }

// At is the time of the Status.
func (v view) At() string { return clock(v.Time) }

// AtWork is the number of hosts that aren't idle.
func (v view) AtWork() int { return len(v.Status.Hosts) + v.Omitted }

// A card is a box of counts.
type card struct {
	Title string
	Empty string // shown if there are no lines
	Lines []count
	Note  string // below the lines
}

// A count is a line of a card.
type count struct {
	Name   string
	Value  string
	Colour string // a class of status.css
}

// Cards are the first boxes of the page.
func (v view) Cards() []card {
	var cards []card
	for i := range v.Crawls {
		cards = append(cards, crawlCard(&v.Crawls[i], v.Time))
	}
	sent := card{Title: "Requests and responses", Empty: "Nothing was sent yet."}
	if v.Starts > 0 {
		sent.Lines = append(sent.Lines, count{Name: "requests sent", Value: grouped(v.Starts)})
		sent.Lines = append(sent.Lines, lines(classes, v.Answers)...)
	}
	hosts := card{Title: "Hosts", Empty: "No host is known yet."}
	if v.Known > 0 {
		hosts.Lines = lines(states, v.HostsBy)
	}
	waiting := card{Title: "Waiting requests by reason", Lines: lines(causes, v.Waiting)}
	if len(v.Crawls) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(v.Waiting)), isPositive) {
		waiting.Lines = nil
		waiting.Empty = "A crawl starts a request when its host is due, so none waits."
	}
	refused := card{Title: "Requests ended by an error", Empty: "There were none."}
	for _, reason := range slices.Sorted(maps.Keys(v.Refusals)) {
		if v.Refusals[reason] != 0 { // these only grow
			refused.Lines = append(refused.Lines, count{Name: reason, Value: grouped(v.Refusals[reason])})
		}
	}
	return append(cards, waiting, hosts, sent, refused)
}

func isPositive(n int) bool { return n > 0 }

// A label is a line of a card that keeps its place while the numbers change.
type label struct {
	Key    string // of a map of Status
	Text   string
	Colour string // if the number isn't zero
}

var (
	causes = []label{
		{"delay", "delay of the host", ""},
		{"slot", "no free slot", ""},
		{"block", "block of the host", "red"},
		{"probe", "first request after a block", ""},
		{"place", "no free connection (MaxInFlight)", ""},
		{"site", "other hosts of its domain (PerSite)", ""},
		{"visit-time", "Visit-time of robots.txt", ""},
	}
	states = []label{
		{"blocked", "blocked", "red"},
		{"waited for", "with waiting requests", ""},
		{"in flight", "with requests in flight", ""},
		{"paced", "whose delay runs", ""},
		{"idle", "idle", ""},
	}
	classes = []label{
		{"2xx", "2xx", ""},
		{"3xx", "3xx", ""},
		{"4xx", "4xx", "amber"},
		{"5xx", "5xx", "red"},
		{"none", "no response", "red"},
	}
)

// lines returns a line for each label, followed by those of m that have no label.
func lines[N int | int64](labels []label, m map[string]N) []count {
	var all []count
	known := map[string]bool{}
	for _, l := range labels {
		known[l.Key] = true
		line := count{Name: l.Text, Value: grouped(m[l.Key]), Colour: l.Colour}
		if m[l.Key] == 0 {
			line.Colour = "quiet"
		}
		all = append(all, line)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !known[name] && m[name] != 0 {
			all = append(all, count{Name: name, Value: grouped(m[name])})
		}
	}
	return all
}

// grouped returns n for people, with a comma before each three digits.
func grouped[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// crawlCard is how far a crawl is.
func crawlCard(c *politeness.CrawlStatus, now time.Time) card {
	title := "Crawl, for "
	end := now
	if !c.Ended.IsZero() {
		title = "Crawl, ended after "
		end = c.Ended
	}
	left := "not known"
	if c.Left >= 0 {
		left = grouped(c.Left)
	}
	all := card{Title: title + seconds(end.Sub(c.Began).Seconds()), Lines: []count{
		{Name: "pages visited", Value: grouped(c.Visited)},
		{Name: "URLs left", Value: left},
	}}
	if c.Ended.IsZero() {
		all.Lines = append(all.Lines,
			count{Name: "pages a minute", Value: fmt.Sprintf("%.0f", c.PerMinute)},
			count{Name: "requests in flight", Value: grouped(c.InFlight)},
			count{Name: "hosts with URLs", Value: grouped(c.Hosts)},
		)
	}
	for _, outcome := range slices.Sorted(maps.Keys(c.Outcomes)) {
		if outcome != "visited" && outcome != "left" {
			all.Lines = append(all.Lines, count{Name: outcome, Value: grouped(c.Outcomes[outcome]), Colour: "quiet"})
		}
	}
	all.Note = c.Stopped
	return all
}

// Hosts are those of the Status. A host keeps its row while its numbers change: only a block moves
// it, to the top.
func (v view) Hosts() []politeness.HostStatus {
	hosts := slices.Clone(v.Status.Hosts)
	isBlocked := func(h politeness.HostStatus) int {
		if h.BlockedUntil.IsZero() {
			return 1
		}
		return 0
	}
	slices.SortFunc(hosts, func(a, b politeness.HostStatus) int {
		return cmp.Or(cmp.Compare(isBlocked(a), isBlocked(b)), cmp.Compare(a.Key, b.Key))
	})
	return hosts
}

func robotsCard(c *robotscache.Stats) card {
	return card{Title: "robots.txt", Lines: []count{
		{Name: "origins known", Value: grouped(c.Origins)},
		{Name: "fetching now", Value: grouped(c.InFlight)},
		{Name: "fetched", Value: grouped(c.Fetched)},
		{Name: "unchanged", Value: grouped(c.Revalidated)},
		{Name: "failed fetches", Value: grouped(c.Unreachable)},
	}}
}

// A bar is how much of a limit is used.
type bar struct {
	Text    string
	Limited bool
	Class   string // of status.css
	Width   string // percent
}

func budgetBars(u *budget.Usage) []bar {
	l := &u.Limits
	elapsed := u.Elapsed.Seconds()
	most := l.Duration.Seconds()
	return []bar{
		newBar(float64(u.Pages), float64(l.Pages), grouped(u.Pages), plural(int(l.Pages), "page"), "pages"),
		newBar(float64(u.Bytes), float64(l.Bytes), size(u.Bytes), size(l.Bytes), ""),
		newBar(elapsed, most, seconds(elapsed), seconds(most), ""),
	}
}

// newBar returns the bar of an amount and its limit, 0 for none, with their texts. unit is that of
// an amount without a limit.
func newBar(used, limit float64, usedText, limitText, unit string) bar {
	if limit == 0 {
		return bar{Text: strings.TrimSpace(usedText + " " + unit)}
	}
	part := 100 * used / limit
	b := bar{
		Text:    fmt.Sprintf("%s of %s (%.0f %%)", usedText, limitText, part),
		Limited: true,
		Width:   fmt.Sprintf("%.1f", min(part, 100)),
	}
	switch {
	case part >= 100:
		b.Class = " over"
	case part >= 80:
		b.Class = " near"
	}
	return b
}

// size is a number of bytes for people.
func size(n int64) string {
	units := []string{"bytes", "kB", "MB", "GB", "TB"}
	amount := float64(n)
	i := 0
	for amount >= 999.5 && i < len(units)-1 {
		amount /= 1000
		i++
	}
	return fmt.Sprintf("%.3g %s", amount, units[i])
}

// shownMinutes is how many minutes the page has latencies of.
const shownMinutes = 60

// A trend is how fast hosts answered in the last hour.
type trend struct {
	Minutes       int
	Last, Longest string
	Bars          []trendBar
}

// A trendBar is the bar of a minute, in units of a minute and 30th of the height.
type trendBar struct {
	X         int
	Y, Height string
	Text      string
}

// Trend is nil if no host has answered.
func (v view) Trend() *trend {
	if len(v.Latency) == 0 {
		return nil
	}
	longest := 0.0
	for _, m := range v.Latency {
		longest = max(longest, m.Mean)
	}
	t := &trend{
		Minutes: shownMinutes,
		Last:    seconds(v.Latency[len(v.Latency)-1].Mean),
		Longest: seconds(longest),
	}
	for _, m := range v.Latency {
		// A minute in which every answer came at once has a bar as well.
		height := max(1, 30*m.Mean/max(longest, 1e-9))
		t.Bars = append(t.Bars, trendBar{
			X:      shownMinutes - 1 - int(v.Time.Unix()/60-m.Time.Unix()/60),
			Y:      fmt.Sprintf("%.1f", 30-height),
			Height: fmt.Sprintf("%.1f", height),
			Text:   m.Time.Format("15:04") + ": " + seconds(m.Mean) + ", " + plural(int(m.Answers), "response"),
		})
	}
	return t
}

// refusing reports whether more than a tenth of a host's answers were refusals. Fewer than ten say
// nothing.
func refusing(h politeness.HostStatus) bool { return h.Answers >= 10 && h.RefusalShare() > 0.1 }

// robotsOf returns the origin of a host whose robots.txt can't be fetched, so that no page of the
// host is. It is nil if there is none.
func (v view) robotsOf(h politeness.HostStatus) *politeness.UnreachableStatus {
	for i := range v.Unreachable {
		u := &v.Unreachable[i]
		_, host, _ := strings.Cut(u.Origin, "://")
		if host == h.Key && !u.Fallback && u.Until.After(v.Time) {
			return u
		}
	}
	return nil
}

// A hold is a cause for which the next request of a host doesn't start now.
type hold struct{ Colour, Text string }

// Holds returns the causes for a host, the first one first.
func (v view) Holds(h politeness.HostStatus) []hold {
	var causes []hold
	add := func(colour, format string, args ...any) {
		causes = append(causes, hold{colour, fmt.Sprintf(format, args...)})
	}
	robots := v.robotsOf(h)
	// Of these the first is what keeps the next request; the others would follow from it.
	switch {
	case !h.BlockedUntil.IsZero():
		add("red", "blocked: %s%s, until %s", h.BlockedBy, inARow(h.Refusals), clock(h.BlockedUntil))
	case robots != nil:
		add("red", "robots.txt can't be fetched: %s", robots.Reason)
	case h.Refusals > 0:
		add("amber", "was blocked%s: one request finds out whether the host serves again", inARow(h.Refusals))
	case h.Leak && h.Hold == "slot": // h.Why names the request of the leak, which is named below
		add("", "%d of %d slots are in use", h.InFlight, h.Slots)
	case h.Why != "":
		add("", "%s", h.Why)
	case h.InFlight >= h.Slots:
		add("quiet", "every slot is in use")
	case h.Next.After(v.Time):
		add("quiet", "its delay runs")
	}
	if refusing(h) {
		add("amber", "%.0f %% of %s were refusals", 100*h.RefusalShare(), plural(int(h.Answers), "response"))
	}
	if h.Leak {
		by := ""
		if h.SilentBy != "" {
			by = " by " + h.SilentBy
		}
		held := seconds(h.Silent.Seconds())
		add("amber", "a slot in use for %s without a sign of life%s: is its body closed?", held, by)
	}
	return causes
}

// inARow is the number of refusals in a row, in parentheses; empty if there are none.
func inARow(refusals int) string {
	switch {
	case refusals == 1:
		return " (first refusal)"
	case refusals > 1:
		return fmt.Sprintf(" (refusal %d in a row)", refusals)
	}
	return ""
}

// Next is when the next request may start.
func (v view) Next(h politeness.HostStatus) string {
	at := h.Next
	if robots := v.robotsOf(h); robots != nil && robots.Until.After(at) {
		at = robots.Until
	}
	if h.InFlight >= h.Slots && !at.After(v.Time) {
		return "with a free slot"
	}
	return within(at, v.Time)
}

// delay is the delay before the next request. After a restart a host has had no start yet, so only
// the delay that refusals have taught is known.
func delay(h politeness.HostStatus) string {
	if h.Learned > h.Delay {
		return seconds(h.Learned.Seconds()) + " learned"
	}
	source := h.DelaySource
	if source == "random" { // the usual one, also if it isn't drawn by chance
		source = ""
	}
	return strings.TrimSpace(seconds(h.Delay.Seconds()) + " " + source)
}

// clock is a time for people.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// within is how far t is ahead of now.
func within(t, now time.Time) string {
	if d := t.Sub(now); d > 0 {
		return "in " + seconds(d.Seconds())
	}
	return "now"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%s %ss", grouped(n), what)
}

// seconds is a duration for people.
func seconds(s float64) string {
	switch {
	case s <= 0:
		return "0 s"
	case s < 0.9995:
		return fmt.Sprintf("%.3g ms", max(0.001, 1000*s))
	case s < 59.95:
		return fmt.Sprintf("%.3g s", s)
	}
	// The smaller unit is rounded before the larger one is split off: there is no "59 min 60 s".
	whole := int(math.Round(s))
	if whole < 3600 {
		return fmt.Sprintf("%d min %d s", whole/60, whole%60)
	}
	minutes := int(math.Round(s / 60))
	return fmt.Sprintf("%s h %d min", grouped(minutes/60), minutes%60)
}
