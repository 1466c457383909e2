package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// A timeline merges the evidence of all processes. It prints each record a moment late,
// so that records which arrive out of order come out in order.
type timeline struct {
	out    io.Writer
	origin string

	mu      sync.Mutex
	begin   time.Time
	waiting []record
	last    time.Time // start of the request before
	starts  [processes]int
	gap     time.Duration // shortest
	delay   time.Duration // in force since the last start
	short   int           // gaps that were shorter than the delay in force
	block   time.Time     // end of the block
	into    int           // starts into it
}

type record struct {
	process int
	evidence.Decision
}

// patience is how long a record is held back.
const patience = 200 * time.Millisecond

func newTimeline(out io.Writer, origin string) *timeline {
	fmt.Fprintf(out, "%7s  %-*s %-26s %s\n", "seconds", 6*processes, "crawler", "request", "what and why")
	return &timeline{out: out, origin: origin, begin: time.Now(), gap: time.Hour}
}

// follow reads the log of one process to its end.
func (l *timeline) follow(process int, log io.Reader) error {
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var d evidence.Decision
		if err := d.UnmarshalJSON(lines.Bytes()); err != nil {
			return err
		}
		if !d.Start.IsZero() && d.Type == evidence.Started {
			d.Time = d.Start
		}
		l.mu.Lock()
		l.waiting = append(l.waiting, record{process, d})
		l.print(time.Now().Add(-patience))
		l.mu.Unlock()
	}
	return lines.Err()
}

// print prints what is older than that.
func (l *timeline) print(than time.Time) {
	slices.SortStableFunc(l.waiting, func(a, b record) int { return a.Time.Compare(b.Time) })
	for len(l.waiting) > 0 && l.waiting[0].Time.Before(than) {
		r := l.waiting[0]
		l.waiting = l.waiting[1:]
		what := l.describe(r)
		if what == "" {
			continue
		}
		lane := strings.Repeat(".     ", r.process) + fmt.Sprintf("%-6d", r.process+1) + strings.Repeat(".     ", processes-1-r.process)
		fmt.Fprintf(l.out, "%7.3f  %s %-26s %s\n", r.Time.Sub(l.begin).Seconds(), lane, strings.TrimPrefix(r.URL, l.origin), what)
	}
}

// describe says what a record means, and keeps count.
func (l *timeline) describe(r record) string {
	switch r.Type {
	case evidence.Started:
		return l.started(r)
	case evidence.HostBlocked:
		l.block = r.Until
		return fmt.Sprintf("BLOCKED for all: status %d, for %v", r.Status, r.Until.Sub(r.Time).Round(10*time.Millisecond))
	case evidence.HostCleared:
		return "cleared for all"
	case evidence.BudgetWarning:
		return fmt.Sprintf("budget: %d of %d %s", r.Used, r.Max, r.Limit)
	case evidence.BudgetExceeded:
		return "budget spent: " + r.Limit
	case evidence.SlotTimeout, evidence.Failed:
		return string(r.Type) + ": " + r.Reason
	}
	return ""
}

func (l *timeline) started(r record) string {
	l.starts[r.process]++
	why := fmt.Sprintf("start %2d, slot %d of %d", r.Seq, r.Slot, r.Slots)
	if !l.last.IsZero() {
		gap := r.Start.Sub(l.last)
		why += fmt.Sprintf(", %4d ms after the one before", gap.Milliseconds())
		l.gap = min(l.gap, gap)
		if gap < l.delay {
			l.short++
		}
	}
	if r.Start.Before(l.block) {
		l.into++
	}
	if r.Probe {
		why += ", alone: first after the block"
	}
	l.last, l.delay = r.Start, r.Delay
	return why
}

// summary says whether it was one polite crawler.
func (l *timeline) summary(arrivals, robots int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print(time.Now().Add(time.Hour))
	total := 0
	for _, n := range l.starts {
		total += n
	}
	fmt.Fprintf(l.out, "\n%d requests by %d processes (%v, robots.txt included), the shortest gap %v.\n", total, processes, l.starts, l.gap.Round(time.Millisecond))
	fmt.Fprintf(l.out, "%d gaps shorter than the delay in force, %d starts into the block; the site counted %d requests, %d of them for robots.txt.\n",
		l.short, l.into, arrivals, robots)
	if l.short > 0 || l.into > 0 || total != arrivals || robots != 1 {
		return fmt.Errorf("that was not polite")
	}
	return nil
}
