package statuspage

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/internal/printable"
)

// shownMinutes is how many minutes the page has latencies of.
const shownMinutes = 60

var (
	//go:embed status.css
	style string
	//go:embed status.js
	script string

	// scriptHash lets browsers run the page's own script, and no other.
	scriptHash = func() string {
		sum := sha256.Sum256([]byte(script))
		return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
	}()
)

// writeHTML writes the page for people.
func writeHTML(w *bytes.Buffer, s *politeness.Status, filter string) {
	fmt.Fprintf(w, `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>politeness</title>
<meta name="robots" content="noindex"><meta name="viewport" content="width=device-width, initial-scale=1">
<noscript><meta http-equiv="refresh" content="5"></noscript>
<style>
%s</style></head><body>
<h1>politeness</h1><p class=agent>%s</p>
<form><input type=search id=host name=host placeholder="Host" aria-label="Hosts whose name holds this" value="%s">
<button>Search</button> <button type=button id=pause hidden>Pause</button>
<span class=quiet><a href="?format=json">JSON</a> · <a href="?format=prometheus">Prometheus</a></span></form>
<p class=red id=state role=status></p>
<main id=live>
`, style, escape(s.UserAgent), escape(filter))
	writeLive(w, s, filter)
	fmt.Fprintf(w, "</main>\n<script>%s</script></body></html>\n", script)
}

// writeLive writes the part of the page that changes.
func writeLive(w *bytes.Buffer, s *politeness.Status, filter string) {
	fmt.Fprintf(w, "<p class=quiet>at %s</p>\n", s.Time.UTC().Format(time.RFC3339))
	if s.Lost != "" {
		fmt.Fprintf(w, "<p class=alarm>Evidence is lost: %s</p>\n", escape(s.Lost))
	}
	w.WriteString("<div class=cards>\n")
	card(w, "Waiting requests, by what holds them", "Nothing waits.", counts(s.Waiting), nil)
	card(w, "Hosts", "No host is known yet.", counts(s.HostsBy), map[string]string{"blocked": "red"})
	card(w, "Sent and answered", "Nothing was sent yet.", append(nonzero("starts", s.Starts), counts(s.Answers)...), map[string]string{"5xx": "red", "none": "red", "4xx": "amber"})
	card(w, "Refused by politeness", "Nothing was refused.", counts(s.Refusals), nil)
	writeBudget(w, s)
	writeRobots(w, s)
	writeLatency(w, s)
	w.WriteString("</div>\n")
	writeUnreachable(w, s)
	writeHosts(w, s, filter)
}

// A count is one line of a card.
type count struct {
	name  string
	value int64
}

// counts are those of m, the largest first.
func counts[N int | int64](m map[string]N) (out []count) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] != 0 {
			out = append(out, count{name, int64(m[name])})
		}
	}
	slices.SortStableFunc(out, func(a, b count) int { return cmp.Compare(b.value, a.value) })
	return out
}

func nonzero(name string, n int64) []count {
	if n == 0 {
		return nil
	}
	return []count{{name, n}}
}

// card writes a box with counts.
func card(w *bytes.Buffer, title, empty string, lines []count, colours map[string]string) {
	fmt.Fprintf(w, "<section class=card><h2>%s</h2>", title)
	if len(lines) == 0 {
		fmt.Fprintf(w, "<p class=quiet>%s</p>", empty)
	} else {
		w.WriteString("<dl>")
		for _, l := range lines {
			fmt.Fprintf(w, "<dt class=\"%s\">%s<dd>%d", colours[l.name], escape(l.name), l.value)
		}
		w.WriteString("</dl>")
	}
	w.WriteString("</section>\n")
}

func writeBudget(w *bytes.Buffer, s *politeness.Status) {
	b := s.Budget
	if b == nil {
		return
	}
	w.WriteString("<section class=card><h2>Budget</h2>")
	bar(w, "pages", float64(b.Pages), float64(b.MaxPages))
	bar(w, "bytes", float64(b.Bytes), float64(b.MaxBytes))
	bar(w, "seconds", b.Seconds, b.MaxSeconds)
	if b.PagesPerHost > 0 {
		fmt.Fprintf(w, "<p>at most %d pages of a host</p>", b.PagesPerHost)
	}
	if b.Error != "" {
		fmt.Fprintf(w, "<p class=red>The budget can't be asked: %s</p>", escape(b.Error))
	}
	w.WriteString("</section>\n")
}

// bar writes how much of a limit is used.
func bar(w *bytes.Buffer, what string, used, limit float64) {
	fmt.Fprintf(w, "<div>%s</div>", share(what, used, limit))
	if limit == 0 {
		return
	}
	part, class := min(100*used/limit, 100), ""
	switch {
	case part >= 100:
		class = " over"
	case part >= 80:
		class = " near"
	}
	fmt.Fprintf(w, "<div class=\"bar%s\"><i style=\"width:%.1f%%\"></i></div>", class, part)
}

func writeRobots(w *bytes.Buffer, s *politeness.Status) {
	c := s.Robots
	if c == nil {
		w.WriteString("<section class=card><h2>robots.txt</h2><p class=amber>It is ignored.</p></section>\n")
		return
	}
	card(w, "robots.txt", "", []count{
		{"origins known", int64(c.Origins)},
		{"being asked", int64(c.InFlight)},
		{"fetched", c.Fetched},
		{"unchanged", c.Revalidated},
		{"times unreachable", c.Unreachable},
	}, nil)
}

