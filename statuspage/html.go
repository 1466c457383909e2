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
	"slices"
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
		"holds":  holds,
		"next":   next,
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
func (v view) AtWork() int { return len(v.Hosts) + v.Omitted }

// A card is a box of counts.
type card struct {
	Title string
	Empty string // what is shown where there are no lines
	Lines []count
}

// A count is a line of a card.
type count struct {
	Name   string
	Value  int64
	Colour string // a class of status.css
}

// Cards are the first boxes of the page.
func (v view) Cards() []card {
	sent := counts(v.Answers, map[string]string{"5xx": "red", "none": "red", "4xx": "amber"})
	if v.Starts > 0 {
		sent = slices.Insert(sent, 0, count{Name: "starts", Value: v.Starts})
	}
	return []card{
		{"Waiting requests by reason", "Nothing waits.", counts(v.Waiting, nil)},
		{"Hosts", "No host is known yet.", counts(v.HostsBy, map[string]string{"blocked": "red"})},
		{"Requests and responses", "Nothing was sent yet.", sent},
		{"Errors of politeness", "No errors.", counts(v.Refusals, nil)},
	}
}

// counts returns the counts of m that aren't zero, by name: a line keeps its place while the
// numbers change.
func counts[N int | int64](m map[string]N, colours map[string]string) []count {
	var lines []count
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] != 0 {
			lines = append(lines, count{name, int64(m[name]), colours[name]})
		}
	}
	return lines
}

func robotsCard(c *robotscache.Stats) card {
	return card{Title: "robots.txt", Lines: []count{
		{Name: "origins known", Value: int64(c.Origins)},
		{Name: "fetching now", Value: int64(c.InFlight)},
		{Name: "fetched", Value: c.Fetched},
		{Name: "unchanged", Value: c.Revalidated},
		{Name: "failed fetches", Value: c.Unreachable},
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
	return []bar{
		newBar("pages", float64(u.Pages), float64(u.Limits.Pages)),
		newBar("bytes", float64(u.Bytes), float64(u.Limits.Bytes)),
		newBar("seconds", u.Elapsed.Seconds(), u.Limits.Duration.Seconds()),
	}
}

func newBar(what string, used, limit float64) bar {
	if limit == 0 {
		return bar{Text: fmt.Sprintf("%.0f %s", used, what)}
	}
	part := 100 * used / limit
	b := bar{
		Text:    fmt.Sprintf("%.0f of %.0f %s (%.0f %%)", used, limit, what, part),
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

// A hold is a cause for which the next request of a host doesn't start now.
type hold struct{ Colour, Text string }

func holds(h politeness.HostStatus) []hold {
	var causes []hold
	add := func(colour, format string, args ...any) {
		causes = append(causes, hold{colour, fmt.Sprintf(format, args...)})
	}
	// Of these the first is what keeps the next request; the others would follow from it.
	switch {
	case !h.BlockedUntil.IsZero():
		add("red", "blocked: %s%s, until %s", h.BlockedBy, inARow(h.Refusals), clock(h.BlockedUntil))
	case h.Refusals > 0:
		add("amber", "was blocked%s: one request finds out whether the host serves again", inARow(h.Refusals))
	case h.Why != "":
		add("", "%s", h.Why)
	case h.InFlight >= h.Slots:
		add("quiet", "every slot is in use")
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

// next is when the next request may start.
func next(h politeness.HostStatus, now time.Time) string {
	if h.InFlight >= h.Slots && !h.Next.After(now) {
		return "with a free slot"
	}
	return within(h.Next, now)
}

// delay is the delay before the next request. After a restart a host has had no start yet, so only
// the delay that refusals have taught is known.
func delay(h politeness.HostStatus) string {
	if h.Learned > h.Delay {
		return seconds(h.Learned.Seconds()) + " learned"
	}
	return strings.TrimSpace(seconds(h.Delay.Seconds()) + " " + h.DelaySource)
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
	return fmt.Sprintf("%d %ss", n, what)
}

// seconds is a duration for people.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%.3g s", s)
	}
	return d.Round(time.Second).String()
}
