package crawl_test

import (
	"strings"
	"testing"
	"testing/synctest"
)

// TestCharsetsAsBrowsersFindThem: the charset that the header or the page names, also where they
// name it badly, or late.
func TestCharsetsAsBrowsersFindThem(t *testing.T) {
	const (
		link = "<a href='/\xef?q=\xef'>" // п in windows-1251
		want = "/%D0%BF?q=%EF"
	)
	for name, tt := range map[string]struct{ contentType, page, want string }{
		"empty parameters":          {"text/html;;; charset=windows-1251", link, want},
		"a parameter without value": {"text/html; charset=windows-1251; foo", link, want},
		"foo first":                 {"text/html; foo; charset=windows-1251", link, want},
		"twice":                     {"text/html; charset=windows-1251; charset=Windows-1251", link, want},
		"two, the first counts":     {"text/html; charset=windows-1251; charset=utf-8", link, want},
		"two types":                 {"text/html; charset=windows-1251, text/html; foo=bar", link, want},
		"two types with a charset":  {"text/html; charset=utf-8, text/html; charset=windows-1251", link, want},
		"in quotes":                 {`text/html; charset="windows-1251"`, link, want},
		"a quote without an end":    {`text/html; charset="windows-1251`, link, want},
		"upper case, spaces":        {"Text/HTML ; CharSet=Windows-1251 ", link, want},
		"an alias":                  {"text/html; charset=cp1251", link, want},
		"one that is none":          {"text/html; charset=none", `<meta charset=windows-1251>` + link, want},

		"an XML declaration":        {"text/html", `<?xml version="1.0" encoding="windows-1251"?>` + link, want},
		"of XHTML":                  {xhtml, `<?xml version='1.0'  encoding = 'windows-1251' standalone="yes"?><html>` + link + "</a></html>", want},
		"of XHTML, UTF-16 in bytes": {xhtml, `<?xml version="1.0" encoding="UTF-16"?><html><a href='/é'/></html>`, "/%C3%A9"},
		"XHTML without one":         {xhtml, "<html><meta charset='windows-1251'/><a href='/é'/></html>", "/%C3%A9"},
		"against the header":        {"text/html; charset=windows-1251", `<?xml version="1.0" encoding="utf-8"?>` + link, want},

		"a late meta":       {"text/html", "<head><script>" + strings.Repeat("x", 3000) + "</script><meta charset=windows-1251></head>" + link, want},
		"a pragma":          {"text/html", `<meta content="text/html; charset='windows-1251'" http-equiv=Content-Type>` + link, want},
		"content alone":     {"text/html", `<meta content="text/html; charset=utf-8"><meta charset=windows-1251>` + link, want},
		"in a comment":      {"text/html", `<!-- <meta charset=utf-8> --><meta charset=windows-1251>` + link, want},
		"in a noscript":     {"text/html", `<noscript><meta charset=windows-1251></noscript>` + link, want},
		"UTF-16 in bytes":   {"text/html", `<meta charset=utf-16><a href='/é'>`, "/%C3%A9"},
		"in the body":       {"text/html", "<body><meta charset=windows-1251><a href='/\xef'>", "/%C3%AF"},
		"a mark before all": {"text/html; charset=windows-1251", "\xef\xbb\xbf<meta charset=windows-1251><a href='/é'>", "/%C3%A9"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := strings.TrimSpace(crawled(t, tt.contentType, tt.page)); got != tt.want {
					t.Errorf("visited %q, want %q", got, tt.want)
				}
			})
		})
	}
}
