package main

import (
	"slices"
	"strings"
	"testing"
)

func TestSURT(t *testing.T) {
	for raw, want := range map[string]string{
		"https://example.com/":                  "com,example)/",
		"http://www.blog.Example.com/A?y=2&x=1": "com,example,blog)/A?x=1&y=2",
		"https://example.com:8443/a%2Fb":        "com,example:8443)/a%2Fb",
		"http://127.0.0.1:80/a":                 "127.0.0.1:80)/a",
		"http://[2001:db8::1]/a":                "2001:db8::1)/a",
	} {
		if got := surt(raw); got != want {
			t.Errorf("surt(%q) = %q, want %q", raw, got, want)
		}
	}
}

func TestNormalize(t *testing.T) {
	for raw, want := range map[string]string{ // want "": an error
		"HTTPS://Example.COM":              "https://example.com/",
		"https://example.com:443/a#top":    "https://example.com/a",
		"http://example.com:80/a?b#c":      "http://example.com/a?b",
		"http://user:secret@example.com/a": "http://example.com/a",
		"https://example.com/a%2Fb":        "https://example.com/a%2Fb",
		"mailto:bot@example.com":           "",
		"/relative":                        "",
		"https://":                         "",
		"https://exa mple.com/":            "",
	} {
		got, err := normalize(raw)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("normalize(%q) = %q, %v; want %q", raw, got, err, want)
		}
	}
}

func TestFindLinks(t *testing.T) {
	const at = "https://example.com/dir/page"
	for _, test := range []struct {
		name, body       string
		noFollow         bool
		canonical, pages string
	}{
		{"plain", `<a href="/a">a</a><A HREF='b?x=1&amp;y=2'>b</A><area href=c><a>none</a><a href="">self</a>`, false, "", "/a /dir/b?x=1&y=2 /dir/c"},
		{"others", `<a href="https://other.example/">x</a><a href="mailto:a@b.c">x</a><a href="javascript:x()">x</a><a href="#top">x</a>`, false, "", "/dir/page"},
		{"nofollow", `<a rel="nofollow" href="/a">a</a><a rel="noopener UGC NoFollow" href="/b">b</a><a rel="noopener" href="/c">c</a>`, false, "", "/c"},
		{"page nofollow", `<a href="/a">a</a>`, true, "", ""},
		{"base", `<base href="/other/"><a href="a">a</a>`, false, "", "/other/a"},
		{"canonical", `<link rel="canonical" href="/dir/original"><a href="/a">a</a>`, false, "/dir/original", "/a"},
		{"canonical itself", `<link rel="canonical" href="https://EXAMPLE.com/dir/page#x"><a href="/a">a</a>`, false, "", "/a"},
		{"canonical elsewhere", `<link rel="canonical" href="https://other.example/">`, false, "", ""},
		{"comment and script", `<!-- <a href="/no"> --><script>"<a href='/no'>"</script><a href="/a">`, false, "", "/a"},
		{"broken", `<a href="/a"<a href="/b">`, false, "", "/a"},
	} {
		p := &page{URL: at, FinalURL: at, ContentType: "text/html; charset=utf-8", Body: []byte(test.body), NoFollow: test.noFollow}
		got := findLinks(p)
		var want []string
		for _, path := range strings.Fields(test.pages) {
			want = append(want, "https://example.com"+path)
		}
		canonical := test.canonical
		if canonical != "" {
			canonical = "https://example.com" + canonical
		}
		if got.canonical != canonical || !slices.Equal(got.pages, want) {
			t.Errorf("%s: %+v, want %q, %q", test.name, got, canonical, want)
		}
	}
	if got := findLinks(&page{URL: at, FinalURL: at, ContentType: "application/pdf", Body: []byte(`<a href="/a">`)}); got.pages != nil {
		t.Errorf("links of a PDF: %q", got.pages)
	}
	if got := findLinks(&page{URL: at, FinalURL: "https://other.example/", ContentType: "text/html", Body: []byte(`<a href="/a">`)}); got.pages != nil {
		t.Errorf("links of a page that moved to another host: %q", got.pages)
	}
}

func TestByTurns(t *testing.T) {
	got := byTurns([]string{"https://a.example/1", "https://a.example/2", "https://a.example/3", "https://b.example/1"})
	want := []string{"https://a.example/1", "https://b.example/1", "https://a.example/2", "https://a.example/3"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
