package weblink

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/go-politeness/politeness/internal/soak"
)

// readerRows are pages, and the references of the links that a browser's document has.
var readerRows = []struct {
	name, page string
	markup     Markup
	want       string
}{
	{"an icon's title", `<svg viewBox="0 0 1 1"><title/><path d="M0 0"/></svg><a href=/after>`, HTML, "/after"},
	{"an icon's style", `<svg><style/></svg><a href=/after>`, HTML, "/after"},
	{"an icon's script", `<svg><script xlink:href=x /></svg><a href=/after>`, HTML, "/after"},
	{"a formula's title", `<math><mi/><title/></math><a href=/after>`, HTML, "/after"},
	{"an icon that isn't closed", `<svg><title/><g><div><a href=/after>`, HTML, "/after"},
	{"HTML in an icon", `<svg><foreignObject><title><a href=/not></title><a href=/in></foreignObject></svg><a href=/after>`, HTML, "/in /after"},
	{"a title in an icon is HTML", `<svg><title><style><a href=/not></style><a href=/in></title></svg>`, HTML, "/in"},
	{"a link of SVG", `<svg><a xlink:href=/x /><a href=/h xlink:href=/not></a></svg><a xlink:href=/not>`, HTML, "/x /h"},
	{"CDATA in an icon", `<svg><![CDATA[ > <a href=/not> ]]><a href=/in></svg>`, HTML, "/in"},
	{"CDATA in HTML", `<![CDATA[ > <a href=/in> ]]>`, HTML, "/in"},
	{"a script in HTML", `<script/><a href=/not></script><a href=/after>`, HTML, "/after"},
	{"a template", `<template><a href=/not><template></template><svg><title/></template><a href=/after>`, HTML, "/after"},
	{"a template that isn't closed", `<a href=/before><template><a href=/not>`, HTML, "/before"},
	{"a template of a shadow root", `<div><template shadowrootmode=open><a href=/in></template></div>`, HTML, "/in"},
	{"noscript", `<noscript><a href=/in></noscript><a href=/after>`, HTML, "/in /after"},
	{"a formula with HTML", `<math><annotation-xml encoding="text/html"><textarea><a href=/not></textarea><a href=/in></annotation-xml></math>`, HTML, "/in"},
	{"an icon that its paragraph ends", `<div><svg><g></div><title>x</title><a href=/after>`, HTML, "/after"},
	{"a breakout", `<svg><font color=red><title><a href=/not></title><a href=/after>`, HTML, "/after"},

	{"a script of XHTML", `<html xmlns="http://www.w3.org/1999/xhtml"><script src="a.js"/><a href="/after"/></html>`, XHTML, "/after"},
	{"a title of XHTML", `<html><head><title/></head><a href="/after">x</a></html>`, XHTML, "/after"},
	{"a textarea of XHTML", `<html><textarea/><iframe src="x"/><a href="/after">x</a></html>`, XHTML, "/after"},
	{"CDATA of XHTML", `<html><![CDATA[ 1 > 0 <a href="/not"> ]]><a href="/after"/></html>`, XHTML, "/after"},
	{"a script with CDATA", `<html><script><![CDATA[ "<a href='/not'>" ]]></script><a href="/after"/></html>`, XHTML, "/after"},
	{"SVG in XHTML", `<html xmlns="http://www.w3.org/1999/xhtml"><svg xmlns="http://www.w3.org/2000/svg"><title/><a href="/svg"/><link href="/not"/></svg><a href="/after"/></html>`, XHTML, "/svg /after"},

	{"a prefix", `<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:script/><h:a href="/after"/><a href="/not"/></h:html>`, XML, "/after"},
	{"a prefix, typed as XHTML", `<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:title/><h:a href="/after"/><a href="/not"/></h:html>`, XHTML, "/after"},
	{"a prefix in HTML", `<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:a href="/not"></h:a><a href=/after>`, HTML, "/after"},
	{"a prefix for a part", `<html xmlns="http://www.w3.org/1999/xhtml"><p xmlns:h="http://www.w3.org/1999/xhtml"><h:a href="/in"/></p><h:a href="/not"/><a href="/after"/></html>`, XML, "/in /after"},
	{"a prefix that is declared anew", `<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:p xmlns:h="urn:x"><h:a href="/not"/></h:p><h:a href="/after"/></h:html>`, XML, "/after"},
	{"a prefix of the link alone", `<html xmlns="http://www.w3.org/1999/xhtml"><q:a xmlns:q="http://www.w3.org/1999/xhtml" href="/in"/><q:a href="/not"/></html>`, XML, "/in"},
	{"another namespace", `<html xmlns="http://www.w3.org/1999/xhtml"><x xmlns="urn:x"><a href="/not"/></x><a href="/after"/></html>`, XHTML, "/after"},
	{"no namespace again", `<html xmlns="http://www.w3.org/1999/xhtml"><x xmlns=""><a href="/not"/></x><a href="/after"/></html>`, XHTML, "/after"},
	{"SVG by a prefix", `<html xmlns="http://www.w3.org/1999/xhtml" xmlns:s="http://www.w3.org/2000/svg" xmlns:l="http://www.w3.org/1999/xlink"><s:svg><s:title/><s:a l:href="/svg"/><s:a x:href="/not"/></s:svg><a href="/after"/></html>`, XML, "/svg /after"},
	{"HTML in SVG", `<html xmlns="http://www.w3.org/1999/xhtml" xmlns:h="http://www.w3.org/1999/xhtml"><svg xmlns="http://www.w3.org/2000/svg"><foreignObject><h:a href="/in"/><link href="/not"/></foreignObject></svg></html>`, XML, "/in"},
	{"an attribute with a prefix", `<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:a h:href="/not"/></h:html>`, XML, ""},
	{"a template by a prefix", `<h:html xmlns:h="http://www.w3.org/1999/xhtml" xmlns:s="urn:x"><h:template><h:a href="/not"/><s:template></s:template><h:a href="/not"/></h:template><h:a href="/after"/></h:html>`, XML, "/after"},
	{"XML that says nothing", `<html><a href="/not"/></html>`, XML, ""},
	{"a feed with HTML in it", `<feed xmlns="http://www.w3.org/2005/Atom"><content><div xmlns="http://www.w3.org/1999/xhtml"><a href="/not"/></div></content></feed>`, XML, ""},
	{"a part of XHTML", `<?xml version="1.0"?><div xmlns="http://www.w3.org/1999/xhtml"><a href="/in"/></div>`, XML, "/in"},
}

