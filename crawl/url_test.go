package crawl

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/weblink"
	"github.com/go-politeness/politeness/robots"
)

// The spellings of each row are one URL; the first is how a crawl knows it.
var spellings = [][]string{
	{"https://example.com/", "HTTPS://EXAMPLE.COM", "https://example.com:443/", "https://example.com./", "https://example.com/#top", "https://user:pass@example.com/", " https://example.com/ ", "https://example.com/?", "https://example.com/."},
	{"http://example.com:8080/a", "http://example.com:08080/a", "http://EXAMPLE.com:8080/b/../a", "http://example.com:8080/./a", "http://example.com:8080/%61", "http://example.com:8080/b/%2E%2e/a", "http://example.com:8080/../../a"},
	{"http://example.com/a/", "http://example.com:80/a/b/..", "http://example.com/a/b/%2e%2E", "http://example.com/a/."},
	{"http://example.com/a%2Fb%3F", "http://example.com/a%2fb%3f"},
	{"http://example.com/%E4%BD%A0?q=%E4%BD%A0", "http://example.com/你?q=你", "http://example.com/%e4%bd%a0?q=%e4%bd%a0"},
	{"http://example.com/a%20b?c%20d", "http://example.com/a b?c d", "http://example.com/%61%20b?%63%20d"},
	{"http://xn--mnchen-3ya.example/", "http://münchen.example", "http://MÜNCHEN.example:80/"},
	{"http://[::1]:8080/", "http://[0:0:0:0:0:0:0:1]:8080"},
	{"http://[fe80::1%25eth0]/", "http://[FE80::1%25eth0]:80"},
	{"http://[::1%25a%25eth0]/", "http://[::1%25a%25eth0]"},
	{"http://example.com/a//b", "http://example.com/a//./b"},
	{"http://example.com/?%%632", "http://EXAMPLE.com/?%%632"}, // not %c2
	{"http://example.com/?%6%33%zz1", "http://example.com/?%6%33%zz%31"},
	{"http://example.com/?a=1&b=2", "http://example.com?a=1&b=2"},
	{"http://example.com/?%22%3C%7D%0A%A0", "http://example.com/?\"<}%0a%a0"},
	{"http://example.com/?%%302", "http://EXAMPLE.com/?%%302"},
	{"http://example.com/?%4", "http://EXAMPLE.com/?%4"}, // cut off
	{"http://example.com/?%", "http://EXAMPLE.com/?%"},
	{"http://example.com/50%25-off", "http://example.com/50%-off", "http:example.com/50%-off", "http:///example.com/50%-off", "http:\\\\example.com\\50%-off", "ht\ntp://exam\tple.com/50%\r-off", "\x01http://ex%61mple.com/50%-off\x1f"},
	{"http://example.com/s%01%7Foh", "http://example.com/s\x01\x7foh"},
	{"http://example.com/'?%27", "http://example.com/'?'"}, // as browsers send them
	{"http://my_shop.xn--mnchen-3ya.example/", "http://my_shop.münchen.example"},
	{"http://127.0.0.1/", "http://127.1", "http://0x7f.0.0.1", "http://2130706433", "http://127.0.0.1./", "http://１２７.0.0.1/"},
	{"http://xn--fa-hia.example/", "http://faß.example/"},
	{"http://example.com/azAZ09", "http://example.com/%61%7A%41%5A%30%39"},
	{"http://example.com/a;b=c,d!$&'()*+=:@-._~", "http://example.com/a;b=c,d!$&'()*+=:@%2D%2e%5f%7e"},
}

func TestNormalize(t *testing.T) {
	for _, row := range spellings {
		for _, s := range row {
			if got, err := Normalize(s); got != row[0] || err != nil {
				t.Errorf("Normalize(%q) = %q, %v; want %q", s, got, err, row[0])
			}
		}
	}
	known := make(map[string]bool)
	for _, row := range spellings {
		if known[row[0]] {
			t.Errorf("%s stands in two rows", row[0])
		}
		known[row[0]] = true
	}
	for _, s := range []string{"", "example.com", "/path", "mailto:a@example.com", "javascript:void(0)", "http://", "https:///", "ftp://example.com/", "http:?opaque", "http://a b/", "http://user@/", "http://a:x/", "http://1.2.3.4.5/", "http://a%00/", "\x00", "http://[fe80::1%25a%20b]/", "http://[fe80::1%25a%7F]/"} {
		if got, err := Normalize(s); err == nil {
			t.Errorf("Normalize(%q) = %q", s, got)
		}
	}
}

