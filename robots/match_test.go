package robots

import (
	"fmt"
	"strings"
	"testing"
)

// matchCases are what one rule, or a few, answer for FooBot in the default mode. All but those
// of normalisation hold under GoogleExact as well.
var matchCases = []struct {
	body    string
	target  string
	allowed bool
	line    int
	normal  bool // true: normalisation decides, so that GoogleExact may answer otherwise
}{
	{"", "/", true, 0, false},
	{"user-agent: *\ndisallow: /", "/", false, 2, false},
	{"user-agent: *\ndisallow:", "/", true, 2, false},
	{"user-agent: *\ndisallow: /fish", "/fish.html", false, 2, false},
	{"user-agent: *\ndisallow: /fish", "/Fish", true, 0, false},
	{"user-agent: *\ndisallow: /fish*", "/fishheads/yummy.html?id=anything", false, 2, false},
	{"user-agent: *\ndisallow: /fish/", "/fish", true, 0, false},
	{"user-agent: *\ndisallow: /*.php", "/folder/any.php.file.html", false, 2, false},
	{"user-agent: *\ndisallow: /*.php$", "/filename.php?parameters", true, 0, false},
	{"user-agent: *\ndisallow: /*.php$", "/a.php/b.php", false, 2, false},
	{"user-agent: *\ndisallow: /fish*.php", "/fishheads/catfish.php?parameters", false, 2, false},
	{"user-agent: *\ndisallow: /fish*.php", "/Fish.PHP", true, 0, false},
	{"user-agent: *\nallow: /p\ndisallow: /", "/page", true, 2, false},
	{"user-agent: *\nallow: /folder\ndisallow: /folder", "/folder/page", true, 2, false},
	{"user-agent: *\ndisallow: /folder\nallow: /folder", "/folder/page", true, 3, false},
	{"user-agent: *\nallow: /page\ndisallow: /*.ph", "/page.php5", true, 2, false},
	{"user-agent: *\nallow: /$\ndisallow: /", "/", true, 2, false},
	{"user-agent: *\nallow: /$\ndisallow: /", "/page.htm", false, 3, false},
	{"user-agent: *\ndisallow: /a$$", "/a$", false, 2, false},
	{"user-agent: *\ndisallow: /a$b", "/a$b", false, 2, false},
	{"user-agent: *\nallow: /a$b*cé\ndisallow: /a*b*%C3%A9**", "/a$bc%C3%A9", false, 3, false},
	{"user-agent: *\ndisallow: a", "/a", true, 0, false},
	{"user-agent: *\ndisallow: $", "/", true, 0, false},
	{"user-agent: *\ndisallow: *$", "/", false, 2, false},
	{"user-agent: *\ndisallow: **a**b**", "/xaxxb", false, 2, false},
	{"user-agent: *\ndisallow: /*a*b$", "/ab/b/ba", true, 0, false},
	{"user-agent: *\ndisallow: /*a*b$", "/b/ab", false, 2, false},
	{"user-agent: *\ndisallow: /*a$", "/a", false, 2, false},
	{"user-agent: *\ndisallow: /*ab*ab$", "/ab", true, 0, false},
	{"user-agent: *\ndisallow: /a*a$", "/a", true, 0, false},
	{"user-agent: *\ndisallow: /*/", "/", true, 0, false},
	{"user-agent: *\ndisallow: */", "/", false, 2, false},
	{"user-agent: *\nallow: /a/index.html\ndisallow: /", "/a/", true, 2, false},
	{"user-agent: *\nallow: /a/index.htmx\ndisallow: /", "/a/", true, 2, false},
	{"user-agent: *\nallow: /index.html\ndisallow: /", "/", true, 2, false},
	{"user-agent: *\nallow: index.html of the site\ndisallow: /", "/", false, 3, false},
	{"user-agent: *\nallow: /a/index.html\ndisallow: /", "/a/b", false, 3, false},
	{"user-agent: *\nallow: /a/INDEX.html\ndisallow: /", "/a/", false, 3, false},
	{"user-agent: *\ndisallow: /a/index.html", "/a/", true, 0, false},
	{"user-agent: *\ndisallow: /a\ndisallow: /a", "/a", false, 2, false},
	{"user-agent: *\ndisallow: /*bc\ndisallow: /a*c", "/abc", false, 2, false},
	{"user-agent: *\nallow: /*bc\ndisallow: /ab*c", "/abc", false, 3, false},
	{"user-agent: *\ndisallow:\nallow:", "/", true, 3, false},
	{"user-agent: *\ndisallow: /é", "/%C3%A9", false, 2, false},
	{"user-agent: *\ndisallow: /%c3%a9", "/%C3%A9", false, 2, false},

	{"user-agent: *\ndisallow: */%c3%a9", "/%C3%A9", false, 2, false},
	{"user-agent: *\ndisallow: /*aé*é$", "/xa%C3%A9", true, 0, false},
	{"user-agent: *\ndisallow: /*aé*é$", "/xa%C3%A9%C3%A9", false, 2, false},
	{"user-agent: *\ndisallow: /*a\ndisallow: /*b\ndisallow: /*c\ndisallow: /*d\ndisallow: /*e", "/xe", false, 6, false},
	{"user-agent: *\ndisallow: /*a\ndisallow: /*b\ndisallow: /*c\ndisallow: /*d\ndisallow: /*e", "/xf", true, 0, false},
	{"user-agent: *\ndisallow: /*abc*?\ndisallow: /*abc\ndisallow: /*def\ndisallow: /*ghi\ndisallow: /*jkl", "/xabc", false, 3, false},

	{"user-agent: *\ndisallow: /é", "/é", false, 2, true},
	{"user-agent: *\ndisallow: /é", "/%c3%a9", false, 2, true},
	{"user-agent: *\ndisallow: /%c3%a9", "/é", false, 2, true},
	{"user-agent: *\ndisallow: /foo/baz", "/foo/%62az", false, 2, true},
	{"user-agent: *\ndisallow: /foo/%62a%7A", "/foo/baz", false, 2, true},
	{"user-agent: *\ndisallow: /foo*%62az", "/foo/baz", false, 2, true},
	{"user-agent: *\ndisallow: /a%2Fb", "/a/b", true, 0, true},
	{"user-agent: *\ndisallow: /a/b", "/a%2Fb", true, 0, true},
	{"user-agent: *\ndisallow: /a%2fb", "/a%2Fb", false, 2, true},
	{"user-agent: *\ndisallow: /~joe/", "/%7Ejoe/", false, 2, true},
	{"user-agent: *\ndisallow: /%7ejoe/", "/~joe/index.html", false, 2, true},
	{"user-agent: *\ndisallow: /file-with-a-%2A.html", "/file-with-a-*.html", false, 2, true},
	{"user-agent: *\ndisallow: /file-with-a-%2A.html", "/file-with-a-%2a.html", false, 2, true},
	{"user-agent: *\ndisallow: /file-with-a-%2A.html", "/file-with-a-b.html", true, 0, true},
	{"user-agent: *\ndisallow: /foo-%24", "/foo-$", false, 2, true},
	{"user-agent: *\ndisallow: /foo-%24", "/foo-", true, 0, true},
	{"user-agent: *\ndisallow: /foo-%24", "/foo-$/bar", false, 2, true},
	{"user-agent: *\ndisallow: /*2", "/*", true, 0, false},
	{"user-agent: *\ndisallow: /*A", "/%2a", true, 0, true},
	{"user-agent: *\nallow: /%2A\ndisallow: /*d", "/*abcd", true, 2, true},
	{"user-agent: *\nallow: /%24\ndisallow: /*cd", "/$abcd", true, 2, true},
	{"user-agent: *\nallow: /%24\ndisallow: /*bcd", "/$abcd", false, 3, true},
	{"user-agent: *\ndisallow: /%", "/%", false, 2, false},
	{"user-agent: *\ndisallow: /%zz", "/%zz", false, 2, false},
	{"user-agent: *\ndisallow: /", "/robots.txt", true, 0, true},
	{"user-agent: *\ndisallow: /", "/%72obots.txt", true, 0, true},
	{"user-agent: *\ndisallow: /", "/robots.txt.bak", false, 2, false},
	{"user-agent: *\ndisallow: /%%61%62", "/%AB", false, 2, true},
}

