package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// goals are how often each habit may show in 1,000 lines of a new package.
var goals = [habits]int{tuple: 1, mutation: 1, wide: 2}

// faults name a place of each habit, and advice says how it is written instead.
var (
	faults = [habits]string{
		tuple:    "an assignment of three or more values",
		mutation: "a header that changes a variable",
		wide:     "a line of more than 120 columns",
	}
	advice = [habits]string{
		tuple:    "assign one value a line",
		mutation: "put the statement on the line before the if or the switch",
		wide:     "break the line, or name a part of it",
	}
)

// counts are how often each habit shows in a package, at most.
type counts [habits]int

// A baseline has the counts of known packages, by their paths.
type baseline map[string]counts

const baselineHead = "# Dense code that each package may have at most; see main.go.\n# package"

// parseBaseline reads what format has written.
func parseBaseline(text []byte) (baseline, error) {
	known := baseline{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		var path string
		var c counts
		_, err := fmt.Sscan(line, &path, &c[tuple], &c[mutation], &c[wide])
		if err != nil || len(fields) != 1+int(habits) {
			return nil, fmt.Errorf("%q isn't a package with %d counts", strings.TrimSpace(line), habits)
		}
		known[path] = c
	}
	return known, nil
}

// format returns b as a table.
func (b baseline) format() []byte {
	var out bytes.Buffer
	fmt.Fprintln(&out, baselineHead, strings.Join(habitNames[:], " "))
	for _, path := range slices.Sorted(maps.Keys(b)) {
		c := b[path]
		fmt.Fprintln(&out, path, c[tuple], c[mutation], c[wide])
	}
	return out.Bytes()
}

// baselineOf returns the counts of rooms as they are.
func baselineOf(rooms []*room) baseline {
	b := baseline{}
	for _, r := range rooms {
		b[r.path] = countsOf(r)
	}
	return b
}

func countsOf(r *room) counts {
	var c counts
	for h := range habits {
		c[h] = r.count(h)
	}
	return c
}

// lowered returns b with the counts that have fallen and with the new packages that keep the goals,
// without the packages that are gone.
func (b baseline) lowered(rooms []*room) baseline {
	next := baseline{}
	for _, r := range rooms {
		most, isKnown := b.most(r)
		now := countsOf(r)
		keeps := true
		for h := range habits {
			keeps = keeps && now[h] <= most[h]
			most[h] = min(most[h], now[h])
		}
		if isKnown || keeps {
			next[r.path] = most
		}
	}
	return next
}

// most returns how often each habit may show in r.
func (b baseline) most(r *room) (most counts, isKnown bool) {
	if most, ok := b[r.path]; ok {
		return most, true
	}
	// Rounded up: however small a package is, it may have one of each.
	for h := range habits {
		most[h] = (goals[h]*r.lines + 999) / 1000
	}
	return most, false
}

// problems returns each place of a habit that shows too often in its package.
func (b baseline) problems(rooms []*room) []string {
	var problems []string
	for _, r := range rooms {
		most, _ := b.most(r)
		for _, p := range r.places {
			n := r.count(p.habit)
			if n > most[p.habit] {
				problems = append(problems, fmt.Sprintf("%s:%d: %s: %s (package %s has %d, at most %d are allowed)",
					p.file, p.line, faults[p.habit], advice[p.habit], r.path, n, most[p.habit]))
			}
		}
	}
	return problems
}
