// Golfcheck finds new dense code in all modules. It counts three habits in each package, its tests
// aside:
//
//	tup3  an assignment of three or more unrelated values on one line
//	mut   an if or switch whose header changes a variable that lives on
//	wide  a line of code of more than 120 columns, where a tab is 4
//
// No count of a package may rise above the one in baseline.txt, and a package that isn't in there
// keeps the goals: 1 tup3, 1 mut and 2 wide in 1,000 lines, rounded up.
//
//	go run ./internal/golfcheck [-w]
//
// It prints the places of a count that is too high. With -w it writes the counts that have fallen,
// and those of new packages that keep the goals, to baseline.txt. It raises none: to do that, edit
// the file, where a reviewer sees it. Without the file, -w writes all counts as they are.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// baselineFile is the path of the baseline below the root of the repository.
const baselineFile = "internal/golfcheck/baseline.txt"

func main() {
	write := flag.Bool("w", false, "write the counts that have fallen")
	flag.Parse()
	problems, err := checkAll(".", *write)
	if err != nil {
		fmt.Fprintln(os.Stderr, "golfcheck:", err)
		os.Exit(2)
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// checkAll compares the packages below root with the baseline; with write it writes that before.
func checkAll(root string, write bool) ([]string, error) {
	rooms, err := countAll(root)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(root, filepath.FromSlash(baselineFile))
	text, err := os.ReadFile(name)
	isNew := write && errors.Is(err, fs.ErrNotExist)
	if err != nil && !isNew {
		return nil, err
	}
	known, err := parseBaseline(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", baselineFile, err)
	}
	if !write {
		return known.problems(rooms), nil
	}
	if isNew {
		known = baselineOf(rooms)
	} else {
		known = known.lowered(rooms)
	}
	if err := os.WriteFile(name, known.format(), 0o644); err != nil {
		return nil, err
	}
	return known.problems(rooms), nil
}