// TestNormalizeSaysWhatIsMissing: to who types a URL as browsers take it.
func TestNormalizeSaysWhatIsMissing(t *testing.T) {
	for _, s := range []string{"", "example.com", "example.com/page", "//example.com/", "localhost:8080", "localhost:0", "localhost:9090", "127.0.0.1:8080/", "[::1]:8080/"} {
		if _, err := Normalize(s); err == nil || !strings.Contains(err.Error(), "begins with https://") {
			t.Errorf("Normalize(%q): %v", s, err)
		}
	}
	for s, want := range map[string]string{"http://[::1/": "missing ']'", "http://example.com:port/": `invalid port "port"`, "ftp://a/": `scheme "ftp"`} {
		if _, err := Normalize(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Normalize(%q): %v, want %q", s, err, want)
		}
	}
}

// FuzzNormalize: what is normal stays as it is, is asked for at the same host, and means the same
// resource to whoever decodes it.
func FuzzNormalize(f *testing.F) {
	for _, row := range spellings {
		for _, s := range row {
			f.Add(s)
		}
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := Normalize(raw)
		if err != nil {
			return
		}
		if again, err := Normalize(got); again != got || err != nil {
			t.Fatalf("Normalize(%q) = %q, and of that %q, %v", raw, got, again, err)
		}
		u, err := url.Parse(got)
		if err != nil {
			t.Fatalf("Normalize(%q) = %q: %v", raw, got, err)
		}
		for _, c := range []byte(got) {
			if c <= ' ' || c > '~' {
				t.Fatalf("Normalize(%q) = %q, which has a byte %#x", raw, got, c)
			}
		}
		if u.Fragment != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || slices.Contains(strings.Split(u.Path, "/"), "..") && !strings.Contains(got, "%2F") {
			t.Fatalf("Normalize(%q) = %q", raw, got)
		}
		before, err := weblink.ParseURL(nil, raw)
		if err != nil {
			t.Fatalf("Normalize(%q) = %q, but %v", raw, got, err)
		}
		if q1, e1 := url.ParseQuery(before.Query); e1 == nil {
			if q2, e2 := url.ParseQuery(u.RawQuery); e2 != nil || q1.Encode() != q2.Encode() {
				t.Fatalf("Normalize(%q) = %q, whose query says %v instead of %v", raw, got, q2, q1)
			}
		}
	})
}

const linksPage = `<!doctype html><title>a page</title>
<base href="/docs/"><base href="http://ignored.example/">
<link rel="stylesheet" href=style.css><link rel="next" href="?page=2"><link rel=Canonical href=http://www.example.com/canon>
<a href="a">1</a> <A HREF=' b#frag '>2</A> <a href="/root" rel="nofollow ugc">3</a>
<map><area href="area"></map> <a name=x>no href</a> <a href="">empty</a> <a href="mailto:x@example.com">mail</a>
<a href="javascript:alert(1)">js</a> <a href="//other.example:80/x">4</a> <a href=a>again</a> <a href="http://[bad">bad</a>
<b href=/bold>no link</b> <a href="/5%5">5 %5</a> <a href="/t	ab">tab</a> <a href="/a%20b%0C">an escape</a>
<script>document.write('<a href="/script">')</script> <!-- <a href="/comment"> --> <img src=i srcset="j 2x">
<a href="/two
 lines	">nl</a> <a href='/100%'>100 %</a> <a href="\back\slash?\">back</a> <a href="ref?a=1&amp;b=2">5</a> <textarea><a href=/text></textarea> <a href="8:30 h.html">6</a> <a href=12:7>7</a> <a rel=prev href=unclosed`

// links returns the links of a page of HTML in UTF-8, at most so many of them.
func links(t testing.TB, body []byte, pageURL string, most int) (found []Link, canonical string, more int) {
	t.Helper()
	h := htmlReader{metas: robots.NewMetaScanner(), most: 10 * most}
	h.read(bytes.NewReader(body), weblink.HTML)
	refs := newResolver(pageURL, &h, strings.Clone)
	if refs == nil {
		t.Fatalf("%s can't be read", pageURL)
	}
	l := linkReader{
		resolver: refs, noteUnread: func(string, error, bool) {},
		most: most, mostBytes: 1 << 20, mostMade: 1 << 20, index: make(map[string]int),
	}
	for i := range h.refs {
		l.follow(&h.refs[i])
	}
	return l.found, l.canonical(h.canonical), l.more + h.more
}

