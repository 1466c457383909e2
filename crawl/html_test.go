package crawl_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/robots"
)

const xhtml = "application/xhtml+xml"

// TestPagesAsAParserSeesThem: the links are those of the document that a browser makes of the page.
func TestPagesAsAParserSeesThem(t *testing.T) {
	const root = `<html xmlns="http://www.w3.org/1999/xhtml">`
	for name, tt := range map[string]struct{ contentType, page, want string }{
		"an icon with an empty title":  {"text/html", `<svg viewBox="0 0 1 1"><title/><path d="M0 0"/></svg><a href=/after>`, "/after"},
		"an icon with an empty style":  {"text/html", `<svg><style/></svg><a href=/after>`, "/after"},
		"an icon with an empty script": {"text/html", `<svg><script xlink:href="/x.js"/></svg><a href=/after>`, "/after"},
		"a link in an icon":            {"text/html", `<svg><a xlink:href=/x></a><a href=/h xlink:href=/not></a><link rel=next href=/not /></svg>`, "/h /x"},
		"a template":                   {"text/html", `<template><a href=/not></a><base href=/not/></template><a href=after>`, "/after"},
		"CDATA in an icon":             {"text/html", `<svg><![CDATA[ <a href=/not> ]]></svg><a href=/after>`, "/after"},
		"a script that ends itself":    {"text/html", `<script src=x /><a href=/not>`, ""},
		"XHTML, a script":              {xhtml, root + `<head><script src="a.js"/></head><a href="/after">x</a></html>`, "/after"},
		"XHTML, a title":               {xhtml, root + `<head><title/></head><a href="/after">x</a></html>`, "/after"},
		"XHTML, a textarea":            {xhtml, root + `<textarea/><a href="/after">x</a></html>`, "/after"},
		"XHTML, an iframe":             {xhtml, root + `<iframe src="/in"/><a href="/after">x</a></html>`, "/after /in"},
		"XHTML, CDATA":                 {xhtml, root + `<![CDATA[ 1 > 0 <a href="/not"> ]]><a href="/after">x</a></html>`, "/after"},
		"XHTML with a prefix":          {xhtml, `<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:head><h:title/><h:base href="/b/"/></h:head><h:a href="after">x</h:a><h:a rel="nofollow" href="/not">x</h:a></h:html>`, "/b/after"},
		"XML with a prefix":            {"text/xml; charset=utf-8", `<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:script/><h:a href="/after">x</h:a><a href="/not">x</a></h:html>`, "/after"},
		"nofollow with a prefix":       {"application/xml", `<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:head><h:meta name="robots" content="nofollow"/></h:head><h:a href="/not">x</h:a></h:html>`, ""},
		"nofollow of another language": {xhtml, `<html xmlns="http://www.w3.org/1999/xhtml" xmlns:o="urn:x"><head><o:meta name="robots" content="nofollow"/></head><a href="/after">x</a></html>`, "/after"},
		"XML that is no page":          {"application/xml", `<urlset xmlns:h="http://www.w3.org/1999/xhtml"><h:link rel="next" href="/not"/><h:a href="/not"/></urlset>`, ""},
		"XHTML as text/html":           {"text/html", root + `<head><title/></head><a href="/not">x</a></html>`, ""},

		"a base behind the link":     {"text/html", `<a href="one">1</a><base href="/b/">`, "/b/one"},
		"a base of javascript":       {"text/html", `<base href="javascript:void(0)"><a href="one">1</a>`, "/one"},
		"a base of data":             {"text/html", `<base href="data:,"><a href="one">1</a>`, "/one"},
		"an empty base":              {"text/html", `<base href=""><base href="/b/"><a href="one">1</a>`, "/one"},
		"a base without href":        {"text/html", `<base target=_top><base href="/b/"><a href="one">1</a>`, "/b/one"},
		"a base that is no URL":      {"text/html", `<base href="http://[::1/"><base href="/b/"><a href="one">1</a>`, "/one"},
		"a base out of the web":      {"text/html", `<base href="ftp://x/"><a href="one">1</a><a href="https://example.com/two">2</a>`, "/two"},
		"a base in an icon":          {"text/html", `<svg><base href="/not/"/></svg><base href="/b/"><a href="one">1</a>`, "/b/one"},
		"a base in the body":         {"text/html", `<body><p><base href="/b/"><a href="one">1</a>`, "/b/one"},
		"a base, a refresh":          {"text/html", `<meta http-equiv=refresh content="0;url=one"><base href="/b/">`, "/b/one"},
		"a base of slashes":          {"text/html", `<base href="https:///example.com\b\"><a href="one">1</a><a href="#x">`, "/b/ /b/one"},
		"a base with a query":        {"text/html", `<base href="/b?q"><a href="#x">1</a><a href="?r">2</a>`, "/b?q /b?r"},
		"a base beyond many bytes":   {"text/html", `<a href="one">` + strings.Repeat(" ", 200_000) + `<base href="/b/">`, "/b/one"},
		"nofollow by a comma":        {"text/html", `<a rel="ugc,nofollow" href=/no1></a><a rel="nofollow, noindex" href=/no2></a><a rel="ugc" href=/yes></a>`, "/yes"},
		"nofollow by a line end":     {"text/html", "<a rel='ugc\fNOFOLLOW' href=/no1></a><a rel=xnofollow href=/yes></a>", "/yes"},
		"two rel":                    {"text/html", `<a rel="" rel=nofollow href=/yes></a>`, "/yes"},
		"nofollow in XHTML":          {xhtml, root + `<head><script src="a.js"/><meta name="robots" content="noindex,nofollow"/><script>x()</script></head><body><a href="/not">x</a></body></html>`, ""},
		"nofollow behind an icon":    {"text/html", `<head><title>t</title><svg><title/></svg><meta name=robots content=nofollow></head><a href=/not>`, ""},
		"nofollow in a template":     {"text/html", `<head><template><meta name=robots content=nofollow></template></head><a href=/yes>`, "/yes"},
		"nofollow behind the head":   {"text/html", `<head></head><meta name=robots content=nofollow><a href=/yes>`, "/yes"},
		"nofollow in a script":       {"text/html", `<head><script>"<meta name=robots content=nofollow>"</script></head><a href=/yes>`, "/yes"},
		"a type that says nothing":   {"*/*", `<a href=/yes>`, "/yes"},
		"a type without a semicolon": {"text/html charset=utf-8", `<a href=/yes>`, "/yes"},
		"two types":                  {"text/plain, text/html", `<a href=/yes>`, "/yes"},
		"two types, a text":          {"text/html, text/plain", `<a href=/not>`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := strings.Join(strings.Fields(crawled(t, tt.contentType, tt.page)), " "); got != tt.want {
					t.Errorf("visited %q, want %q\n%s", got, tt.want, tt.page)
				}
			})
		})
	}
}