// MatchCases returns body and target of each case.
func MatchCases() (cases [][2]string) {
	for _, c := range matchCases {
		cases = append(cases, [2]string{c.body, c.target})
	}
	return cases
}

func TestMatch(t *testing.T) {
	for _, c := range matchCases {
		v := Parse([]byte(c.body)).Agent("FooBot").Test(c.target)
		if v.Allowed != c.allowed || v.Line != c.line {
			t.Errorf("%q %s: got %v line %d, want %v line %d", c.body, c.target, v.Allowed, v.Line, c.allowed, c.line)
		}
		if want := c.line > 0 && !strings.HasSuffix(v.Rule, ":"); v.Matched != want {
			t.Errorf("%q %s: Matched is %v", c.body, c.target, v.Matched)
		}
		if c.line > 0 && v.Rule != strings.Split(c.body, "\n")[c.line-1] {
			t.Errorf("%q %s: Rule is %q", c.body, c.target, v.Rule)
		}
		if c.normal {
			continue
		}
		v = ParseWith([]byte(c.body), Options{GoogleExact: true}).Agent("FooBot").Test(c.target)
		if v.Allowed != c.allowed || v.Line != c.line {
			t.Errorf("GoogleExact: %q %s: got %v line %d, want %v line %d", c.body, c.target, v.Allowed, v.Line, c.allowed, c.line)
		}
	}
}

