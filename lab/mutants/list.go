package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// file is in the directory of this program, in which make mutants runs it.
const file = "mutants.txt"

// read reads mutants.txt: a line "PACKAGE reaches R notices N", with " of TRIED tried, ALL in all"
// where not all have been tried, and after it for each survivor its
// name and, on the next line, why it is harmless.
func read() (map[string]score, error) {
	scores := map[string]score{}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return scores, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var s score
	var survivor string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "\t\t"):
			s.alive[survivor] = line[2:]
		case line[0] == '\t':
			survivor = line[1:]
			s.alive[survivor] = ""
		default:
			var pkg string
			s = score{alive: map[string]string{}}
			n, err := fmt.Sscanf(line, "%s reaches %f notices %f of %d tried, %d in all",
				&pkg, &s.reaches, &s.notices, &s.tried, &s.all)
			if n < 3 {
				return nil, fmt.Errorf("mutants.txt: %q: %w", line, err)
			}
			scores[pkg] = s
		}
	}
	return scores, lines.Err()
}

const head = `# What the tests make of mutants (make mutants): the share in percent that they reach, and of those the
# share that they notice; then each mutant that lives, and why that is harmless.
`

func write(scores map[string]score) error {
	var b strings.Builder
	b.WriteString(head)
	for _, pkg := range slices.Sorted(maps.Keys(scores)) {
		s := scores[pkg]
		fmt.Fprintf(&b, "\n%s reaches %.1f notices %.1f", pkg, s.reaches, s.notices)
		if s.tried < s.all {
			fmt.Fprintf(&b, " of %d tried, %d in all", s.tried, s.all)
		}
		b.WriteString("\n")
		for _, name := range slices.Sorted(maps.Keys(s.alive)) {
			fmt.Fprintf(&b, "\t%s\n\t\t%s\n", name, s.alive[name])
		}
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