// TestCanonicalInTheHeadOnly: one in the body may be in a stranger's comment.
func TestCanonicalInTheHeadOnly(t *testing.T) {
	const canonical = `<link rel="canonical" href="/canon">`
	for name, tt := range map[string]struct {
		page string
		want bool
	}{
		"in the head":                   {"<head><title>t</title>" + canonical + "</head>", true},
		"without tags of a head":        {"<!doctype html><title>t</title>\n<script>1</script>" + canonical, true},
		"behind a noscript":             {"<head><noscript><img src=x></noscript>" + canonical + "</head>", true},
		"between head and body":         {"<head></head>\n" + canonical + "<body>", true},
		"by commas":                     {`<head><link rel="canonical,next" href="/canon"></head>`, true},
		"in the body":                   {"<head></head><body>" + canonical, false},
		"in a comment of a stranger's":  {"<title>t</title><p>nice page!" + canonical, false},
		"behind a text":                 {"<title>t</title>hello" + canonical, false},
		"in an icon":                    {"<head><svg>" + canonical, false},
		"in a template":                 {"<head><template>" + canonical + "</template></head>", false},
		"two":                           {"<head>" + canonical + `<link rel=canonical href=/other></head>`, true},
		"an empty one first":            {"<head><link rel=canonical href=''>" + canonical + "</head>", true},
		"relative to a base behind it":  {`<head><link rel=canonical href=canon><base href="/">`, true},
		"another one of the body, too":  {"<head>" + canonical + "</head><body><link rel=canonical href=/other>", true},
		"with a prefix that has none":   {`<head><h:link rel="canonical" href="/canon"/></head>`, false},
		"a body that begins in nothing": {"<head></head></body>" + canonical, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.Site("https://example.com").Handle("/dir/start", page(tt.page))
				r.run(t.Context(), t, "https://example.com/dir/start")
				want := ""
				if tt.want {
					want = "https://example.com/canon"
				}
				if got := r.visited[0].Canonical; got != want {
					t.Errorf("canonical %q, want %q\n%s", got, want, tt.page)
				}
			})
		})
	}
}

// TestReservationsOfXHTML: what a page of XHTML states is obeyed, though an element before it ends
// itself.
func TestReservationsOfXHTML(t *testing.T) {
	for _, before := range []string{`<script src="a.js"/>`, `<title/>`, `<style/>`, `<svg xmlns="http://www.w3.org/2000/svg"><title/></svg>`} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			text := `<html xmlns="http://www.w3.org/1999/xhtml"><head>` + before + `<meta name="tdm-reservation" content="1"/></head><body/></html>`
			r.Site("https://example.com").Handle("/", raw(xhtml, text))
			r.politeness.Purposes = []robots.Purpose{robots.Train}
			s := r.run(t.Context(), t, "https://example.com/")
			if s.Outcomes[crawl.Disallowed] != 1 || len(r.visited) > 0 {
				t.Errorf("behind %s: %v", before, s)
			}
		})
	}
}