func TestLinks(t *testing.T) {
	found, canonical, more := links(t, []byte(linksPage), "http://example.com/dir/page.html", 100)
	want := []Link{
		{URL: "http://example.com/docs/?page=2", Element: "link", Rel: "next"},
		{URL: "http://example.com/docs/a", Element: "a"},
		{URL: "http://example.com/docs/b", Element: "a"},
		{URL: "http://example.com/root", Element: "a", Rel: "nofollow ugc", Nofollow: true},
		{URL: "http://example.com/docs/area", Element: "area"},
		{URL: "http://other.example/x", Element: "a"},
		{URL: "http://example.com/5%255", Element: "a"},
		{URL: "http://example.com/tab", Element: "a"},
		{URL: "http://example.com/a%20b%0C", Element: "a"},
		{URL: "http://example.com/two%20lines", Element: "a"},
		{URL: "http://example.com/100%25", Element: "a"},
		{URL: "http://example.com/back/slash?%5C", Element: "a"},
		{URL: "http://example.com/docs/ref?a=1&b=2", Element: "a"},
		{URL: "http://example.com/docs/8:30%20h.html", Element: "a"},
		{URL: "http://example.com/docs/12:7", Element: "a"},
	}
	if !slices.Equal(found, want) || canonical != "http://www.example.com/canon" || more != 0 {
		t.Errorf("links: %+v\nwant %+v\ncanonical %s, %d more", found, want, canonical, more)
	}
	if found, _, more := links(t, []byte(linksPage), "http://example.com/", 3); len(found) != 3 || more == 0 {
		t.Errorf("%d links, and %d more", len(found), more)
	}
}

func TestFollow(t *testing.T) {
	for _, tt := range []struct {
		page, link       string
		host, name, site bool
	}{
		{"http://example.com/a", "https://example.com/b", true, true, true},
		{"http://example.com/a", "https://example.com:8443/b", false, true, true},
		{"http://example.com:8443/a", "https://example.com:8443/b", true, true, true},
		{"http://example.com/", "http://www.example.com/", false, false, true},
		{"http://a.github.io/", "http://b.github.io/", false, false, false},
		{"http://127.0.0.1:8080/", "http://127.0.0.1:9090/", false, true, true},
		{"http://localhost:8080/", "http://localhost:3000/", false, true, true},
		{"http://127.0.0.1/", "http://127.0.0.2/", false, false, false},
	} {
		p := &Page{FinalURL: tt.page}
		l := Link{URL: tt.link}
		host := SameHost(p, l)
		name := SameName(p, l)
		site := SameSite(p, l)
		if host != tt.host || name != tt.name || site != tt.site || !Everywhere(p, l) {
			t.Errorf("from %s to %s: same host %v, name %v, site %v", tt.page, tt.link, host, name, site)
		}
	}
}

// FuzzLinks: whatever a page is, its links are normal, few enough, and each there once.
func FuzzLinks(f *testing.F) {
	f.Add([]byte(linksPage), "http://example.com/dir/page.html")
	f.Add([]byte(`<base href="//x/"><a href=..><a href=?><a href=#>`), "https://example.com/a/b")
	f.Fuzz(func(t *testing.T, body []byte, pageURL string) {
		if _, err := Normalize(pageURL); err != nil {
			return
		}
		found, canonical, _ := links(t, body, pageURL, 10)
		if len(found) > 10 {
			t.Fatalf("%d links", len(found))
		}
		seen := make(map[string]bool)
		for _, l := range append(found, Link{URL: canonical}) {
			if l.URL == "" {
				continue
			}
			if again, err := Normalize(l.URL); again != l.URL || err != nil {
				t.Fatalf("%q isn't normal: %q, %v", l.URL, again, err)
			}
			if seen[l.URL] && l.URL != canonical {
				t.Fatalf("%q twice", l.URL)
			}
			seen[l.URL] = true
		}
	})
}
