package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
)

// withNearest returns the error of flags.Parse, with the flag that was meant if an unknown one is
// nearly its name.
func withNearest(flags *flag.FlagSet, err error) error {
	_, name, isUnknown := strings.Cut(err.Error(), "not defined: -")
	if !isUnknown {
		return err
	}
	const mostEdits = 2
	nearest := ""
	least := min(mostEdits, len(name)/2) + 1
	flags.VisitAll(func(f *flag.Flag) {
		if d := edits(name, f.Name); d < least {
			least = d
			nearest = f.Name
		}
	})
	if nearest == "" {
		return fmt.Errorf("there is no flag -%s", name)
	}
	return fmt.Errorf("there is no flag -%s: did you mean -%s?", name, nearest)
}

// edits returns the least number of letters that are added, taken away or replaced to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1) // of the beginnings of b, for the beginning of a so far
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // of the row above, one column to the left
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}

// fieldsOfFlags are the fields of a Config that a flag sets. The library names the field in its
// errors, and a user of the command knows the flag.
var fieldsOfFlags = strings.NewReplacer(
	"Config.UserAgent", "-agent",
	"Config.Hosts: Delay.Min", "-delay",
	"Config.Hosts: Delay.Max", "-delay",
	"Config.Hosts: Delay", "-delay",
	"Config.Hosts: Concurrency", "-per-host",
	"Config.Hosts: MaxWait", "-max-wait",
	"Config.Spend.Pages", "-pages",
	"Config.Spend.Duration", "-time",
	"Config.MaxPages", "-pages",
	"Config.Revisit", "-every",
)

// A flagError is an error that names flags where the library names fields.
type flagError struct{ error }

// Error implements error.
func (e flagError) Error() string {
	var lines []string
	for line := range strings.Lines(fieldsOfFlags.Replace(e.error.Error())) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "politeness: -"); ok {
			line = "-" + rest
		}
		if !slices.Contains(lines, line) { // a flag may set two fields
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is and errors.As see the library's error.
func (e flagError) Unwrap() error { return e.error }

// inFlags returns err with the names of flags.
func inFlags(err error) error { return flagError{err} }