// TestRulesOfAllLengths, together in one file.
func TestRulesOfAllLengths(t *testing.T) {
	lengths := []int{240, 250, 255, 256, 257, 260, 300, 1000, 8000, 16_000}
	for n := 4; n < 140; n++ {
		lengths = append(lengths, n)
	}
	path := func(n int) string { return fmt.Sprintf("/%05d", n)[:min(n, 6)] + strings.Repeat("b", max(0, n-6)) }
	body := "User-agent: *\n"
	for _, n := range lengths {
		body += "Disallow: " + path(n) + "$\n"
	}
	for _, o := range []Options{{}, {GoogleExact: true}} {
		r := ParseWith([]byte(body), o).Agent("FooBot")
		for i, n := range lengths {
			if v := r.Test(path(n)); v.Line != i+2 || v.Rule != "Disallow: "+path(n)+"$" {
				t.Errorf("%d bytes: line %d, want %d", n, v.Line, i+2)
			}
			if v := r.Test(path(n) + "c"); !v.Allowed {
				t.Errorf("%d bytes and one more: %+v", n, v)
			}
		}
	}
}

// TestOneOfManyMatches: of patterns that all have what the path has many times, the one that
// matches is found wherever it stands, whether or not the suffixes of the path have room on the
// stack.
func TestOneOfManyMatches(t *testing.T) {
	const n = 150
	for _, shared := range []string{"abc", "ab"} { // the latter has no three bytes to be found by
		body := "User-agent: *\n"
		for i := range n {
			body += fmt.Sprintf("Disallow: /*%s*%c*%c$\n", shared, 'A'+i%13, 'A'+i/13)
		}
		r := Parse([]byte(body + strings.Repeat("Disallow: /*xyz*!\n", 9))).Agent("FooBot")
		for _, length := range []int{30, usualPath, usualPath + 1} {
			for i := range n {
				const lead = "/xyzxyz_a_b_c_ab_bc_" // parts of what is to be found, and what is found in vain
				path := lead + strings.Repeat("abc", length/3)[:length-len(lead)-2] + string([]byte{byte('A' + i%13), byte('A' + i/13)})
				if v := r.Test(path); v.Line != i+2 {
					t.Errorf("%s, %d bytes: line %d decides, want %d", shared, len(path), v.Line, i+2)
				}
			}
			if v := r.Test(strings.Repeat("/abc", length/4)); !v.Allowed {
				t.Errorf("%s, %d bytes that no rule matches: %+v", shared, length, v)
			}
		}
	}
}

// TestEachOfAThousandPatternsIsFound: so many of one prefix are found by an index.
func TestEachOfAThousandPatternsIsFound(t *testing.T) {
	const n = 1500
	body := "User-agent: *\n"
	for i := range n {
		body += fmt.Sprintf("Disallow: /*%04d\n", i)
	}
	r := Parse([]byte(body)).Agent("FooBot")
	for i := range n {
		if v := r.Test(fmt.Sprintf("/page-%04d", i)); v.Line != i+2 {
			t.Errorf("/page-%04d: line %d decides, want %d", i, v.Line, i+2)
		}
	}
}

