package robots_test

import (
	"strings"
	"testing"

	"github.com/go-politeness/politeness/robots"
)

// FuzzTags holds that what X-Robots-Tag headers say can be read back, and that a further header
// never takes anything back.
func FuzzTags(f *testing.F) {
	for _, c := range [][2]string{
		{"noindex, nofollow", "none"},
		{"otherbot: noindex", "foobot: noindex"},
		{"max-snippet: -1", "max-snippet: 99999999999999999999"},
		{"unavailable_after: 25 Jun 2010 15:00:00 PST", "unavailable_after: 2007-08-31, noindex"},
		{":", ",,:,"},
		{"\x00\u202e", "noindex\x00"},
	} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		d := robots.ParseTags([]string{a, b}, "FooBot")
		if again := robots.ParseTags([]string{d.String()}, "FooBot"); again.String() != d.String() {
			t.Errorf("%q and %q say %v, and that says %v", a, b, d, again)
		}
		for _, one := range []string{a, b} {
			if o := robots.ParseTags([]string{one}, "FooBot"); o.NoIndex && !d.NoIndex || o.NoFollow && !d.NoFollow || o.NoAI && !d.NoAI {
				t.Errorf("%q says %v, and with another header %v", one, o, d)
			}
		}
	})
}

// FuzzPreferences holds that of the lines of a robots.txt about the use of a page the strictest
// counts, in any order.
func FuzzPreferences(f *testing.F) {
	for _, c := range [][2]string{
		{"train-ai=n", "train-ai=y"},
		{"/a train-ai=n", "/ train-ai=y, search=n"},
		{"search=yes, ai-train=no", "ai-input=no"},
		{"train-ai=n;x=1", "train-ai"},
		{"*", "=,=,="},
		{"/\x00* ai-use=n", "\u202eai-use=n"},
	} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.ContainsAny(a+b, "\r\n") {
			return
		}
		of := func(lines ...string) (signal, usage [3]robots.Preference) {
			text := "User-agent: *\n"
			for _, line := range lines {
				text += "%s: " + line + "\n"
			}
			said := func(key string) (answers [3]robots.Preference) {
				p := robots.Parse([]byte(strings.ReplaceAll(text, "%s: ", key+": "))).Agent("FooBot").Preferences("/a")
				for i := range answers {
					answers[i] = p.For(robots.Purpose(i)).Preference
				}
				return answers
			}
			return said("Content-Signal"), said("Content-Usage")
		}
		if strings.Contains(a+b, "%s: ") {
			return
		}
		both, use := of(a, b)
		if swapped, used := of(b, a); both != swapped || use != used {
			t.Errorf("%q and %q: %+v %+v, the other way round %+v %+v", a, b, both, use, swapped, used)
		}
		one, _ := of(a)
		other, _ := of(b)
		for i := range both {
			if want := max(one[i], other[i]); both[i] != want {
				t.Errorf("%q and %q: %v, want %v", a, b, both, want)
			}
		}
		header := robots.HeaderPreferences(map[string][]string{"Content-Usage": {a}, "Content-Signal": {b}, "Tdm-Reservation": {a}, "Link": {b}})
		if header.Merge(header) != header || strings.ContainsAny(header.Train.Source, "\x00\x1b") {
			t.Errorf("%q and %q: %v", a, b, header)
		}
	})
}

// FuzzProductToken holds that a token is a word of the header, and its own token.
func FuzzProductToken(f *testing.F) {
	for _, s := range []string{"", "ExampleBot/1.0 (+https://example.com/bot)", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://g/b)", "Mozilla compatible;compatible;", "\u202eBot", "Mozilla (compatible; \x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, userAgent string) {
		token := robots.ProductToken(userAgent)
		if !strings.Contains(userAgent, token) || strings.ContainsAny(token, " \t\r\n\"(),/:;<=>?@[\\]{}\x00") {
			t.Errorf("%q: %q", userAgent, token)
		}
		if again := robots.ProductToken(token); again != token {
			t.Errorf("%q: %q: %q", userAgent, token, again)
		}
		robots.Parse([]byte("User-agent: " + userAgent + "\nDisallow: /\n")).Agent(userAgent).Test("/")
	})
}
