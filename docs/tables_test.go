package docs

import (
	"regexp"
	"strings"
	"testing"
)

// rule is the second line of a table.
var rule = regexp.MustCompile(`^\|[-| :]+\|$`)

// TestTables: each block of rows in README.md and the guides has a head. So a row that is taken out
// leaves no blank line, below which the other rows would be text.
func TestTables(t *testing.T) {
	for name, text := range guides(t) {
		lines := strings.Split(fences.ReplaceAllString(text, ""), "\n")
		inTable := false
		for i, line := range lines {
			isRow := strings.HasPrefix(line, "|")
			if isRow && !inTable && !rule.MatchString(lines[i+1]) {
				t.Errorf("%s: no head above %s", name, line)
			}
			inTable = isRow
		}
	}
}
