package evidence

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/go-politeness/politeness/internal/printable"
)

// String returns d as one line for people, with the time, the event, its URL or host, and the
// reason. Unprintable characters are escaped.
func (d Decision) String() string {
	d.sanitize()
	return d.line(false)
}

// A verb names the event of a record in one or two words, and its gravity.
type verb struct {
	text string
	tone tone
}

// A tone is how a line looks on a terminal.
type tone uint8

const (
	routine tone = iota // isn't shown, unless all is
	good
	calm
	grave // something is refused, or given up
	bad   // something is lost, or is a fault of the crawler's own
)

var verbs = map[Type]verb{
	RobotsAllowed:     {"allowed", routine},
	Started:           {"started", routine},
	Resent:            {"sent again", routine},
	RobotsFetched:     {"robots.txt", routine},
	RobotsRevalidated: {"robots.txt", routine},
	PolicyStated:      {"policy", routine},
	LogClosed:         {"log closed", routine},
	Checkpoint:        {"checkpoint", routine},
	Fetched:           {"fetched", routine},
	StaysOpen:         {"stays open", routine},
	HostCleared:       {"host free", good},
	Waiting:           {"waiting", calm},
	Retried:           {"retrying", calm},
	NoIndex:           {"noindex", calm},
	BlockedByRobots:   {"disallowed", grave},
	BlockedByRule:     {"own rule", grave},
	Reserved:          {"reserved", grave},
	RobotsUnreachable: {"no robots.txt", grave},
	BudgetWarning:     {"budget", grave},
	BudgetExceeded:    {"budget spent", grave},
	SlotTimeout:       {"not started", grave},
	HostBlocked:       {"host blocked", grave},
	ResponseRejected:  {"rejected", grave},
	Failed:            {"failed", bad},
	LeaseExpired:      {"not closed", bad},
	StateLost:         {"state lost", bad},
	StateShared:       {"state shared", bad},
	Drained:           {"drained", grave},
	LimitersApart:     {"two limiters", bad},
}

// verb returns that of d.
func (d *Decision) verb() verb {
	v, ok := verbs[d.Type]
	// The table has the usual tone of a type. A few records are graver, or have another name.
	switch {
	case !ok: // of a newer type, or of a type of the user's own
		return verb{strings.ReplaceAll(string(d.Type), "_", " "), routine}
	case d.Type == Fetched && (d.Status >= 400 || d.Err != ""):
		v.tone = grave
	case d.Type == Fetched && d.Duration >= tally:
		v.tone = calm
	case d.Type == BlockedByRobots && d.MatchedRule == "": // no rule is known
		v.text = "not sent"
	}
	return v
}

// colours are the escape sequences of tones.
var colours = [...]string{good: "\x1b[32m", calm: "\x1b[36m", grave: "\x1b[33m", bad: "\x1b[31m"}

// line returns the line of d, without its end.
func (d *Decision) line(coloured bool) string {
	v := d.verb()
	head := fmt.Sprintf("%-13s ", printable.Text(v.text))
	if coloured && v.tone > routine {
		head = colours[v.tone] + head + "\x1b[0m"
	}
	if !d.Time.IsZero() {
		head = d.Time.Format("15:04:05 ") + head
	}
	subject := printable.Text(cmp.Or(d.URL, d.Host))
	why := printable.Text(d.why())
	if subject != "" && why != "" {
		subject += ": "
	}
	return head + subject + why
}

// phrases are the parts of a line that commas separate.
type phrases []string

// and returns p with another part. It is no method of a pointer, so that p stays on the stack.
func (p phrases) and(format string, args ...any) phrases {
	return append(p, fmt.Sprintf(format, args...))
}