// TestEscapes: RFC 9309 section 2.2.2 compares an escape in any case as the byte that it stands for
// where that is unreserved (RFC 3986, section 2.3) or beyond ASCII, and section 2.2.3 writes the
// special characters by escapes where they are meant literally.
func TestEscapes(t *testing.T) {
	const same = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~*$"
	for c := range 256 {
		raw := string([]byte{byte(c)})
		escape := fmt.Sprintf("%%%02X", c)
		for _, lower := range []bool{false, true} {
			if lower {
				escape = strings.ToLower(escape)
			}
			stops := func(pattern, target string) bool {
				return !Parse([]byte("User-agent: *\nDisallow: /a" + pattern + "b")).Agent("FooBot").Test("/a" + target + "b").Allowed
			}
			if !stops(escape, strings.ToUpper(escape)) || !stops(strings.ToUpper(escape), escape) {
				t.Errorf("%s isn't itself", escape)
			}
			want := c >= 0x80 || strings.Contains(same, raw)
			if got := stops(escape, raw); got != want {
				t.Errorf("/a%sb stops the byte %q: %v", escape, raw, got)
			}
			if strings.Contains("\x00\n\r#*", raw) {
				continue // what else these mean in a pattern
			}
			exact := ParseWith([]byte("User-agent: *\nDisallow: /a"+raw+"b"), Options{GoogleExact: true}).Agent("FooBot")
			if got := !exact.Test("/a" + strings.ToUpper(escape) + "b").Allowed; got != (c >= 0x80) {
				t.Errorf("GoogleExact: /a%qb stops %s: %v", raw, escape, got)
			}
			if got := stops(raw, escape); got != want {
				t.Errorf("/a%qb stops %s: %v", raw, escape, got)
			}
		}
	}
}

// TestGoogleExactDecodesNothing, but it takes escapes in rules for those in upper case.
func TestGoogleExactDecodesNothing(t *testing.T) {
	for _, c := range []struct {
		rule, target string
		stops        bool
	}{
		{"Disallow: /%3a%C3", "/%3A%C3", true},
		{"Disallow: /%3a", "/%3a", false},
		{"Disallow: /%3z%z3%a", "/%3z%z3%a", true},
		{"Disallow: /%61", "/a", false},
		{"Disallow: /\nAllow: /a/index.html", "/a/", false},
		{"Disallow: /\nAllow: /a/%69ndex.html", "/a/", true},
	} {
		r := ParseWith([]byte("User-agent: *\n"+c.rule), Options{GoogleExact: true}).Agent("FooBot")
		if v := r.Test(c.target); v.Allowed == c.stops {
			t.Errorf("%q %s: got %+v", c.rule, c.target, v)
		}
	}
	if v := Parse([]byte("User-agent: *\nDisallow: /\nAllow: /a/%69ndex.html")).Agent("FooBot").Test("/a/"); !v.Allowed {
		t.Errorf("an index of the default mode: %+v", v)
	}
}

// Whatever isn't a path is cut as Google's matcher cuts URLs.
func TestTarget(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"", "/"},
		{"/a/../b?c#d", "/a/../b?c"},
		{"//h/a", "/a"},
		{"h;a", "/;a"},
		{"://h/a", "/a"},
		{"#/a", "/"},
		{"h?x", "/?x"},
		{"h", "/"},
		{"h#f/a", "/"},
		{"mailto:x", "/"},
		{"http://h", "/"},
		{"http://h/a?b://c/d#e", "/a?b://c/d"},
		{"h/a://b/c", "/a://b/c"},
		{"https://user:pass@h:8/x;y", "/x;y"},
		{"?x", "/?x"},
	} {
		if got := Target(c.url); got != c.want {
			t.Errorf("%q: got %q, want %q", c.url, got, c.want)
		}
	}
	r := Parse([]byte("User-agent: *\nDisallow: /?x\nDisallow: /a$")).Agent("FooBot")
	for _, target := range []string{"?x", "http://h?x", "/a#b", "/a\x00b"} {
		if r.Test(target).Allowed {
			t.Errorf("%q: allowed", target)
		}
	}
	if v := r.Test(""); !v.Allowed || v.Matched {
		t.Errorf(`"": got %+v`, v)
	}
}

