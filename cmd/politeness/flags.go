package main

import (
	"flag"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// withNearest returns the error of flags.Parse, with the flag that was meant if an unknown one is
// nearly its name, and with the form of a number if that is wrong.
func withNearest(flags *flag.FlagSet, err error) error {
	text := err.Error()
	if number, ok := strings.CutSuffix(text, ": parse error"); ok && strings.HasPrefix(text, "invalid value") {
		return fmt.Errorf("%s: write a whole number, as in 100", number) // the other kinds have their own errors
	}
	_, name, isUnknown := strings.Cut(text, "not defined: -")
	if !isUnknown {
		return err
	}
	var names []string
	flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	meant := nearest(name, slices.Values(names))
	if meant == "" {
		return fmt.Errorf("there is no flag -%s", name)
	}
	return fmt.Errorf("there is no flag -%s: did you mean -%s?", name, meant)
}

// nearest returns the first of the names that a person can have meant who wrote name, or "".
func nearest(name string, names iter.Seq[string]) string {
	const mostEdits = 2
	found := ""
	least := min(mostEdits, len(name)/2) + 1
	for _, known := range slices.Sorted(names) {
		if d := edits(name, known); d < least {
			least = d
			found = known
		}
	}
	return found
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
// errors, and a user of the command knows the flag. No flag makes a log signed.
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
	"it has to be written with evidence.LogConfig.Signed",
	`the crawler has to sign it, in a program of your own ("Sign a log" in docs/proof.md)`,
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
		line = strings.TrimPrefix(line, "audit: ") // the command's name is in front of it
		if !slices.Contains(lines, line) {         // a flag may set two fields
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is and errors.As see the library's error.
func (e flagError) Unwrap() error { return e.error }

// inFlags returns err with the names of flags.
func inFlags(err error) error { return flagError{err} }