// linksOf returns the references of the links of a page as the Reader sees them.
func linksOf(page string, m Markup) (refs []string) {
	r := NewReader(strings.NewReader(page), m)
	for {
		switch r.Next() {
		case html.ErrorToken:
			return refs
		case html.StartTagToken:
			ref, ok := r.attribute("href")
			if r.IsSVG() && !ok {
				ref, ok = r.attribute("xlink:href")
			}
			if ok && r.Name() == atom.A && (r.IsHTML() || r.IsSVG()) {
				refs = append(refs, ref)
			}
		}
	}
}

func TestReaderSeesWhatBrowsersSee(t *testing.T) {
	for _, row := range readerRows {
		if got := strings.Join(linksOf(row.page, row.markup), " "); got != row.want {
			t.Errorf("%s: %s, want %s\n%s", row.name, got, row.want, row.page)
		}
	}
}

// TestReaderForgetsPrefixesWithTheirElements, and of too many keeps the first.
func TestReaderForgetsPrefixesWithTheirElements(t *testing.T) {
	const root = `<html xmlns="http://www.w3.org/1999/xhtml">`
	p := `<p xmlns:h="http://www.w3.org/1999/xhtml">`
	deep := root + strings.Repeat(p, 2*maxOpen) + strings.Repeat("</p>", 2*maxOpen) + `<h:a href="/not"/><a href="/after"/>`
	if got := linksOf(deep, XML); !slices.Equal(got, []string{"/after"}) {
		t.Errorf("deep: %q", got)
	}
	var many strings.Builder
	many.WriteString(`<html xmlns="http://www.w3.org/1999/xhtml" `)
	for i := range 2 * maxPrefixes {
		fmt.Fprintf(&many, `xmlns:p%d="http://www.w3.org/1999/xhtml" `, i)
	}
	many.WriteString(`><p0:a href="/in"/><p500:a href="/not"/></html>`)
	r := NewReader(strings.NewReader(many.String()), XML)
	for r.Next() != html.ErrorToken {
		if len(r.prefixes) > maxPrefixes {
			t.Fatalf("%d prefixes", len(r.prefixes))
		}
	}
	if got := linksOf(many.String(), XML); !slices.Equal(got, []string{"/in"}) {
		t.Errorf("many: %q", got)
	}
}

func TestMarkupOf(t *testing.T) {
	for mediaType, want := range map[string]struct {
		markup Markup
		isPage bool
	}{
		"": {HTML, true}, "text/html": {HTML, true}, "application/xhtml+xml": {XHTML, true}, "application/vnd.wap.xhtml+xml": {XHTML, true},
		"text/xml": {XML, true}, "application/xml": {XML, true}, "application/rss+xml": {XML, true},
		"text/plain": {XML, false}, "application/json": {XML, false}, "application/octet-stream": {XML, false},
	} {
		markup, isPage := MarkupOf(mediaType)
		if isPage != want.isPage || isPage && markup != want.markup {
			t.Errorf("%q: %d, %t", mediaType, markup, isPage)
		}
	}
}

// linksOfTree returns the references of the links of a page as the parser of x/net/html sees them,
// which builds a tree.
func linksOfTree(t *testing.T, page string) (refs []string) {
	t.Helper()
	root, err := html.ParseWithOptions(strings.NewReader(page), html.ParseOptionEnableScripting(false))
	if err != nil {
		return nil // it is too deep
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Data != "a" || n.Namespace == "math" || inTemplate(n) {
			continue
		}
		for _, a := range n.Attr {
			if a.Key == "href" && a.Namespace == "" {
				refs = append(refs, a.Val)
			}
		}
	}
	return refs
}

