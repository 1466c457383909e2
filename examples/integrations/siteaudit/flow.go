package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
)

// A flow is Evidence that shows each fetch as one block, when it is over, in the order in which it
// went: robots.txt is checked before a slot is taken, so a disallowed URL costs nothing.
type flow struct {
	out    io.Writer
	budget budget.Budget // set before the first page

	mu    sync.Mutex
	trips map[uint64]*trip // under way
}

// A trip has the lines of one fetch so far.
type trip struct {
	url   string
	lines []string
	slots string
}

// Record takes d, and prints the block that it ends.
func (f *flow) Record(ctx context.Context, d evidence.Decision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch d.Type {
	case evidence.RobotsFetched, evidence.RobotsUnreachable: // the whole fetch, not the requests for it
		why := cmp.Or(d.Reason, fmt.Sprintf("status %d", d.Status))
		f.print(string(d.Type)+" "+d.URL, []string{line("robots", "%s, kept for %v", why, d.TTL)})
		return
	case evidence.Waiting: // printed immediately, to show why nothing happens
		f.print(d.URL, []string{line("waiting", "%s%s", d.Reason, until(d))})
		return
	}
	if d.RobotsTxt || d.Trip == 0 {
		return // robots.txt is shown as a whole, and other records are about no fetch
	}
	t := f.trip(ctx, d)
	over := t.record(d)
	if over {
		delete(f.trips, d.Trip)
		f.print(t.url, t.lines)
	}
}

// trip returns the trip of d, which begins with what of the budget is used.
func (f *flow) trip(ctx context.Context, d evidence.Decision) *trip {
	t := f.trips[d.Trip]
	if t != nil {
		return t
	}
	t = &trip{url: d.URL}
	f.trips[d.Trip] = t
	usage, err := f.budget.Usage(ctx)
	if err == nil {
		t.add("budget", "%d of %d pages and %.1f of %.0f s used", usage.Pages, usage.Limits.Pages,
			usage.Elapsed.Seconds(), usage.Limits.Duration.Seconds())
	}
	return t
}

// record adds the lines of d, and reports whether it is the last of the trip.
func (t *trip) record(d evidence.Decision) (over bool) {
	switch d.Type {
	case evidence.RobotsAllowed, evidence.BlockedByRobots:
		t.add("robots", "%s%s", verdict(d), confidence(d))
		t.add("evidence", "%s", d.AppendJSON(nil))
		return !d.Allowed
	case evidence.Started:
		t.slots = fmt.Sprintf("%d/%d", d.Slot, d.Slots)
		t.add("slot", "%s, waited %.2f s for it", t.slots, d.WaitSlot.Seconds())
		waited := d.WaitDelay + d.WaitBlock
		t.add("delay", "waited %.2f s; the next start is %.2f s from here", waited.Seconds(), d.Delay.Seconds())
		return false
	case evidence.Fetched:
		t.add("fetch", "status %d, %d bytes, %v", d.Status, d.Bytes, d.Duration.Round(time.Millisecond))
		t.add("slot back", "%s", t.slots)
		return true
	}
	t.add(string(d.Type), "%s", what(d))
	return d.Type == evidence.Failed || d.Type == evidence.SlotTimeout || d.Type == evidence.BudgetExceeded
}

func (t *trip) add(what, format string, args ...any) {
	t.lines = append(t.lines, line(what, format, args...))
}

func line(what, format string, args ...any) string {
	return fmt.Sprintf("  %-10s %s", what, fmt.Sprintf(format, args...))
}

func (f *flow) print(title string, lines []string) {
	fmt.Fprintln(f.out, title)
	for _, l := range lines {
		fmt.Fprintln(f.out, l)
	}
	fmt.Fprintln(f.out)
}

func verdict(d evidence.Decision) string {
	answer := "allowed"
	if !d.Allowed {
		answer = "REFUSED, no slot taken"
	}
	if d.MatchedRule == "" {
		return answer + ": no rule matches"
	}
	return fmt.Sprintf("%s: line %d, group %s, %q", answer, d.Line, d.Group, d.MatchedRule)
}

func confidence(d evidence.Decision) string {
	if d.Confidence == "" {
		return ""
	}
	return fmt.Sprintf(", confidence %s: %s", d.Confidence, d.Reason)
}

// until returns how long a wait is to last, if that is known.
func until(d evidence.Decision) string {
	if d.Until.IsZero() {
		return ""
	}
	return fmt.Sprintf(", for %.1f s", d.Until.Sub(d.Time).Seconds())
}

// what returns the text of a record without a separate line. A warning has only numbers. A refusal
// by the budget already has its numbers.
func what(d evidence.Decision) string {
	if d.Type == evidence.BudgetWarning {
		return fmt.Sprintf("%d of %d %s used", d.Used, d.Max, d.Limit)
	}
	return d.Reason + d.Err
}