// TestPageDirectivesAreThoseOfTheTransport: the crawl and ResponseLimits.CheckIndexing read a page
// likewise.
func TestPageDirectivesAreThoseOfTheTransport(t *testing.T) {
	for _, text := range []string{
		`<head><meta name=robots content=noindex></head>`, `<head><svg><title/></svg><meta name=robots content=noindex></head>`,
		`<head><title><meta name=robots content=noindex></title></head>`, `<head></head><meta name=robots content=noindex>`,
		`<head><meta name=ROBOTS content=" NoIndex , noai"><meta name=robots name=x content=nofollow content=none></head>`,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.Site("https://example.com").Handle("/", page(text))
			r.politeness.Response.CheckIndexing = true
			var seen, own robots.Directives
			r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
				seen = p.Directives
				own = politeness.DirectivesOf(p.Response)
				return nil
			}
			r.run(t.Context(), t, "https://example.com/")
			if seen.String() != own.String() {
				t.Errorf("%s: the crawl has %v, the Transport %v", text, seen, own)
			}
		})
	}
}

// TestAPageCostsByItsLength: a long <base>, by which each of many short references is a long URL,
// costs no more than the page is long, in time and in memory.
func TestAPageCostsByItsLength(t *testing.T) {
	long := strings.Repeat("a", 100_000)
	for name, text := range map[string]func(n int) string{
		"fragments of a long base": func(n int) string { return `<base href="/x?` + long + `">` + strings.Repeat("<a href=#>", n) },
		"queries of a long base":   func(n int) string { return `<base href="/` + long + `/">` + numberedLinks("?%d", n) },
		"paths of a long base":     func(n int) string { return `<base href="/` + long + `/">` + numberedLinks("p%d", n) },
		"a base just short enough": func(n int) string { return `<base href="/` + long[:2000] + `/">` + numberedLinks("%d", n) },
		"a base of a charset": func(n int) string {
			return `<base href="/x?` + strings.Repeat("&eacute;", 900) + `">` + strings.Repeat("<a href=#>", n)
		},
		"unreadable references":     func(n int) string { return numberedLinks("https://[%d", n) },
		"one reference, many times": func(n int) string { return strings.Repeat("<a href=/x>", n) },
	} {
		t.Run(name, func(t *testing.T) {
			cost := func(n int) (allocated uint64, links int) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig()
					r.Site("https://example.com").Handle("/", raw("text/html; charset=windows-1252", text(n)))
					r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
						for _, l := range p.Links {
							links += len(l.URL)
						}
						return nil
					}
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					r.run(t.Context(), t, "https://example.com/")
					runtime.ReadMemStats(&after)
					allocated = after.TotalAlloc - before.TotalAlloc
				})
				return allocated, links
			}
			cost(100)
			one, _ := cost(10_000)
			two, links := cost(20_000)
			// A page of at most 10,000 links has at most 2,048 bytes for each.
			if links > 10_000*2048 {
				t.Errorf("links of %d bytes", links)
			}
			if two > 200<<20 || two > 3*one+10<<20 {
				t.Errorf("%d MB are allocated, and %d MB for twice the references", one>>20, two>>20)
			}
		})
	}
}

func numberedLinks(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<a href="+format+">", i)
	}
	return b.String()
}

// TestLongURLsAreTooLong: also those that are long by the <base> alone; each is told, and none at
// full length.
func TestLongURLsAreTooLong(t *testing.T) {
	for _, text := range []string{
		`<base href="/` + strings.Repeat("a", 5000) + `/"><a href="x">`,
		`<a href="/` + strings.Repeat("a", 5000) + `">`,
		`<a href="https://[` + strings.Repeat("a", 5000) + `">`,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			r.Site("https://example.com").Handle("/", page(text))
			r.crawl.Follow = crawl.Everywhere
			lost := 0
			r.crawl.Done = func(res crawl.Result) {
				if res.Outcome == crawl.TooLong || res.Outcome == crawl.Invalid {
					lost++
				}
				if len(res.URL) > 3000 {
					t.Errorf("%s: a URL of %d bytes", res.Outcome, len(res.URL))
				}
			}
			r.run(t.Context(), t, "https://example.com/")
			if lost != 1 {
				t.Errorf("%d are told", lost)
			}
		})
	}
}
