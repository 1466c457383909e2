package docs

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

var (
	// prose is a line of running text: no heading, table, picture or comment.
	prose = regexp.MustCompile(`^ *[^ |#!<]`)
	// item is the first line of an item of a list.
	item = regexp.MustCompile(`^ *(-|\d+\.) `)
	// unit is what stands at the beginning of a line and isn't broken: a link, code, or a word.
	unit = regexp.MustCompile("^(\\[[^]]*\\]\\([^)]*\\)|`[^`]*`)?\\S*")
)

// TestWrapped: a line of prose in README.md and the guides has at most 100 columns, and ends where
// the next word has no room. So an edit in the middle of a paragraph leaves no ragged line.
func TestWrapped(t *testing.T) {
	for name, text := range guides(t) {
		before := 0 // columns of the line before, 0 if the next one doesn't continue it
		fenced := false
		for i, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				before = 0
				fenced = !fenced
				continue
			}
			if fenced || !prose.MatchString(line) {
				before = 0
				continue
			}
			next := utf8.RuneCountInString(unit.FindString(strings.TrimSpace(line)))
			if before > 0 && !item.MatchString(line) && before+1+next <= 98 {
				t.Errorf("%s:%d ends at column %d, where what follows has room: wrap the paragraph", name, i, before)
			}
			before = utf8.RuneCountInString(line)
			if before > 100 && !strings.Contains(line, "](") && !item.MatchString(line) {
				t.Errorf("%s:%d has %d columns", name, i+1, before)
			}
		}
	}
}