// why returns the reason and the end of d: all of its line but the verb and the subject.
func (d *Decision) why() string {
	var parts phrases
	reason := d.Reason
	// Only one of these belongs to a record, the most telling one: a page's status and size, a block's
	// status, the rule of robots.txt, the budget, or the wait.
	wait := d.WaitSlot + d.WaitDelay + d.WaitBlock
	switch {
	case d.Type == Fetched:
		parts = parts.and("%d, %s in %s", d.Status, size(d.Bytes), printable.Duration(d.Duration))
	case d.Type == HostBlocked && d.Status > 0:
		parts = parts.and("it answered %d", d.Status)
	case d.Type == HostBlocked && d.Kind != "" && !d.Restored:
		parts = parts.and("no response")
	case d.Type == BlockedByRobots && d.MatchedRule == "" && reason != "":
		parts = parts.and("no robots.txt (%s)", reason)
		reason = "" // it is said already
	case d.MatchedRule != "":
		parts = parts.and("robots.txt, line %d: %s", d.Line, d.MatchedRule)
	case d.Limit != "" && reason == "":
		parts = parts.and("%d of %d %s", d.Used, d.Max, strings.ReplaceAll(d.Limit, "_", " "))
	case d.Status > 0 && !strings.Contains(reason, strconv.Itoa(d.Status)):
		parts = parts.and("%d", d.Status)
	case wait > 0:
		parts = parts.and("after %s", printable.Duration(wait))
	}
	if d.Location != "" {
		parts = parts.and("leads to %s", d.Location)
	}
	for _, text := range [...]string{d.Directives, reason, d.Err} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if !d.Until.IsZero() {
		parts = parts.and("until %s", clockTime(d.Until, d.Time))
	} else if !d.RetryAt.IsZero() {
		parts = parts.and("retry at %s", clockTime(d.RetryAt, d.Time))
	}
	return strings.Join(parts, ", ")
}

// clockTime returns t for readers at the time now: "15:04:05 (in 30s)".
func clockTime(t, now time.Time) string {
	left := t.Sub(now)
	layout := time.TimeOnly
	// A time of day alone would be read as today's.
	if left.Abs() > 20*time.Hour {
		layout = "2006-01-02 15:04"
	}
	text := t.In(now.Location()).Format(layout)
	if left > 0 && !now.IsZero() {
		text += fmt.Sprintf(" (in %s)", printable.Duration(left))
	}
	return text
}

// size is n bytes in a unit that fits.
func size(n int64) string {
	unit := 0
	for ; n >= 10_000 && unit < 2; unit++ {
		n /= 1000
	}
	return fmt.Sprintf("%d %s", n, [...]string{"bytes", "kB", "MB"}[unit])
}

// A ConsoleConfig selects the records that NewConsole writes. With the zero value, NewConsole
// writes the same records as Console.
type ConsoleConfig struct {
	// All writes the routine records too, such as robots_allowed, started and fetched.
	All bool
}

// Console returns an Evidence for a user at the terminal. It writes the important decisions to w,
// such as os.Stderr, one line each. If w is a terminal and NO_COLOR isn't set, the lines have
// colours. It shows refusals, errors, the reasons for waits, and fetches that take ten seconds or
// longer. Every ten seconds it shows how much has been fetched. Routine records have no line. A
// wait for a host has one line a minute, unless its reason changes. If many requests time out
// before their start for the same reason, the first three have a line. At the 10th, the 100th and
// so on, a line names the setting to change. If one URL is requested 10 times within 24 hours,
// there is a line too, and again at 100 times and so on. To send fewer of these requests, use
// package revisit.
//
// The lines prove nothing, so keep a log as well.
//
//	Evidence: evidence.Multi(log, evidence.Console(os.Stderr))
//
// A line that can't be written is lost.
func Console(w io.Writer) Evidence { return NewConsole(w, ConsoleConfig{}) }

// NewConsole is Console with a configuration. Use it to show the routine records too.
func NewConsole(w io.Writer, cfg ConsoleConfig) Evidence {
	waits, _ := simplelru.NewLRU[string, time.Time](maxWaits, nil) // an error is for 0 and less
	c := &console{w: w, waits: waits, repeats: newRepeats(), coloured: onTerminal(w), all: cfg.All}
	if isTerminal(w) {
		c.begin = clearLine
	}
	return c
}

// clearLine goes back to the first column and clears the line, in which another part of the program
// may have drawn its progress.
const clearLine = "\r\x1b[K"

// onTerminal reports whether w is a terminal that may be coloured (https://no-color.org).
func onTerminal(w io.Writer) bool { return isTerminal(w) && os.Getenv("NO_COLOR") == "" }

// isTerminal reports whether w is a terminal that knows escape sequences.
func isTerminal(w io.Writer) bool {
	return modeOf(w)&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// modeOf returns the mode of w, or that of a regular file if w isn't one.
func modeOf(w io.Writer) (mode os.FileMode) {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			mode = info.Mode()
		}
	}
	return mode
}

