package robots_test

import (
	"strings"
	"testing"

	"github.com/go-politeness/politeness/robots"
)

func TestProductToken(t *testing.T) {
	for _, c := range []struct{ header, want string }{
		{"", ""},
		{"FooBot", "FooBot"},
		{"  FooBot/1.0", "FooBot"},
		{"AEO-Audit/1.0 (+https://example.com/bot)", "AEO-Audit"},
		{"MJ12bot/v1.4.8 (http://mj12bot.com/)", "MJ12bot"},
		{"Foo.Bot_2 (x)", "Foo.Bot_2"},
		{"*", "*"},
		{"!#$%&'*+-.^_`|~09AZaz@", "!#$%&'*+-.^_`|~09AZaz"}, // all of RFC 9110's
		{"ſbot", ""},
		{"(compatible; FooBot)", ""},
		{"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Googlebot"},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; Compatible; bingbot/2.0) Chrome/1.2 Safari/537.36", "bingbot"},
		{"Mozilla/5.0 (X11; Linux x86_64)", "Mozilla"},
		{"Mozilla/5.0 (compatible;", "Mozilla"},
		{"Mozilla/5.0 (compatible;)", "Mozilla"},
		{"Mozilla/5.0 (compatible; +https://x.y; FooBot/1.0)", "FooBot"},
		{"Mozilla/5.0 (compatible; +https://x.y) AppleWebKit (KHTML; like Gecko)", "Mozilla"},
		{"Mozilla/5.0 (compatible; +https://x.y) (compatible; FooBot)", "FooBot"},
		{"Mozilla/5.0 (incompatible; X)", "Mozilla"},
		{"Mozilla/5.0 (X11;compatible;FooBot)", "FooBot"},
		{"Mozilla/5.0 (FooBot; compatible)", "Mozilla"},
	} {
		if got := robots.ProductToken(c.header); got != c.want {
			t.Errorf("%q: got %q, want %q", c.header, got, c.want)
		}
	}
}

