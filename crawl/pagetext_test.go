package crawl_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/html/charset"

	"github.com/go-politeness/politeness/crawl"
)

// encoded returns s in an encoding.
func encoded(t *testing.T, name, s string) string {
	t.Helper()
	e, _ := charset.Lookup(name)
	text, err := e.NewEncoder().String(s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// visitOne visits a page with the given Content-Type and body.
func visitOne(t *testing.T, contentType, body string, visit func(p *crawl.Page) error) crawl.Summary {
	t.Helper()
	r := newRig()
	r.crawl.Follow = crawl.Everywhere
	r.Site("https://example.com").Handle("/dir/page", raw(contentType, body))
	called := false
	r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
		if p.FinalURL != "https://example.com/dir/page" || called {
			return nil
		}
		called = true
		return visit(p)
	}
	summary := r.run(t.Context(), t, "https://example.com/dir/page")
	if !called {
		t.Error("the page wasn't visited")
	}
	return summary
}

// TestTextIsUTF8: whatever the encoding of a page, and wherever that is named.
func TestTextIsUTF8(t *testing.T) {
	for name, tt := range map[string]struct{ contentType, body, want string }{
		"iso-8859-1 by the header":    {"text/html; charset=iso-8859-1", "<h1>caf\xe9", "<h1>café"},
		"windows-1252":                {"text/html; charset=latin1", "\x80 5", "€ 5"},
		"windows-1251 by a meta":      {"text/html", "<meta charset=windows-1251>\xcf", "<meta charset=windows-1251>П"},
		"shift_jis":                   {"text/html; charset=shift_jis", encoded(t, "shift_jis", "日本語"), "日本語"},
		"euc-kr":                      {"text/html; charset=euc-kr", encoded(t, "euc-kr", "한국어"), "한국어"},
		"gb18030":                     {"text/html; charset=gbk", encoded(t, "gb18030", "中文"), "中文"},
		"koi8-r":                      {"text/plain; charset=koi8-r", encoded(t, "koi8-r", "мир"), "мир"},
		"utf-16, little endian":       {"text/html", asUTF16(binary.LittleEndian, "<h1>é"), "<h1>é"},
		"utf-16, big endian":          {"text/plain", asUTF16(binary.BigEndian, "é"), "é"},
		"an XML declaration":          {"application/rss+xml", "<?xml version='1.0' encoding='iso-8859-1'?>\xe9", "<?xml version='1.0' encoding='iso-8859-1'?>é"},
		"XML without one":             {"application/atom+xml", "<a>é</a>", "<a>é</a>"},
		"JSON":                        {"application/json", `{"a":"é"}`, `{"a":"é"}`},
		"JSON, broken":                {"application/ld+json", "{\"a\":\"\xe9\"}", "{\"a\":\"\ufffd\"}"},
		"a byte order mark":           {"text/html; charset=iso-8859-1", "\xef\xbb\xbfé", "é"},
		"utf-8 by its bytes":          {"text/html", "café", "café"},
		"utf-8, cut":                  {"text/html", "café \xe2\x82", "café \ufffd"},
		"utf-8 with wrong bytes":      {"text/html; charset=utf-8", "a\xffb\xe2\x82c", "a\ufffdb\ufffdc"},
		"a meta that is no page's":    {"text/plain", "<meta charset=koi8-r>caf\xe9", "<meta charset=koi8-r>café"},
		"plain, nothing said":         {"text/plain", "caf\xe9", "café"},
		"empty":                       {"text/html", "", ""},
		"a charset that nobody knows": {"text/html; charset=none", "café", "café"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				visitOne(t, tt.contentType, tt.body, func(p *crawl.Page) error {
					for range 2 { // each reader is of all
						text, err := io.ReadAll(p.Text())
						if string(text) != tt.want || err != nil {
							t.Errorf("text %q, %v, want %q", text, err, tt.want)
						}
					}
					return nil
				})
			})
		})
	}
}

// TestResolveAsLinks: an href that a program takes out of a page leads where the link does.
func TestResolveAsLinks(t *testing.T) {
	const base = `<base href="/real/dir/?q">`
	for name, tt := range map[string]struct{ contentType, body, ref, want string }{
		"relative":                {"text/html", "", "leaf", "https://example.com/dir/leaf"},
		"by the base":             {"text/html", base, "leaf#top", "https://example.com/real/dir/leaf"},
		"absolute":                {"text/html", base, "//Other.example:443/a/../b", "https://other.example/b"},
		"a fragment":              {"text/html", base, "#top", "https://example.com/real/dir/?q"},
		"nothing":                 {"text/html", base, "", "https://example.com/real/dir/?q"},
		"a query in its encoding": {"text/html; charset=iso-8859-1", base, "?q=é", "https://example.com/real/dir/?q=%E9"},
		"no HTML":                 {"text/plain", base, "leaf", "https://example.com/dir/leaf"},
		"another scheme":          {"text/html", base, "mailto:a@example.com", ""},
		"a base of another":       {"text/html", `<base href="mailto:a@example.com">`, "leaf", ""},
		"no URL":                  {"text/html", base, "http://[", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := tt.body + "<a href='" + tt.ref + "'>link</a>"
				body = strings.ReplaceAll(body, "é", "\xe9")
				visitOne(t, tt.contentType, body, func(p *crawl.Page) error {
					got, err := p.Resolve(tt.ref)
					if got != tt.want || (err == nil) != (tt.want != "") {
						t.Errorf("Resolve(%q) = %q, %v, want %q", tt.ref, got, err, tt.want)
					}
					isLink := tt.want != "" && tt.ref != "" && tt.contentType != "text/plain"
					if isLink && (len(p.Links) != 1 || p.Links[0].URL != got) {
						t.Errorf("Resolve(%q) = %q, and the link is %v", tt.ref, got, p.Links)
					}
					return nil
				})
			})
		})
	}
}