type console struct {
	w        io.Writer
	coloured bool
	all      bool
	begin    string // of each line

	mu    sync.Mutex
	waits *simplelru.LRU[string, time.Time] // when a wait was shown last, by host and reason
	turns map[string]int                    // requests that had no turn, by Decision.Hold
	repeats

	pages, bytes int64     // fetched since the last line about it
	since        time.Time // of that line; zero: nothing was fetched yet
}

const (
	waitAgain = time.Minute      // between two lines about a host that is waited for
	tally     = 10 * time.Second // between two lines with the amounts fetched
	maxWaits  = 10_000           // number of waits that are remembered
)

// Record implements Evidence.
func (c *console) Record(_ context.Context, d Decision) {
	d.sanitize()
	c.mu.Lock()
	defer c.mu.Unlock()
	line := ""
	switch {
	case d.Type == SlotTimeout && d.Hold != "" && !c.all:
		line = c.noTurn(&d)
	case c.shows(&d):
		line = d.line(c.coloured)
	case d.Type == Fetched && !d.RobotsTxt:
		line = c.total(&d)
	}
	for _, text := range [...]string{line, c.repeats.count(&d)} {
		if text != "" {
			_, _ = io.WriteString(c.w, c.begin+text+"\n")
		}
	}
}

// alike is the number of requests without a start that have separate lines. Further ones with their
// cause are only counted.
const alike = 3

// remedies tell the user how to let requests start, by Decision.Hold.
var remedies = map[string]string{
	"slot": "open bodies occupy the slots: close them, or raise Hosts.Concurrency",
	"delay": "more requests wait for a host than its delay lets start in their time: give them more time " +
		"(the context's deadline, Hosts.MaxWait), or ask for fewer at once",
	"place":      "raise Hosts.MaxInFlight, or close the bodies of responses",
	"site":       "many names or ports of a site are asked: ask for fewer, or raise Hosts.PerSite if it is yours",
	"block":      "their hosts have refused: come back at RetryAt",
	"probe":      "their hosts have refused: come back at RetryAt",
	"visit-time": "their sites have hours: come back at RetryAt",
	"robots.txt": "robots.txt came too late: give requests more time (the context's deadline)",
}

// noTurn counts a request that couldn't start, and returns its line, a line about all of its kind,
// or "". The first three have separate lines. At the 10th, the 100th and so on, the line has the
// number and the remedy.
func (c *console) noTurn(d *Decision) string {
	if c.turns == nil {
		c.turns = map[string]int{}
	}
	remedy, known := remedies[d.Hold]
	if !known {
		return d.line(c.coloured)
	}
	c.turns[d.Hold]++
	n := c.turns[d.Hold]
	if n <= alike {
		return d.line(c.coloured)
	}
	for n%10 == 0 {
		n /= 10
	}
	if n != 1 {
		return ""
	}
	all := Decision{Type: SlotTimeout, Time: d.Time}
	all.Reason = fmt.Sprintf("%d requests so far couldn't start in time (%s): %s", c.turns[d.Hold], d.Hold, remedy)
	return all.line(c.coloured)
}

// shows reports whether d has a separate line.
func (c *console) shows(d *Decision) bool {
	switch {
	case c.all:
		return true
	case d.Type == Waiting:
		return c.news(d)
	}
	return d.verb().tone > routine
}

// news reports whether the wait of d is to be shown: the last line about its host and reason is at
// least a minute old.
func (c *console) news(d *Decision) bool {
	why := d.Host + " " + d.Hold + d.DelaySource
	if last, ok := c.waits.Get(why); ok && d.Time.Sub(last) < waitAgain {
		return false
	}
	c.waits.Add(why, d.Time)
	return true
}

// total counts a page, and returns the line of the figures when that is due, or else "".
func (c *console) total(d *Decision) string {
	c.since = cmp.Or(c.since, d.Time)
	c.pages++
	c.bytes += d.Bytes
	past := d.Time.Sub(c.since)
	if past < tally {
		return ""
	}
	line := fmt.Sprintf("%s%-13s %d pages, %s in %s",
		d.Time.Format("15:04:05 "), "fetched", c.pages, size(c.bytes), printable.Duration(past))
	c.pages = 0
	c.bytes = 0
	c.since = d.Time
	return line
}