// Each group of these files forbids a path of its own: /1 the first, /2 the second.
func TestGroups(t *testing.T) {
	patterns := robots.Options{AgentPatterns: true}
	lenient := robots.Options{LenientAgents: true}
	google := robots.Options{GoogleExact: true}
	for _, c := range []struct {
		name   string
		body   string
		o      robots.Options
		agents []string
		group  string
		stops  string // the digits of the paths that are stopped
	}{
		{"exact", "User-agent: FooBot\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"FooBot"}, "FooBot", "1"},
		{"case", "User-agent: foobot\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"FooBot"}, "foobot", "1"},
		{"the ends of the alphabet", "User-agent: a-Z\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"A-z"}, "a-Z", "1"},
		{"letters only have a case", "User-agent: bot^1\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"bot~1"}, "*", "2"},
		{"a whole header", "User-agent: FooBot\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"FooBot/1.0 (+https://a.b/c)"}, "FooBot", "1"},
		{"star only for others", "User-agent: *\nDisallow: /1\nUser-agent: FooBot\nDisallow: /2", robots.Options{}, []string{"Bar"}, "*", "1"},
		{"star never mixed in", "User-agent: *\nDisallow: /1\nUser-agent: FooBot\nDisallow:", robots.Options{}, []string{"FooBot"}, "FooBot", ""},
		{"nobody", "User-agent: Bar\nDisallow: /1", robots.Options{}, []string{"FooBot"}, "", ""},
		{"no product", "User-agent: Bar\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, nil, "*", "2"},
		{"star as a product", "User-agent: *x\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"*"}, "*", "2"},
		{"merged", "User-agent: FooBot\nDisallow: /1\nUser-agent: Bar\nDisallow: /2\nUser-agent: FOOBOT/2\nDisallow: /3", robots.Options{}, []string{"FooBot"}, "FooBot", "13"},
		{"merged, the first of a list", "User-agent: FooBot\nUser-agent: Bar\nDisallow: /1\nUser-agent: FooBot\nDisallow: /2", robots.Options{}, []string{"FooBot"}, "FooBot", "12"},
		{"no product in a header", "User-agent: /x\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"(x)"}, "*", "2"},
		{"the second product, where the first is none", "User-agent: FooBot\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"", "*", "FooBot"}, "FooBot", "1"},
		{"stars merged", "User-agent: *\nContent-Signal: ai-train=no\nDisallow: /1\n\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"FooBot"}, "*", "12"},
		{"version cut", "User-agent: FooBot/2.1\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"FooBot"}, "FooBot", "1"},
		{"star cut", "User-agent: foobot*\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"FooBot"}, "foobot", "1"},
		{"digit cut", "User-agent: FooBot2\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"FooBot"}, "FooBot", "1"},
		{"not a substring", "User-agent: Foo\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"FooBot"}, "*", "2"},
		{"digits", "User-agent: MJ12bot\nDisallow: /1\nUser-agent: MJ\nDisallow: /2", robots.Options{}, []string{"MJ12bot"}, "MJ12bot", "1"},
		{"digits and version", "User-agent: mj12bot/v1\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"MJ12bot"}, "mj12bot", "1"},
		{"dots", "User-agent: Foo.Bot\nDisallow: /1\nUser-agent: Foo\nDisallow: /2", robots.Options{}, []string{"foo.bot"}, "Foo.Bot", "1"},
		{"preference", "User-agent: Second\nDisallow: /1\nUser-agent: First\nDisallow: /2", robots.Options{}, []string{"First", "Second"}, "First", "2"},
		{"second preference", "User-agent: Second\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"First", "Second"}, "Second", "1"},
		{"shared list", "User-agent: Bar\nUser-agent: FooBot\n\nSitemap: x\nCrawl-delay: 1\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"FooBot"}, "FooBot", "1"},
		{"list without rules", "User-agent: FooBot\nCrawl-delay: 1\n\nUser-agent: Bar\nDisallow: /1", robots.Options{}, []string{"FooBot"}, "FooBot", "1"},
		{"star and text", "User-agent: * everyone\nDisallow: /1", robots.Options{}, []string{"FooBot"}, "*", "1"},
		{"star and letters", "User-agent: *foo\nDisallow: /1", robots.Options{}, []string{"foo"}, "", ""},

		{"lenient: exact first", "User-agent: Foo\nDisallow: /1\nUser-agent: Foo*\nDisallow: /2\nUser-agent: FooBot\nDisallow: /3", lenient, []string{"FooBot"}, "FooBot", "3"},
		{"lenient: pattern", "User-agent: Foo\nDisallow: /1\nUser-agent: f*bot\nDisallow: /2\nUser-agent: *\nDisallow: /3", lenient, []string{"FooBot"}, "f*bot", "2"},
		{"lenient: longest pattern", "User-agent: f*\nDisallow: /1\nUser-agent: FOO*/2\nDisallow: /2\nUser-agent: foo*\nDisallow: /3", lenient, []string{"FooBot"}, "FOO*", "23"},
		{"patterns: exact first", "User-agent: Foo*\nDisallow: /1\nUser-agent: FooBot\nDisallow: /2", patterns, []string{"FooBot"}, "FooBot", "2"},
		{"patterns: longest", "User-agent: f*\nDisallow: /1\nUser-agent: *bot\nDisallow: /2\nUser-agent: *\nDisallow: /3", patterns, []string{"FooBot"}, "*bot", "2"},
		{"patterns: many stars, for a long product", "User-agent: " + strings.Repeat("*a", 280) + "\nDisallow: /1", patterns, []string{strings.Repeat("a", 300)}, strings.Repeat("*a", 280), "1"},
		{"patterns: a part isn't one", "User-agent: Foo\nDisallow: /1\nUser-agent: *\nDisallow: /2", patterns, []string{"FooBot"}, "*", "2"},
		{"patterns: nor is what holds us", "User-agent: FooBot-Images\nDisallow: /1\nUser-agent: *\nDisallow: /2", patterns, []string{"FooBot"}, "*", "2"},
		{"lenient: pattern of another", "User-agent: bar*\nDisallow: /1\nUser-agent: *\nDisallow: /2", lenient, []string{"FooBot"}, "*", "2"},
		{"lenient: substring", "User-agent: bot/1.0\nDisallow: /1\nUser-agent: *\nDisallow: /2", lenient, []string{"FooBot"}, "bot", "1"},
		{"lenient: longest substring", "User-agent: bot\nDisallow: /1\nUser-agent: foob\nDisallow: /2", lenient, []string{"FooBot"}, "foob", "2"},
		{"lenient: the first of equally long ones", "User-agent: foo\nDisallow: /1\nUser-agent: bot\nDisallow: /2", lenient, []string{"FooBot"}, "foo", "1"},
		{"lenient: the first of equally long ones that hold us", "User-agent: aFooBot\nDisallow: /1\nUser-agent: bFooBot\nDisallow: /2", lenient, []string{"FooBot"}, "aFooBot", "1"},
		{"lenient: longer than us", "User-agent: FooBot.X\nDisallow: /1\nUser-agent: *\nDisallow: /2", lenient, []string{"Bot"}, "FooBot.X", "1"},
		{"lenient: longer than us, with a dash", "User-agent: foobot-images/2\nDisallow: /1\nUser-agent: *\nDisallow: /2", lenient, []string{"FooBot"}, "foobot-images", "1"},
		{"lenient: shortest of those longer than us", "User-agent: FooBot-Images\nDisallow: /1\nUser-agent: MyFooBot\nDisallow: /2", lenient, []string{"FooBot"}, "MyFooBot", "2"},
		{"lenient: a part of us before those longer", "User-agent: FooBot-Images\nDisallow: /1\nUser-agent: Foo\nDisallow: /2", lenient, []string{"FooBot"}, "Foo", "2"},
		{"not longer than us", "User-agent: FooBot-Images\nDisallow: /1\nUser-agent: *\nDisallow: /2", robots.Options{}, []string{"FooBot"}, "*", "2"},
		{"lenient: star", "User-agent: **\nDisallow: /1\nUser-agent: *\nDisallow: /2", lenient, []string{"FooBot"}, "*", "2"},
		{"lenient: no name", "User-agent:\nDisallow: /1\nUser-agent: *\nDisallow: /2", lenient, []string{"FooBot"}, "*", "2"},

		{"Google: not trimmed", "User-agent: FooBot\nDisallow: /1\nUser-agent: *\nDisallow: /2", google, []string{"FooBot/1.0"}, "*", "2"},
		{"Google: united", "User-agent: Second\nDisallow: /1\nUser-agent: First\nDisallow: /2", google, []string{"First", "Second"}, "Second", "12"},
		{"Google: digits never", "User-agent: MJ12bot\nDisallow: /1", google, []string{"MJ12bot"}, "", ""},
		{"Google: no name", "User-agent: /x\nDisallow: /1\nUser-agent: *\nDisallow: /2", google, []string{""}, "", "1"},
		{"Google: the long s", "User-agent: s\nDisallow: /1", google, []string{"ſ"}, "", ""},
	} {
		r := robots.ParseWith([]byte(c.body), c.o).Agent(c.agents...)
		stops := ""
		for _, digit := range "123" {
			v := r.Test("/" + string(digit))
			if !v.Allowed {
				stops += string(digit)
			}
			if v.Group != c.group {
				t.Errorf("%s: group %q, want %q", c.name, v.Group, c.group)
			}
		}
		if stops != c.stops {
			t.Errorf("%s: stops %q, want %q", c.name, stops, c.stops)
		}
	}
}

// What may be wrong with lines, as Google reads them.
func TestLines(t *testing.T) {
	long := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = 'a'
		}
		return string(b)
	}
	for _, c := range []struct {
		name, body string
		line       int // of the rule that stops /a; 0: none
	}{
		{"LF", "user-agent: *\ndisallow: /a\n", 2},
		{"CR", "user-agent: *\r\rdisallow: /a\r", 3},
		{"CRLF", "user-agent: *\r\n\r\ndisallow: /a\r\n", 3},
		{"LF CR", "user-agent: *\n\rdisallow: /a\n\r", 3},
		{"BOM", "\xef\xbb\xbfuser-agent: *\ndisallow: /a", 2},
		{"half a BOM", "\xef\xbbuser-agent: *\ndisallow: /a", 2},
		{"BOM twice", "\xef\xbb\xbf\xef\xbb\xbfuser-agent: *\ndisallow: /a", 0},
		{"NUL", "user-agent: *\ndisallow: /a\x00b", 2},
		{"comment", "user-agent:*#x\ndisallow:/a#b", 2},
		{"white space", "\v user-agent \t:\f*\n \tdisallow\v:\v/a\v", 2},
		{"no-break space", "user-agent: *\n\u00a0disallow: /a", 0},
		{"no colon", "user-agent *\ndisallow\t/a", 2},
		{"no colon, three words", "user-agent: *\ndisallow /a b", 0},
		{"a colon later", "user-agent: *\ndisallow /a:b", 0},
		{"no key", "user-agent: *\n: /a", 0},
		{"longer keys", "user-agents: *\ndisallowed: /a", 2},
		{"typo dissallow", "useragent: *\ndissallow: /a", 2},
		{"typo dissalow", "user agent: *\ndissalow: /a", 2},
		{"typo disalow", "user-agent: *\ndisalow: /a", 2},
		{"typo diasllow", "user-agent: *\ndiasllow: /a", 2},
		{"typo disallaw", "user-agent: *\nDISALLAW: /a", 2},
		{"typo diaslow", "user-agent: *\ndiaslow: /a", 0},
		{"before any agent", "disallow: /a\nuser-agent: *", 0},
		{"line just long enough", "user-agent: *\n" + long(16663-len("disallow:/a")-1) + "\ndisallow:/a", 3},
		{"cut comment", "user-agent: *\ndisallow: /a#" + long(20000), 2},
		{"cut in the key", "user-agent: *\n" + long(16663) + "\rdisallow: /a", 3},
	} {
		for _, o := range []robots.Options{{}, {GoogleExact: true}} {
			v := robots.ParseWith([]byte(c.body), o).Agent("FooBot").Test("/a")
			if v.Line != c.line || v.Allowed != (c.line == 0) {
				t.Errorf("%s: got %+v, want line %d", c.name, v, c.line)
			}
		}
	}
	// 16,663 bytes are read, the next isn't.
	body := "user-agent: *\ndisallow: /" + long(16663-len("disallow: /")) + "b"
	r := robots.Parse([]byte(body)).Agent("FooBot")
	if path := "/" + long(16663-len("disallow: /")); r.Test(path).Allowed || !r.Test(path[1:]).Allowed {
		t.Error("a line must be cut at 16,663 bytes")
	}
}