// TestAddIsByTheBase of the page, as its links are.
func TestAddIsByTheBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").
			Handle("/dir/page", page(`<base href="/real/">`)).
			Handle("/real/leaf", page(""))
		r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			if p.Depth == 0 {
				p.Add("leaf")
			}
			return nil
		}
		r.run(t.Context(), t, "https://example.com/dir/page")
		const want = "https://example.com/dir/page https://example.com/real/leaf"
		if got := r.urls(); got != want {
			t.Errorf("visited %s, want %s", got, want)
		}
	})
}

// TestStatusErr is nil for pages that were served.
func TestStatusErr(t *testing.T) {
	for status, want := range map[int]string{
		200: "", 204: "", 299: "",
		304: "crawl: status 304 Not Modified",
		404: "crawl: status 404 Not Found",
		499: "crawl: status 499",
		500: "crawl: status 500 Internal Server Error",
	} {
		p := &crawl.Page{Response: &http.Response{StatusCode: status}}
		got := ""
		if err := p.StatusErr(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("status %d: %q, want %q", status, got, want)
		}
	}
}

// TestStatusErrEndsThePage as VisitFailed, with the status in the Summary.
func TestStatusErrEndsThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Page("/", "text")
		r.crawl.Visit = func(_ context.Context, p *crawl.Page) error { return p.StatusErr() }
		summary := r.run(t.Context(), t, "https://example.com/", "https://example.com/gone")
		wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Visited: 1, crawl.VisitFailed: 1})
		err := summary.Errors[crawl.VisitFailed]
		if err == nil || err.Error() != "crawl: status 404 Not Found" {
			t.Error(err)
		}
	})
}

// TestHosts are followed from any page, and no others.
func TestHosts(t *testing.T) {
	follow := crawl.Hosts("example.com", ".Example.ORG", "localhost:8080", "bücher.example", "", ".", ".org:81")
	for url, want := range map[string]bool{
		"http://example.com/":            true,
		"https://example.com/":           true,
		"https://example.com:8443/":      false,
		"https://www.example.com/":       false,
		"https://example.org/":           true,
		"https://a.b.example.org/":       true,
		"https://badexample.org/":        false,
		"https://example.org.evil.com/":  false,
		"http://localhost:8080/":         true,
		"http://localhost:3000/":         false,
		"http://localhost/":              false,
		"https://xn--bcher-kva.example/": true,
		"https://other.example/":         false,
		"http://any.org:81/":             true,
		"http://any.org/":                false,
	} {
		got := follow(&crawl.Page{FinalURL: "https://elsewhere.example/"}, crawl.Link{URL: url})
		if got != want {
			t.Errorf("%s: %t, want %t", url, got, want)
		}
	}
	if crawl.Hosts()(nil, crawl.Link{URL: "https://example.com/"}) {
		t.Error("without names a link is followed")
	}
}

// ExampleHosts follows the links to two hosts, and to all names below a third.
func ExampleHosts() {
	follow := crawl.Hosts("example.com", "localhost:8080", ".example.org")
	from := &crawl.Page{FinalURL: "https://example.com/"}
	for _, url := range []string{
		"https://example.com/a", "http://localhost:3000/", "https://docs.example.org/", "https://example.net/",
	} {
		fmt.Println(follow(from, crawl.Link{URL: url}), url)
	}
	// Output:
	// true https://example.com/a
	// false http://localhost:3000/
	// true https://docs.example.org/
	// false https://example.net/
}

// ExamplePage_StatusErr ends pages that weren't served as VisitFailed.
func ExamplePage_StatusErr() {
	visit := func(_ context.Context, p *crawl.Page) error {
		if err := p.StatusErr(); err != nil {
			return err
		}
		return errors.ErrUnsupported // take the data out of the page here
	}
	gone := &crawl.Page{Response: &http.Response{StatusCode: http.StatusGone}}
	fmt.Println(visit(context.Background(), gone))
	// Output: crawl: status 410 Gone
}
