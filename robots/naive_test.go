package robots_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/robots"
)

// A naiveRule is a rule as the naive matcher has it: a regular expression and a length.
type naiveRule struct {
	line   int
	allow  bool
	re     *regexp.Regexp
	length int
}

// naive is the plainest matcher: all rules of one group as regular expressions. It shares nothing
// with the package.
type naive struct {
	exact bool
	rules []naiveRule
}

// Runes that stand for an escaped star and an escaped dollar; all else is ASCII once escaped.
const naiveStar, naiveDollar = "★", "＄"

// newNaive reads values of rules: value i stands in line i+2 and allows if i is even.
func newNaive(values []string, exact bool) *naive {
	n := &naive{exact: exact}
	for i, value := range values {
		value = strings.Trim(value, " \t\v\f")
		pattern, end := strings.CutSuffix(value, "$")
		n.add(i, pattern, end)
		slash := strings.LastIndex(value, "/")
		if i%2 == 0 && slash >= 0 && strings.HasPrefix(n.normal(value[slash:]), "/index.htm") {
			n.add(i, value[:slash+1], true)
		}
	}
	return n
}

func (n *naive) add(i int, pattern string, end bool) {
	pattern = n.normal(pattern)
	length := len(pattern) // the runes have three bytes, as many as the escapes
	expr := `(?s)\A` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`)
	expr = strings.ReplaceAll(expr, naiveDollar, `\$`)
	if end {
		expr += `\z`
		length++
	}
	n.rules = append(n.rules, naiveRule{i + 2, i%2 == 0, regexp.MustCompile(expr), length})
}

var naiveEscape = regexp.MustCompile(`%[0-9A-Fa-f][0-9A-Fa-f]`)

// normal normalises a pattern.
func (n *naive) normal(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] < 0x80 {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	for s = b.String(); ; {
		again := naiveEscape.ReplaceAllStringFunc(s, func(escape string) string {
			code, _ := strconv.ParseUint(escape[1:], 16, 8) // the expression has two hex digits
			c := byte(code)
			switch {
			case n.exact:
			case strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~", rune(c)):
				return string(rune(c))
			case c == '*':
				return naiveStar
			case c == '$':
				return naiveDollar
			}
			return strings.ToUpper(escape)
		})
		if again == s {
			return s
		}
		s = again
	}
}

// test returns whether a path may be fetched, and the line that decides, 0 for none.
func (n *naive) test(path string) (allowed bool, line int) {
	path, _, _ = strings.Cut(path, "#")
	path, _, _ = strings.Cut(path, "\x00")
	if !n.exact {
		path = strings.ReplaceAll(n.normal(strings.ReplaceAll(path, "*", "%2A")), naiveDollar, "$")
		if path == "/robots.txt" {
			return true, 0
		}
	}
	var best naiveRule
	for _, r := range n.rules {
		if r.re.MatchString(path) && (best.line == 0 || r.length > best.length || r.length == best.length && r.allow && !best.allow) {
			best = r
		}
	}
	return best.line == 0 || best.allow || best.length == 0, best.line
}

// compare compares the package with the naive matcher.
func compare(t *testing.T, values []string, exact bool, paths []string) {
	t.Helper()
	body := "user-agent: *\n"
	for i, value := range values {
		body += []string{"allow: ", "disallow: "}[i%2] + value + "\n"
	}
	rules := robots.ParseWith([]byte(body), robots.Options{GoogleExact: exact}).Agent("FooBot")
	n := newNaive(values, exact)
	for _, path := range paths {
		v := rules.Test(path)
		if allowed, line := n.test(path); v.Allowed != allowed || v.Line != line {
			t.Fatalf("exact %t, %q\n%q: got %v line %d, want %v line %d", exact, body, path, v.Allowed, v.Line, allowed, line)
		}
		if v.Line > 0 && v.Rule != strings.Trim(strings.Split(body, "\n")[v.Line-1], " \t\v\f") {
			t.Fatalf("%q\n%q: rule %q, line %d", body, path, v.Rule, v.Line)
		}
	}
}

// FuzzMatch holds that verdicts are those of the naive matcher.
func FuzzMatch(f *testing.F) {
	for _, c := range robots.MatchCases() {
		var values []string
		for line := range strings.SplitSeq(c[0], "\n") {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.HasSuffix(key, "allow") {
				if key == "disallow" != (len(values)%2 == 1) {
					values = append(values, "/never")
				}
				values = append(values, strings.TrimSpace(value))
			}
		}
		f.Add(strings.Join(values, "\n"), c[1])
	}
	f.Add("/a%zz*%%361$\n/é*\n*é$\n/%c3%a9\n/%C*3%A9", "/é%61")
	f.Add("/*a*b\n/a*b*a*b*ab$\n/*ab*ab", "/"+strings.Repeat("ab", 200))
	f.Fuzz(func(t *testing.T, list, path string) {
		if strings.ContainsAny(list, "\r\x00#") || strings.Contains(path, "\n") || !strings.HasPrefix(path, "/") ||
			len(list) > 2000 || len(path) > 1000 {
			return
		}
		for _, exact := range []bool{false, true} {
			compare(t, strings.Split(list, "\n"), exact, []string{path})
		}
	})
}

// pieces returns n of the strings of, one after the other.
func pieces(r *rand.Rand, n int, of ...string) string {
	var b strings.Builder
	for range n {
		b.WriteString(of[r.IntN(len(of))])
	}
	return b.String()
}

// Files of all kinds of patterns decide as the naive matcher does: 60, 400 with POLITENESS_LONG=1.
func TestRandomFiles(t *testing.T) {
	of := []string{
		"a", "b", "ab", "ba", "/", "/a", "/b/", "*", "*", "**", "$", "?", "?a=", "%61", "%2A", "%24", "%d0%9a", "\xd0\x9a", "%D0", "%",
		"%%361", "index.html", "/index.htm", "a_long_stretch_of_a_pattern", ".html", "x", "%2f", "D0%9", "\xff", "\x80",
	}
	files := 60
	if os.Getenv("POLITENESS_LONG") != "" {
		files = 400
	}
	r := rand.New(rand.NewPCG(7, 11))
	for range files {
		shared := "/" + pieces(r, r.IntN(4), of...) // so that many share a prefix
		var values, paths []string
		for range 1 + r.IntN(80) {
			values = append(values, []string{shared + "*", shared, "/", "*"}[r.IntN(4)]+pieces(r, r.IntN(6), of...))
		}
		for range 60 {
			path := []string{"/", shared}[r.IntN(2)] + pieces(r, r.IntN(7), of...)
			if r.IntN(8) == 0 {
				path += strings.Repeat(pieces(r, 3, of...), 20)
			}
			paths = append(paths, path)
		}
		for _, exact := range []bool{false, true} {
			compare(t, values, exact, paths)
		}
	}
}

// Files of many wildcards of which the path is full decide as the naive matcher does, also those
// with so many that they are indexed, and paths so long that their suffixes are sorted.
func TestRandomWildcards(t *testing.T) {
	files := 6
	if os.Getenv("POLITENESS_LONG") != "" {
		files = 40
	}
	r := rand.New(rand.NewPCG(2, 2))
	for i := range files {
		of := strings.Split("abcdefgh", "")[:2+r.IntN(6)]
		var values, paths []string
		for range []int{100, 600, 3000}[i%3] { // half of which begin with the same slash
			value := []string{"", "/", "/a", "/é"}[r.IntN(4)]
			for range 1 + r.IntN(3) {
				value += "*" + pieces(r, 1+r.IntN(10), of...)
			}
			values = append(values, value+[]string{"", "$", "*", "é"}[r.IntN(4)])
		}
		for _, length := range []int{0, 1, 2, 10, 40, 100, 200, 255, 256, 257, 400, 2000, 2048, 2100} {
			paths = append(paths, "/"+pieces(r, length, of...))
		}
		for _, length := range []int{300, 1000} { // what isn't near stands far off, and before
			paths = append(paths, "/"+pieces(r, 40, of...)+strings.Repeat("a", length)+pieces(r, 40, of...))
		}
		compare(t, values, i%2 == 0, paths)
	}
}