// writeLatency writes how fast hosts answered, as a bar a minute.
func writeLatency(w *bytes.Buffer, s *politeness.Status) {
	w.WriteString("<section class=card><h2>Time to an answer, the last hour</h2>")
	if len(s.Latency) == 0 {
		w.WriteString("<p class=quiet>No answer yet.</p></section>\n")
		return
	}
	longest := 0.0
	for _, m := range s.Latency {
		longest = max(longest, m.Mean)
	}
	last := s.Latency[len(s.Latency)-1]
	fmt.Fprintf(w, "<p>%s in the mean of the last minute, %s at most</p><svg viewBox=\"0 0 %d 30\" preserveAspectRatio=\"none\" role=img aria-label=\"mean time to an answer by minute\">",
		seconds(last.Mean), seconds(longest), shownMinutes)
	for _, m := range s.Latency {
		x := shownMinutes - 1 - int(s.Time.Unix()/60-m.Time.Unix()/60)
		height := max(1, 30*m.Mean/max(longest, 1e-9))
		fmt.Fprintf(w, "<rect x=%d y=%.1f width=0.9 height=%.1f><title>%s: %s, %d answers</title></rect>",
			x, 30-height, height, m.Time.Format("15:04"), seconds(m.Mean), m.Answers)
	}
	w.WriteString("</svg></section>\n")
}

// writeUnreachable writes the origins whose robots.txt can't be had.
func writeUnreachable(w *bytes.Buffer, s *politeness.Status) {
	if len(s.Unreachable) == 0 {
		return
	}
	w.WriteString("<h2>robots.txt can't be had</h2>\n<table><thead><tr><th>origin<th>why<th>asked again<th>meanwhile</thead>\n")
	for _, d := range s.Unreachable {
		meanwhile := "<span class=red>nothing is fetched</span>"
		if d.Fallback {
			meanwhile = "<span class=amber>fetched all the same</span>"
		}
		fmt.Fprintf(w, "<tr><td>%s<td data-name=why>%s<td data-name=\"asked again\">%s<td data-name=meanwhile>%s\n",
			escape(d.Origin), escape(d.Reason), within(d.Until, s.Time), meanwhile)
	}
	w.WriteString("</table>\n")
}

func writeHosts(w *bytes.Buffer, s *politeness.Status, filter string) {
	w.WriteString("<h2>Hosts in force</h2>\n")
	if s.Unlisted != "" {
		fmt.Fprintf(w, "<p class=red>%s</p>\n", escape(s.Unlisted))
	}
	fmt.Fprintf(w, "<p class=quiet>%d of %s", len(s.Hosts)+s.Omitted, plural(s.Known, "known host"))
	if s.Omitted > 0 {
		fmt.Fprintf(w, "; %d of them are left out here: search", s.Omitted)
	}
	w.WriteString("</p>\n")
	if len(s.Hosts) == 0 {
		empty := "No host is held, waited for, paced or blocked."
		if filter != "" {
			empty = fmt.Sprintf("No host in force has %q in its name.", filter)
		}
		fmt.Fprintf(w, "<p>%s</p>\n", escape(empty))
		return
	}
	w.WriteString("<table><thead><tr><th>host<th class=n>slots<th class=n>waiting<th class=n>next start<th class=n>delay<th>what holds it</thead>\n")
	for i := range s.Hosts {
		h := &s.Hosts[i]
		fmt.Fprintf(w, "<tr><td>%s<td class=n data-name=slots>%d of %d<td class=n data-name=waiting>%d<td class=n data-name=\"next start\">%s<td class=n data-name=delay>%s<td data-name=\"what holds it\"><span>%s</span>\n",
			escape(h.Host), h.SlotsUsed, h.Slots, h.Waiters, next(h, s.Time), strings.TrimSpace(seconds(h.Delay)+" "+h.DelaySource), holds(h, s.Time))
	}
	w.WriteString("</table>\n")
}

// holds tells what holds the host, as HTML.
func holds(h *politeness.HostStatus, now time.Time) string {
	var parts []string
	say := func(class, format string, args ...any) {
		parts = append(parts, fmt.Sprintf("<span class=\"%s\">%s</span>", class, escape(fmt.Sprintf(format, args...))))
	}
	switch {
	case !h.BlockedUntil.IsZero():
		refusals := ""
		if h.Refusals > 0 {
			refusals = fmt.Sprintf(" (refusal %d in a row)", h.Refusals)
		}
		say("red", "blocked: %s%s, until %s", h.BlockedBy, refusals, h.BlockedUntil.UTC().Format(time.RFC3339))
	case h.Refusals > 0:
		say("amber", "the next request is a probe (refusal %d in a row)", h.Refusals)
	case h.Why != "":
		say("", "%s", h.Why)
	case h.SlotsUsed >= h.Slots:
		say("quiet", "every slot is held")
	}
	if h.Leak {
		by := ""
		if h.SilentBy != "" {
			by = " by " + h.SilentBy
		}
		say("amber", "a slot held for %s without a sign of life%s: is its body closed?", seconds(h.Silent), by)
	}
	return strings.Join(parts, "; ")
}

// escape is s for HTML. What can't be printed is escaped as by %q.
func escape(s string) string { return html.EscapeString(printable.Text(s)) }

func share(what string, used, limit float64) string {
	if limit == 0 {
		return fmt.Sprintf("%.0f %s", used, what)
	}
	return fmt.Sprintf("%.0f of %.0f %s (%.0f %%)", used, limit, what, 100*used/limit)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// seconds is a time for people.
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

// next tells when the next request may start.
func next(h *politeness.HostStatus, now time.Time) string {
	if h.SlotsUsed >= h.Slots && !h.NextStart.After(now) {
		return "with a free slot"
	}
	return within(h.NextStart, now)
}

// within tells how far away t is.
func within(t, now time.Time) string {
	if d := t.Sub(now); d > 0 {
		return "in " + seconds(d.Seconds())
	}
	return "now"
}
