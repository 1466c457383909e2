package weblink

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/cputime"
)

// Rows of the Web Platform Tests' url data, by kind. lab/urlstandard has all of them.
var urlRows = []struct {
	base, ref string
	want      string // empty: browsers refuse it
}{
	{"http://example.org/foo/bar", "http:foo.com", "http://example.org/foo/foo.com"},
	{"http://example.org/foo/bar", "", "http://example.org/foo/bar"},
	{"http://example.org/foo/bar", "\t   :foo.com   \n", "http://example.org/foo/:foo.com"},
	{"http://example.org/foo/bar", "http://f:00000000000080/c", "http://f/c"},
	{"http://example.org/foo/bar", "http://f:65536/c", ""},
	{"http://example.org/foo/bar", "http:\\\\x:9\\y", "http://x:9/y"},
	{"http://example.org/foo/bar", "////x/", "http://x/"},
	{"http://example.org/foo/bar", "#β", "http://example.org/foo/bar"},
	{"http://example.org/foo/bar?q", "?", "http://example.org/foo/bar?"},
	{"https://example.org/foo/bar", "http:/x", "http://x/"},
	{"", "http://www/foo/../../../ton", "http://www/ton"},
	{"", "http://www/foo%2Ehtml", "http://www/foo%2Ehtml"},
	{"", "http://www/foo/%2e%2", "http://www/foo/%2e%252"},
	{"", "http://www/foo/%2e./%2e%2e/.%2e/%2e.bar", "http://www/%2e.bar"},
	{"", "http://www////../..", "http://www//"},
	{"", "http://GOO\u200b\u2060\ufeffgoo.com", "http://googoo.com/"},
	{"", "http://ho%20st/", ""},
	{"", "http://192.168.0.257", ""},
	{"", "http://%30%78%63%30%2e%30%32%35%30.01", "http://192.168.0.1/"},
	{"", "http://[1::0:0:2]:80/x", "http://[1::2]/x"},
	{"", "http://[::127.0.0.1.]", ""},
	{"", "http://user:pass@/", ""},
	{"", "http://a@b@c/", "http://c/"},
	{"", "x", ""},
}

// reading returns the URL of a row, empty after an error.
func reading(t testing.TB, base, ref string) string {
	t.Helper()
	var from *URL
	if base != "" {
		u, err := ParseURL(nil, base)
		if err != nil {
			t.Fatal(err)
		}
		from = &u
	}
	u, err := ParseURL(from, ref)
	if err != nil {
		return ""
	}
	return u.String()
}

func TestParseURLAsBrowsersDo(t *testing.T) {
	for _, row := range urlRows {
		if got := reading(t, row.base, row.ref); got != row.want {
			t.Errorf("%q on %q is %q, want %q", row.ref, row.base, got, row.want)
		}
	}
}

func TestParseURLSaysWhyNot(t *testing.T) {
	if _, err := ParseURL(nil, "page"); !errors.Is(err, ErrRelative) {
		t.Errorf("a relative reference without a base: %v", err)
	}
	var other *SchemeError
	if _, err := ParseURL(nil, "MailTo:x"); !errors.As(err, &other) || other.Scheme != "mailto" || other.Rest != "x" {
		t.Errorf("another scheme: %#v", err)
	}
}

// TestZonesOfAddresses are kept, which the URL standard refuses: somebody crawls their own network.
func TestZonesOfAddresses(t *testing.T) {
	for ref, want := range map[string]string{
		"http://[fe80::1%25eth0]/": "http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/": "", "http://[fe80::1%25]/": "", "http://[fe80::1%25a%2Fb]/": "",
	} {
		if got := reading(t, "", ref); got != want {
			t.Errorf("%s is %q, want %q", ref, got, want)
		}
	}
}

// TestSpelled keeps what net/url reads likewise.
func TestSpelled(t *testing.T) {
	for raw, want := range map[string]string{
		"https://example.com/a b?é": "https://example.com/a b?é", " HTTPS://EXAMPLE.com": "HTTPS://EXAMPLE.com",
		"https:///example.com": "https://example.com/", `https://example.com\a`: "https://example.com/a", "https://example.com/5%": "https://example.com/5%25",
		"https://example.com/a\nb": "https://example.com/ab", "https://ex%41mple.com/": "https://example.com/", "http://0x7f.1/": "http://127.0.0.1/",
	} {
		u, err := ParseURL(nil, raw)
		if got := u.Spelled(raw); got != want || err != nil {
			t.Errorf("%q is %q, %v; want %q", raw, got, err, want)
		}
	}
}

// TestParseURLTakesTimeByLength: no reference takes longer than its length explains.
func TestParseURLTakesTimeByLength(t *testing.T) {
	for name, part := range map[string]string{
		"dots": "/..", "escaped dots": "/%2e%2e", "slashes": "/", "backslashes": `\`, "users": "a@", "colons": ":", "labels": "xn--a.", "letters": "é", "percent": "%", "line ends": "\n", "brackets": "[",
	} {
		for _, prefix := range []string{"http://", "http://h/", "http://h/?"} {
			took := cputime.Of(func() { _, _ = ParseURL(nil, prefix+strings.Repeat(part, 4<<20/len(part))) })
			if took > 20*time.Second { // one of them took minutes if it were quadratic
				t.Errorf("%s%s...: %v", prefix, name, took)
			}
		}
	}
}

// FuzzParseURL: whatever is read, net/url reads its spelling as the same host, and it is read again
// as itself.
func FuzzParseURL(f *testing.F) {
	for _, row := range urlRows {
		f.Add(row.base, row.ref)
	}
	f.Fuzz(func(t *testing.T, base, ref string) {
		var from *URL
		page, err := ParseURL(nil, base)
		if err == nil {
			from = &page
		}
		u, err := ParseURL(from, ref)
		if err != nil {
			return
		}
		text := u.String()
		again, err := ParseURL(nil, text)
		if err != nil || again.String() != text {
			t.Fatalf("%q on %q is %q, and that %q, %v", ref, base, text, again.String(), err)
		}
		parsed, err := url.Parse(text)
		if err != nil || parsed.Host != u.Host && !strings.Contains(u.Host, "%") || !strings.HasPrefix(u.Path, "/") {
			t.Fatalf("%q on %q is %+v, %q: %v, %v", ref, base, u, text, parsed, err)
		}
		for _, c := range []byte(text) {
			if c <= ' ' || c >= 0x7f {
				t.Fatalf("%q on %q is %q", ref, base, text)
			}
		}
	})
}

func BenchmarkParseURL(b *testing.B) {
	base, err := ParseURL(nil, "https://example.com/dir/page.html")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, ref := range []string{"other.html", "/a/b/c?q=1#top", "https://www.example.com/some/path", "../up/index.html", "#top"} {
			_, _ = ParseURL(&base, ref)
		}
	}
}
