package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/internal/printable"
	"github.com/go-politeness/politeness/redis/redislimit"
)

// hosts returns the states of all hosts: first the blocked ones, then those in use.
func hosts(ctx context.Context, fleet *redislimit.Limiter) (all []hostlimit.HostState, err error) {
	for state, err := range fleet.List(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, state)
	}
	slices.SortFunc(all, func(a, b hostlimit.HostState) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Key, b.Key))
	})
	return all, nil
}

// rank is the place of a host in a list.
func rank(s hostlimit.HostState) int {
	switch {
	case blocked(s):
		return 0
	case s.InFlight+s.Waiters > 0:
		return 1
	}
	return 2
}

func blocked(s hostlimit.HostState) bool { return !s.BlockedUntil.IsZero() }

// A hostLine is a host in JSON.
type hostLine struct {
	Host         string     `json:"host"`
	Starts       uint64     `json:"starts"`
	InFlight     int        `json:"inFlight"`
	Waiting      int        `json:"waiting"`
	Delay        float64    `json:"delay"` // seconds
	Next         time.Time  `json:"next"`
	BlockedUntil *time.Time `json:"blockedUntil,omitempty"`
	BlockedBy    string     `json:"blockedBy,omitempty"`
	Refusals     int        `json:"refusals,omitempty"`
}