// onePass normalises as RFC 9309 section 2.2.2 has it, plainly.
func onePass(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 0x80:
			b.WriteString("%" + upperHex[c>>4:][:1] + upperHex[c&15:][:1])
		case isEscape(s[i:]):
			hi, _ := unhex(s[i+1])
			lo, _ := unhex(s[i+2])
			if v := hi<<4 | lo; isUnreserved(v) {
				b.WriteByte(v)
			} else {
				b.WriteString(strings.ToUpper(s[i:][:3]))
			}
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// FuzzDefault holds that the default mode agrees with itself: to normalise a target first
// changes nothing.
func FuzzDefault(f *testing.F) {
	for _, c := range matchCases {
		f.Add([]byte(c.body), c.target)
	}
	f.Fuzz(func(t *testing.T, body []byte, target string) {
		file := Parse(body)
		r := file.Agent("FooBot")
		if !strings.HasPrefix(target, "/") || len(target) > 1<<10 {
			return
		}
		v := r.Test(target)
		if got := r.Test(onePass(target)); got != v {
			t.Errorf("%q\n%q: %+v\n%q: %+v", body, target, v, onePass(target), got)
		}
		normal := r.normal(target)
		if got := r.Test(normal); got != v {
			t.Errorf("%q\n%q: %+v\n%q: %+v", body, target, v, normal, got)
		}
		if normal == robotsPath {
			return
		}
		// Where there is nothing to normalise, the answer is Google's.
		if isASCII(string(body)) && isASCII(target) {
			if got := ParseWith(body, Options{GoogleExact: true}).Agent("FooBot").Test(target); got != v {
				t.Errorf("%q\n%q: %+v\nGoogleExact: %+v", body, target, v, got)
			}
		}
	})
}

// isASCII reports whether s has neither bytes beyond ASCII nor escapes.
func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 || r == '%' })
}

// FuzzParse holds that nothing panics, whatever the bytes, and that what is kept and answered
// is bounded by them.
func FuzzParse(f *testing.F) {
	for _, c := range matchCases {
		f.Add([]byte(c.body))
	}
	f.Add([]byte("\xef\xbb\xbfUser-agent: FooBot\r\nCrawl-delay: 1e999\r\rRequest-rate: 99999999999999999999/1d 2359-0001\nVisit-time: 0600-0845\nContent-Usage: /a*b$ train-ai=n\nContent-Signal: search=yes\nLicense: x\nHost: y\nSitemap: z\nNoindex"))
	f.Fuzz(func(t *testing.T, body []byte) {
		lines := 1 + strings.Count(string(body), "\n") + strings.Count(string(body), "\r")
		for _, o := range []Options{{}, {GoogleExact: true}, {LenientAgents: true}} {
			file := ParseWith(body, o)
			r := file.Agent("FooBot", "Bot1")
			for _, target := range []string{"/", "/a/b?c=d", "/%61*$\x00#", string(body)} {
				v := r.Test(target)
				if v.Line < 0 || v.Line > lines || !strings.Contains(string(body), v.Rule) || v.Matched && v.Rule == "" {
					t.Errorf("%q %q: %+v", body, target, v)
				}
				r.Preferences(target)
			}
			if size := r.Size(); size > 4*len(body)+2<<10 {
				t.Errorf("%d bytes: %d", len(body), size)
			}
			if d, ok := r.CrawlDelay(); d < 0 || !ok && d != 0 {
				t.Errorf("Crawl-delay %v", d)
			}
			file.Sitemaps()
			file.SitemapLines()
			file.Host()
			file.License()
			file.UnknownLines()
			file.Lint()
			r.License()
			r.VisitTime()
			for _, rate := range r.RequestRates() {
				if rate.Gap() <= 0 {
					t.Errorf("%+v", rate)
				}
			}
		}
		_, _ = ReadMeta(strings.NewReader(string(body)), "FooBot")
		ParseTags(strings.Split(string(body), "\n"), "FooBot")
		ProductToken(string(body))
		Target(string(body))
	})
}

// Line numbers are right however far down.
func TestLinesFarDown(t *testing.T) {
	for _, want := range []int{2, 127, 255, 256, 257, 4000, 65_535, 65_536, 70_000, 1<<24 - 40} {
		body := "User-agent: *\nDisallow: /b" + strings.Repeat("\n", want-2) + "Disallow: /a"
		if want == 2 {
			body = "User-agent: *\nDisallow: /a"
		}
		if v := Parse([]byte(body)).Agent("FooBot").Test("/a"); v.Line != want {
			t.Errorf("line %d, want %d", v.Line, want)
		}
	}
}