func inTemplate(n *html.Node) bool {
	for p := n.Parent; p != nil; p = p.Parent {
		if p.DataAtom == atom.Template && p.Namespace == "" {
			return true
		}
	}
	return false
}

// TestReaderAgreesWithATree: on random pages the Reader finds the links that are in a parser's tree.
func TestReaderAgreesWithATree(t *testing.T) {
	pieces := []string{
		"<svg>", "</svg>", "<math>", "</math>", "<svg/>", "<title/>", "<title>", "</title>", "<style/>", "<style>", "</style>", "<script/>", "<script>", "</script>",
		"<foreignObject>", "</foreignObject>", "<desc>", "</desc>", "<g>", "</g>", "<g/>", "<path/>", "<div>", "</div>", "<b>", "</b>", "<br>", "</br>",
		"<span>", "</span>", "<img>", "<mi>", "</mi>", "<mtext>", "</mtext>", "<mglyph>", "<annotation-xml encoding='text/html'>", "<annotation-xml>", "</annotation-xml>",
		"<font>", "<font color=x>", "<template>", "</template>", "<textarea>", "</textarea>", "<textarea/>", "<noscript>", "</noscript>",
		"<![CDATA[", "]]>", "<!--", "-->", "text", "<head>", "</head>", "<body>", "<link>", "<meta>", "<xmp>", "</xmp>", "<iframe/>", "</iframe>",
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a repeatable test
	pages := soak.Size(20_000, 200_000, 2_000_000)
	different := 0
	for range pages {
		var b strings.Builder
		for i := range 1 + random.IntN(12) {
			b.WriteString(pieces[random.IntN(len(pieces))])
			if random.IntN(2) == 0 {
				fmt.Fprintf(&b, "<a href=%d></a>", i)
			}
		}
		page := b.String()
		got := linksOf(page, HTML)
		want := linksOfTree(t, page)
		slices.Sort(got) // the tree moves some
		slices.Sort(want)
		if slices.Equal(got, want) {
			continue
		}
		different++
		if different <= 10 {
			t.Logf("%s: %q, want %q", page, got, want)
		}
	}
	// A Reader without a tree can't know all: which elements around an SVG an end tag in it ends.
	if different > pages/500 {
		t.Errorf("%d of %d are different", different, pages)
	}
}

// TestReaderTakesTimeByLength: twice the page is twice the work, whatever the page is made of.
func TestReaderTakesTimeByLength(t *testing.T) {
	for _, part := range []string{
		"<svg>", "<g>", "</g>", "<svg><g>", "<svg></x>", "<math><mi>", "<template>", "</template>", "<svg><foreignObject>", "<svg><foreignObject><div>", "<title>", "<title/>",
		"<!--", "<![CDATA[", "<svg><![CDATA[", "<a ", "<a href=", "<a a", "<", "</", "&amp;", "<noscript>", "<svg><desc><b></i>", "<p>x", "<script><!--", "\x00", "<a\x00 \x00=\x00>",
		`<p xmlns:h="x">`, `<h:p xmlns="y">`, `<p xmlns:h="x"/>`,
	} {
		for _, m := range []Markup{HTML, XHTML, XML} {
			steps := func(times int) (n int) {
				r := NewReader(strings.NewReader(strings.Repeat(part, times)), m)
				most := 0
				for r.Next() != html.ErrorToken {
					n += 1 + len(r.Attributes()) + len(r.Text())
					most = max(most, len(r.open)+len(r.tops))
				}
				if most > 2*maxOpen {
					t.Errorf("%q: %d elements are remembered", part, most)
				}
				return n
			}
			if one, two := steps(20_000), steps(40_000); two > 2*one+1000 {
				t.Errorf("%q: %d steps, and %d for twice the page", part, one, two)
			}
		}
	}
}

// FuzzReader: it comes to the end of any page, and remembers few elements.
func FuzzReader(f *testing.F) {
	for _, row := range readerRows {
		f.Add(row.page, uint8(row.markup))
	}
	f.Fuzz(func(t *testing.T, page string, markup uint8) {
		r := NewReader(strings.NewReader(page), Markup(markup%3))
		for n := 0; r.Next() != html.ErrorToken; n++ {
			if len(r.open) > maxOpen || len(r.tops) > maxOpen || r.hidden < 0 || r.noscript < 0 {
				t.Fatalf("%+v", r)
			}
			if n > len(page) {
				t.Fatal("more tokens than bytes")
			}
			_ = r.Text()
		}
	})
}

func TestRelations(t *testing.T) {
	for rel, want := range map[string][]string{
		"": nil, "NoFollow": {"nofollow"}, "ugc,nofollow": {"ugc", "nofollow"}, " nofollow, noindex ": {"nofollow", "noindex"}, "a\tb\nc\fd": {"a", "b", "c", "d"}, ",": nil,
	} {
		if got := Relations(rel); !slices.Equal(got, want) {
			t.Errorf("%q is %q, want %q", rel, got, want)
		}
	}
}
