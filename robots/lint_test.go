package robots_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/robots"
)

func TestLint(t *testing.T) {
	type at struct {
		line    int
		problem robots.Problem
	}
	for _, c := range []struct {
		name, body string
		want       []at
	}{
		{"nothing to say", "\xef\xbb\xbf# hello\nUser-agent: *\nDisallow: /a\nAllow: /b$\nDisallow:\nCrawl-delay: 1.5\nRequest-rate: 1/10m 0600-0845\n\nVisit-time: 0600-0845\nContent-Signal: search=yes\nContent-Usage: /a train-ai=n\nUser-agent: MJ12bot\nUser-agent: Foo\nDisallow: /\nSitemap: https://example.com/s.xml\nHost: example.com\nLicense: https://example.com/l", nil},
		{"empty", "", nil},
		{"unknown key", "Noindex: /a", []at{{1, robots.UnknownKey}}},
		{"misspelled keys", "useragent: *\nDissallow: /\nAllowed: /b\nsite-map: https://a/b", []at{{1, robots.MisspelledKey}, {2, robots.MisspelledKey}, {3, robots.MisspelledKey}, {4, robots.MisspelledKey}}},
		{"rules before any agent", "Disallow: /\nCrawl-delay: 1\nUser-agent: *\nDisallow:", []at{{1, robots.RuleBeforeAgent}, {2, robots.RuleBeforeAgent}}},
		{"never matching", "User-agent: *\nDisallow: a/\nDisallow: https://example.com/", []at{{2, robots.NeverMatches}, {3, robots.NeverMatches}}},
		{"BOM twice", "\xef\xbb\xbf\xef\xbb\xbfUser-agent: *\nDisallow: /", []at{{1, robots.RepeatedBOM}, {1, robots.UnknownKey}, {2, robots.RuleBeforeAgent}}},
		{"long line", "User-agent: *\nDisallow: /" + strings.Repeat("a", 16663), []at{{2, robots.LongLine}}},
		{"conflict", "User-agent: *\nDisallow: /%7Ea\nAllow: /~a\nDisallow: /b\nDisallow: /b\nUser-agent: a\nAllow: /b", []at{{3, robots.Conflict}, {5, robots.Duplicate}}},
		{"page", "<!DOCTYPE html>\n<html>", []at{{0, robots.HTMLPage}}},
		{"long line, just not", "User-agent: *\nDisallow: /" + strings.Repeat("a", 16663-len("Disallow: /")), nil},
		{"missing colon", "User-agent *\nDisallow /", []at{{1, robots.MissingColon}, {2, robots.MissingColon}}},
		{"no separator", "User-agent: *\nDisallow: /\nthis is no rule", []at{{3, robots.NoSeparator}}},
		{"encoding", "User-agent: *\nDisallow: /\xff\nDisallow: /a\x00b\n\x00Foo: x", []at{{2, robots.BadEncoding}, {3, robots.BadEncoding}, {4, robots.BadEncoding}}},
		{"agents", "User-agent: Foo Bar\nUser-agent:\nUser-agent: foo*\nUser-agent: * all\nDisallow: /", []at{{1, robots.BadAgent}, {2, robots.BadAgent}, {3, robots.BadAgent}}},
		{"agents without rules", "User-agent: a\nCrawl-delay: 1\nUser-agent: b\nDisallow: /\nUser-agent: c", []at{{1, robots.SharedGroup}, {5, robots.EmptyGroup}}},
		{"values", "User-agent: *\nCrawl-delay: 10s\nRequest-rate: 5\nVisit-time: 6-8\nContent-Signal: yes\nContent-Usage: no\nHost:\nSitemap: /s.xml\nDisallow:", []at{{2, robots.BadValue}, {3, robots.BadValue}, {4, robots.BadValue}, {5, robots.BadValue}, {6, robots.BadValue}, {7, robots.BadValue}, {8, robots.BadValue}}},
		{"groups of one agent are one", "User-agent: *\nDisallow: /\nUser-agent: *\nCrawl-delay: 5", nil},
		{"groups of one agent, named differently", "User-agent: FooBot/1.0\nDisallow: /\nUser-agent: b\nUser-agent: foobot", []at{{1, robots.BadAgent}, {3, robots.EmptyGroup}}},
		{"conflict of two groups", "User-agent: *\nAllow: /\n\nUser-agent: *\nDisallow: /", []at{{5, robots.Conflict}}},
		{"conflict of two groups, for one agent", "User-agent: a\nAllow: /\nUser-agent: b\nUser-agent: a\nDisallow: /", []at{{5, robots.Conflict}}},
		{"said already, but not to b", "User-agent: a\nDisallow: /\nUser-agent: b\nUser-agent: a\nDisallow: /\nDisallow: /", []at{{6, robots.Duplicate}}},
		{"said already, but not to b, who comes last", "User-agent: a\nDisallow: /\nUser-agent: a\nUser-agent: b\nDisallow: /", nil},
		{"one agent twice", "User-agent: a\nUser-agent: a\nDisallow: /", nil},
		{"a dollar and an end", "User-agent: *\nDisallow: /a%24\nAllow: /a$\nDisallow: /a$", []at{{4, robots.Conflict}}},
		{"conflict, then duplicates", "User-agent: *\nDisallow: /a\nAllow: /a\nAllow: /a\nDisallow: /a", []at{{3, robots.Conflict}, {4, robots.Duplicate}, {5, robots.Duplicate}}},
		{"page behind comments", "\n<!-- c -->\n<!-- d --><!DOCTYPE html>", []at{{0, robots.HTMLPage}}},
		{"page, body only", "<BODY>", []at{{0, robots.HTMLPage}}},
		{"page, title first", "<title>Not found</title>", []at{{0, robots.HTMLPage}}},
		{"page behind white space", strings.Repeat(" ", 600) + "<html>", []at{{0, robots.HTMLPage}}},
		{"a comment is no page", "<!-- c -->\nUser-agent: *\nDisallow: /", []at{{1, robots.NoSeparator}}},
		{"unknown key in a group", "User-agent: a\nFoo: x\nUser-agent: b\nDisallow: /", []at{{1, robots.SharedGroup}, {2, robots.UnknownKey}}},
		{"Yandex's key", "User-agent: a\nClean-param: ref /a\nUser-agent: b\nDisallow: /", nil},
		{"too large", strings.Repeat("#\n", 250<<10) + "#", []at{{0, robots.TooLarge}}},
		{"just not too large", strings.Repeat("#\n", 250<<10), nil},
		{"no key", "User-agent: *\n: /a\nDisallow: /", []at{{2, robots.NoSeparator}}},
		{"a signal for everyone", "Content-Signal: ai-train=no\nUser-agent: *\nDisallow: /", nil},
		{"a signal in a group", "User-agent: a\nContent-Signal: ai-train=no\nUser-agent: b\nDisallow: /", []at{{1, robots.SharedGroup}}},
	} {
		var got []at
		for _, f := range robots.Parse([]byte(c.body)).Lint() {
			got = append(got, at{f.Line, f.Problem})
			if f.Text == "" || len(f.Text) > 250 {
				t.Errorf("%s: the text is %q", c.name, f.Text)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// What a text quotes of the file is cut after 60 bytes, and shows that it is.
func TestLintCutsWhatItQuotes(t *testing.T) {
	for key, want := range map[string]string{
		strings.Repeat("x", 60): "\"" + strings.Repeat("x", 60) + "\"",
		strings.Repeat("x", 61): "\"" + strings.Repeat("x", 60) + "\"...",
	} {
		found := robots.Parse([]byte(key + ": y")).Lint()
		if len(found) != 1 || !strings.HasSuffix(found[0].Text, want) {
			t.Errorf("a key of %d bytes: %v", len(key), found)
		}
	}
}

// A list of many agents with many rules costs no more than can be borne, and what is said of
// it is true.
func TestLintOfManyAgentsAndRulesIsBounded(t *testing.T) {
	var body strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&body, "User-agent: a%d\n", i)
	}
	for i := range 10000 {
		fmt.Fprintf(&body, "Allow: /%d\n", i)
	}
	body.WriteString("User-agent: b\nDisallow: /y\nDisallow: /y\n") // an agent alone costs little
	found := robots.Parse([]byte(body.String())).Lint()
	if len(found) != 1 || found[0].Problem != robots.Duplicate {
		t.Errorf("%d findings: %.500v", len(found), found)
	}
}

// However many rules have been read, what is repeated after them is found.
func TestLintOfManyRules(t *testing.T) {
	var body strings.Builder
	body.WriteString("User-agent: a\n")
	for i := range 1 << 16 {
		fmt.Fprintf(&body, "Allow:/%x\n", i)
	}
	body.WriteString("User-agent: b\nUser-agent: c\nDisallow: /y\nDisallow: /y\n")
	found := robots.Parse([]byte(body.String())).Lint()
	if len(found) != 2 || found[0].Problem != robots.TooLarge || found[1].Problem != robots.Duplicate {
		t.Errorf("%d findings: %.500v", len(found), found)
	}
}
