package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	fences  = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```")
)

// anchors returns the fragments by which the headings of a page are linked to, as GitHub makes them.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	for _, h := range heading.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(h[1]))
		all[anchor] = true
	}
	return all
}

// TestLinks: what README.md and the guides link to is there, headings included.
func TestLinks(t *testing.T) {
	pages := []string{
		"../README.md",
		"../ARCHITECTURE.md",
		"../.github/CONTRIBUTING.md",
		"../.github/SECURITY.md",
		"../examples/README.md",
		"../examples/recipes/README.md",
		"../lab/servers/RESULTS.md",
		"../lab/traps/RESULTS.md",
	}
	for _, pattern := range []string{"*.md", "design/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(fences.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(found[1], "://") || strings.HasPrefix(found[1], "mailto:") {
				continue
			}
			name, fragment, _ := strings.Cut(found[1], "#")
			goal := page
			if name != "" {
				goal = filepath.Join(filepath.Dir(page), name)
			}
			if _, err := os.Stat(goal); err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if fragment == "" {
				continue
			}
			linked, err := os.ReadFile(goal)
			if err != nil {
				t.Errorf("%s: %v", page, err)
			} else if !anchors(string(linked))[fragment] {
				t.Errorf("%s: %s has no heading #%s", page, goal, fragment)
			}
		}
	}
}
