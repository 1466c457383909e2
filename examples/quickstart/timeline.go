package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// A timeline is Evidence for people: it prints each decision as it is made.
type timeline struct {
	origin string // cut from URLs, so that lines stay short

	mu      sync.Mutex
	out     io.Writer
	start   time.Time
	counts  map[evidence.Type]int
	waited  time.Duration
	refused int // by a rule of robots.txt
}

func newTimeline(out io.Writer) *timeline {
	return &timeline{out: out, counts: make(map[evidence.Type]int)}
}

func (l *timeline) begin() {
	l.start = time.Now()
	fmt.Fprintf(l.out, "%7s  %-9s  %-16s  %s\n", "seconds", "what", "where", "why")
}

// end ends what is printed: the fetch of a robots.txt for which nothing waits any more may end
// later.
func (l *timeline) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, "%7.3f  done\n", time.Since(l.start).Seconds())
	l.out = io.Discard
}

// Record prints d.
func (l *timeline) Record(_ context.Context, d evidence.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[d.Type]++
	if d.Type == evidence.BlockedByRobots && d.MatchedRule != "" {
		l.refused++
	}
	l.waited += d.WaitSlot + d.WaitDelay + d.WaitBlock
	what, why := describe(d)
	if what == "" {
		return
	}
	now := time.Now()
	if d.Type == evidence.Started && now.Sub(d.Time) > 100*time.Millisecond {
		// It is on record when the request is answered: a slow log would otherwise delay the request.
		what = "started"
		why = fmt.Sprintf("at %.3f: %s", d.Time.Sub(l.start).Seconds(), why)
	}
	where := strings.TrimPrefix(d.URL, l.origin)
	fmt.Fprintf(l.out, "%7.3f  %-9s  %-16s  %s\n", now.Sub(l.start).Seconds(), what, where, why)
}

// describe returns a decision and its reason as text.
func describe(d evidence.Decision) (what, why string) {
	switch d.Type {
	case evidence.PolicyStated: // printed before the start
		return "", ""
	case evidence.RobotsAllowed, evidence.BlockedByRobots:
		return verdict(d)
	case evidence.Started:
		why = fmt.Sprintf("slot %d of %d%s", d.Slot, d.Slots, waits(d))
		if d.Probe {
			why += ", first after the block"
		}
		return "start", why
	case evidence.Fetched:
		why = fmt.Sprintf("status %d, %d bytes, %v", d.Status, d.Bytes, d.Duration.Round(10*time.Microsecond))
		if d.Location != "" {
			why += ", redirects to " + d.Location
		}
		return "end", why
	case evidence.Failed:
		return failure(d)
	case evidence.HostBlocked:
		cause := "no response"
		if d.Status > 0 {
			cause = fmt.Sprintf("status %d", d.Status)
		}
		left := d.Until.Sub(d.Time).Seconds()
		return "BLOCKED", fmt.Sprintf("%s: nobody asks this host for %.1f s, %s", cause, left, d.Reason)
	case evidence.Waiting:
		if d.Until.IsZero() {
			return "waiting", d.Reason
		}
		return "waiting", fmt.Sprintf("%s, for %.1f s", d.Reason, d.Until.Sub(d.Time).Seconds())
	case evidence.HostCleared:
		return "cleared", "the host answers again"
	case evidence.RobotsFetched, evidence.RobotsRevalidated, evidence.RobotsUnreachable:
		why = fmt.Sprintf("status %d, %d bytes, kept for %v", d.Status, d.Bytes, d.TTL)
		if d.Type == evidence.RobotsUnreachable {
			why = "can't be fetched; asked for again in " + d.Until.Sub(d.Time).Round(time.Second).String()
		}
		if d.Reason != "" {
			why += ": " + d.Reason
		}
		return "robots", why
	case evidence.BudgetWarning, evidence.BudgetExceeded:
		if d.Limit == "time" {
			return "budget", fmt.Sprintf("%d of %d s used", d.Used, d.Max)
		}
		return "budget", fmt.Sprintf("%d of %d %s used", d.Used, d.Max, d.Limit)
	}
	return string(d.Type), strings.TrimPrefix(d.Reason+", "+d.Err, ", ")
}

// verdict describes a decision by robots.txt.
func verdict(d evidence.Decision) (what, why string) {
	switch {
	case d.Allowed:
		what = "allowed"
	case d.MatchedRule == "": // no rule is known
		what = "not sent"
	default:
		what = "REFUSED"
	}
	switch {
	case what == "not sent":
		why = fmt.Sprintf("no robots.txt (%s); again in %v", d.Reason, d.RetryAt.Sub(d.Time).Round(time.Second))
	case d.MatchedRule != "":
		why = fmt.Sprintf("robots.txt line %d, group %s: %q", d.Line, d.Group, d.MatchedRule)
	case d.Reason != "":
		why = d.Reason
	default:
		why = "no rule of robots.txt matches"
	}
	if d.CrawlDelay > 0 {
		why += fmt.Sprintf(", crawl-delay %v", d.CrawlDelay)
	}
	return what, why
}

// failure describes a request that has failed, or that the program's own end has stopped.
func failure(d evidence.Decision) (what, why string) {
	late := strings.HasSuffix(d.Err, context.DeadlineExceeded.Error())
	canceled := strings.HasSuffix(d.Err, context.Canceled.Error())
	if !late && !canceled {
		return "failed", strings.TrimPrefix(d.Reason+", "+d.Err, ", ")
	}
	stage, early := strings.CutPrefix(d.Reason, "ended before its start: ")
	if early {
		return "stopped", "it was waiting for its " + strings.Replace(stage, "robots", "robots.txt", 1)
	}
	return "stopped", "its answer hadn't come"
}

// waits returns how long a request waited, and for what.
func waits(d evidence.Decision) string {
	var parts []string
	for _, w := range []struct {
		d   time.Duration
		why string
	}{{d.WaitSlot, "for a slot"}, {d.WaitDelay, "for the delay"}, {d.WaitBlock, "for the block to end"}} {
		if w.d >= 5*time.Millisecond { // otherwise 0.00
			parts = append(parts, fmt.Sprintf("%.2f s %s", w.d.Seconds(), w.why))
		}
	}
	if len(parts) == 0 {
		return ", no wait"
	}
	return ", waited " + strings.Join(parts, ", ")
}

// summary prints the totals.
func (l *timeline) summary(out io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	blocks := fmt.Sprintf("%d blocks", l.counts[evidence.HostBlocked])
	if l.counts[evidence.HostBlocked] == 1 {
		blocks = "1 block"
	}
	fmt.Fprintf(out, "Requests: %d started, %d ended, %d failed; ",
		l.counts[evidence.Started], l.counts[evidence.Fetched], l.counts[evidence.Failed])
	fmt.Fprintf(out, "robots.txt allowed %d and refused %d; %s; %.1f s waited in all.\n",
		l.counts[evidence.RobotsAllowed], l.refused, blocks, l.waited.Seconds())
}