// list writes a line for each host.
func list(ctx context.Context, out io.Writer, fleet *redislimit.Limiter, r request) error {
	state, err := fleet.Fleet(ctx)
	if err != nil {
		return err
	}
	all, err := hosts(ctx, fleet)
	if err != nil {
		return err
	}
	if r.blocked {
		all = slices.DeleteFunc(all, func(s hostlimit.HostState) bool { return !blocked(s) })
	}
	if r.json {
		return listJSON(out, all)
	}
	if !state.PausedUntil.IsZero() {
		fmt.Fprintf(out, "drained until %s: no request starts\n", moment(state.PausedUntil))
	}
	fmt.Fprintf(out, "%-34s %8s %6s %7s %8s  %s\n", "HOST", "STARTS", "FLYING", "WAITING", "DELAY", "BLOCK")
	for _, s := range all {
		line := fmt.Sprintf("%-34s %8d %6d %7d %8s  %s",
			printable.Clipped(s.Key, 255), s.Starts, s.InFlight, s.Waiters, short(s.Delay), blockOf(s))
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	switch {
	case len(all) == 0 && r.blocked:
		fmt.Fprintln(out, "(no host is blocked)")
	case len(all) == 0:
		fmt.Fprintln(out, "(no host: no crawler uses this -prefix, or no host has state)")
	}
	return nil
}

// listJSON writes an object for each host.
func listJSON(out io.Writer, all []hostlimit.HostState) error {
	lines := json.NewEncoder(out)
	for _, s := range all {
		line := hostLine{
			Host:      s.Key,
			Starts:    s.Starts,
			InFlight:  s.InFlight,
			Waiting:   s.Waiters,
			Delay:     s.Delay.Seconds(),
			Next:      s.Next.UTC(),
			BlockedBy: s.BlockedBy,
			Refusals:  s.Refusals,
		}
		if blocked(s) {
			until := s.BlockedUntil.UTC()
			line.BlockedUntil = &until
		}
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// blockOf is the cell of a host's block.
func blockOf(s hostlimit.HostState) string {
	switch {
	case blocked(s):
		return "until " + moment(s.BlockedUntil) + ", " + printable.Clipped(s.BlockedBy, 200)
	case s.Probing:
		return "over, the probe is in flight"
	case s.Refusals > 0:
		return "over, the next request is the probe"
	}
	return ""
}

// watch lists until ctx is done. On a terminal each list replaces the one before. An error ends it
// only at the first time.
func watch(ctx context.Context, out io.Writer, fleet *redislimit.Limiter, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for first := true; ; first = false {
		var page strings.Builder
		err := list(ctx, &page, fleet, request{})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			fmt.Fprintf(&page, "%s\n", printable.Text(err.Error()))
		}
		if isTerminal(out) {
			fmt.Fprint(out, "\x1b[H\x1b[2J")
		}
		fmt.Fprintf(out, "%s\n%s", moment(time.Now()), &page)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// lively is how long a process keeps its slots without a sign of life.
const lively = 10 * time.Second

// A processLine is a process in JSON.
type processLine struct {
	Name     string  `json:"name"`
	ID       string  `json:"id"`
	Seen     float64 `json:"seen"` // seconds since its last sign of life
	Live     bool    `json:"live"`
	Promises string  `json:"promises"`
	Differs  string  `json:"differs,omitempty"` // from most of the live ones
}

// processes returns those of the fleet.
func processes(state redislimit.Fleet) (all []processLine) {
	number := make(map[string]int)
	usual := "" // promises of most
	for _, p := range state.Processes {
		if p.Seen > lively {
			continue
		}
		number[p.Promises]++
		if number[p.Promises] > number[usual] {
			usual = p.Promises
		}
	}
	for _, p := range state.Processes {
		line := processLine{
			Name:     p.Name,
			ID:       p.ID,
			Seen:     p.Seen.Seconds(),
			Live:     p.Seen <= lively,
			Promises: p.Promises,
		}
		if line.Live && p.Promises != usual {
			line.Differs = difference(p.Promises, usual)
		}
		all = append(all, line)
	}
	return all
}

// difference returns the fields of a process's promises that aren't among the usual ones.
func difference(promises, usual string) string {
	var found []string
	others := map[string]string{}
	for field := range strings.SplitSeq(usual, "; ") {
		name, value, _ := strings.Cut(field, " ")
		others[name] = value
	}
	for field := range strings.SplitSeq(promises, "; ") {
		name, value, _ := strings.Cut(field, " ")
		other, ok := others[name]
		switch {
		case !ok:
			found = append(found, field)
		case value != other:
			found = append(found, field+" (others "+other+")")
		}
	}
	return cmp.Or(strings.Join(found, ", "), "another version")
}

// showProcesses writes a line for each process.
func showProcesses(ctx context.Context, out io.Writer, fleet *redislimit.Limiter, asJSON bool) error {
	state, err := fleet.Fleet(ctx)
	if err != nil {
		return err
	}
	all := processes(state)
	if asJSON {
		lines := json.NewEncoder(out)
		for _, p := range all {
			if err := lines.Encode(p); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Fprintf(out, "%-40s %-12s  %s\n", "NAME", "ID", "LAST SIGN OF LIFE")
	for i, p := range all {
		seen := short(state.Processes[i].Seen) + " ago"
		switch {
		case !p.Live:
			seen += ": is idle or dead"
		case p.Differs != "":
			seen += ": has " + printable.Clipped(p.Differs, 500)
		}
		fmt.Fprintf(out, "%-40s %-12s  %s\n", printable.Clipped(p.Name, 255), printable.Clipped(p.ID, 40), seen)
	}
	if len(all) == 0 {
		fmt.Fprintln(out, "(none in the last hour)")
	}
	return nil
}

// A status is the fleet's for a monitor.
type status struct {
	Problems    []string   `json:"problems"` // of the server, and processes that differ
	PausedUntil *time.Time `json:"pausedUntil,omitempty"`
	Processes   int        `json:"processes"` // that live
	Hosts       int        `json:"hosts"`
	Blocked     int        `json:"blocked"`
	InFlight    int        `json:"inFlight"`
	Waiting     int        `json:"waiting"`
}

// showStatus writes the problems, and how much is under way.
func showStatus(ctx context.Context, out io.Writer, fleet *redislimit.Limiter, asJSON bool) (int, error) {
	s, err := statusOf(ctx, fleet)
	if err != nil {
		return 0, err
	}
	code := exitOK
	if len(s.Problems) > 0 {
		code = exitNo
	}
	if asJSON {
		return code, json.NewEncoder(out).Encode(s)
	}
	for _, p := range s.Problems {
		fmt.Fprintln(out, printable.Clipped(p, 1000))
	}
	if s.PausedUntil != nil {
		fmt.Fprintf(out, "drained until %s: no request starts\n", moment(*s.PausedUntil))
	}
	fmt.Fprintf(out, "processes live: %d; hosts: %d, blocked: %d; requests in flight: %d, waiting: %d\n",
		s.Processes, s.Hosts, s.Blocked, s.InFlight, s.Waiting)
	return code, nil
}

// statusOf asks the server for the status.
func statusOf(ctx context.Context, fleet *redislimit.Limiter) (status, error) {
	problems, err := fleet.Check(ctx)
	if err != nil {
		return status{}, err
	}
	state, err := fleet.Fleet(ctx)
	if err != nil {
		return status{}, err
	}
	all, err := hosts(ctx, fleet)
	if err != nil {
		return status{}, err
	}
	s := status{Problems: append([]string{}, problems...), Hosts: len(all)}
	if !state.PausedUntil.IsZero() {
		until := state.PausedUntil.UTC()
		s.PausedUntil = &until
	}
	for _, p := range processes(state) {
		if p.Live {
			s.Processes++
		}
		if p.Differs != "" {
			s.Problems = append(s.Problems, fmt.Sprintf("process %q has %s", p.Name, p.Differs))
		}
	}
	for _, h := range all {
		if blocked(h) {
			s.Blocked++
		}
		s.InFlight += h.InFlight
		s.Waiting += h.Waiters
	}
	return s, nil
}

// moment is a time as people read it, on this machine's clock.
func moment(t time.Time) string {
	if time.Until(t).Abs() > 20*time.Hour {
		return t.Local().Format("2006-01-02 15:04")
	}
	return t.Local().Format("15:04:05")
}

// short is d with two or three digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
