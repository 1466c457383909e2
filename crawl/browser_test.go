package crawl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/browsertest"
	"github.com/go-politeness/politeness/internal/mediatype"
)

// A browserRow is a page that a browser and a crawl read. A difference is named, and justified.
type browserRow struct {
	contentType string
	text        string
	differs     string // why the two differ; empty: they don't
}

const (
	asHTML    = "text/html; charset=utf-8"
	asXHTML   = "application/xhtml+xml"
	xhtmlRoot = `<html xmlns="http://www.w3.org/1999/xhtml">`
	hRoot     = `<h:html xmlns:h="http://www.w3.org/1999/xhtml">`
	cyrillic  = "<a href='/\xef?q=\xef'>"
	comma     = "text/html; charset=windows-1251, text/html"
)

var browserRows = []browserRow{
	// Foreign content, and elements that end themselves.
	{asHTML, `<svg viewBox="0 0 1 1"><title/><path d="M0 0"/></svg><a href=/after>`, ""},
	{asHTML, `<svg><style/></svg><a href=/after>`, ""},
	{asHTML, `<svg><script xlink:href="x.js"/></svg><a href=/after>`, ""},
	{asHTML, `<svg><desc><a href=/in></desc><title><a href=/in2></title></svg><a href=/after>`, ""},
	{asHTML, `<math><mi><a href=/in></mi><title/></math><a href=/after>`, ""},
	{asHTML, `<math><annotation-xml encoding="text/html"><a href=/in></annotation-xml></math>`, ""},
	{asHTML, `<svg><a xlink:href=/x></a><a href=/h xlink:href=/not></a></svg>`, ""},
	{asHTML, `<svg><![CDATA[ <a href=/not> ]]></svg><a href=/after>`, ""},
	{asHTML, `<![CDATA[ > <a href=/in> ]]>`, ""},
	{asHTML, `<svg><g><div><a href=/after>`, ""},
	{asHTML, `<svg><foreignObject><textarea><a href=/not></textarea><a href=/in></foreignObject></svg>`, ""},
	{asHTML, `<script/><a href=/not></script><a href=/after>`, ""},
	{asHTML, `<title/><a href=/not></title><a href=/after>`, ""},
	{asHTML, `<template><a href=/not></template><a href=/after>`, ""},
	{asHTML, `<textarea><a href=/not></textarea><xmp><a href=/not></xmp><a href=/after>`, ""},
	{asHTML, `<noscript><a href=/in></noscript><a href=/after>`, ""},
	{asHTML, `<area href=/area><map><area href="/area2"></map>`, ""},
	{asHTML, `<a href="/with space"><a href=" /trimmed "><a href="/tab	in"><a href='/%zz?%'>`, "the crawl escapes a percent sign that begins no escape"},
	{asHTML, `<a href="\back\slash"><a href="https:///example.com/x"><a href="//example.com"><a href="http:rel">`, ""},
	{asHTML, "<a href='/s\x01oh.html'><a href='\x0b/vt'><a href='/del\x7f'>", ""},
	{asHTML, `<a href="https://my_shop.m&uuml;nchen.example/"><a href="http://127.1/"><a href="http://ex%41mple.com/">`, ""},
	{asHTML, `<a href="http://[::1"><a href="mailto:a@b"><a href="javascript:1"><a href="http://a b/"><a href="/ok">`, "the URL standard has no space in a host, which Chromium escapes"},
	{asHTML, `<a name=x><a href><a href="#f"><a href="?q"><a href="">`, ""},
	{asHTML, `<a href=/1/../2/./3><a href=/%2e%2e/4><a href=../../../5>`, ""},
	{asHTML, "<a href='/caf\u00e9?q=\u00e9'><a href='/&eacute;&#x1F600;'>", ""},
	{asHTML, `<a href='/"q"?"q"'><a href="/'q'?'q'"><a href="/{a}|^?{a}|^">`, "the crawl escapes all that net/url escapes"},

	// XHTML.
	{asXHTML, xhtmlRoot + `<head><script src="a.js"/></head><body><a href="/after">x</a></body></html>`, ""},
	{asXHTML, xhtmlRoot + `<head><title/></head><body><textarea/><iframe src="about:blank"/><a href="/after">x</a></body></html>`, ""},
	{asXHTML, xhtmlRoot + `<body><![CDATA[ 1 > 0 <a href="/not"> ]]><a href="/after">x</a></body></html>`, ""},
	{asXHTML, xhtmlRoot + `<body><svg xmlns="http://www.w3.org/2000/svg"><title/><a href="/svg"/></svg><a href="/after"/></body></html>`, ""},
	{asXHTML, xhtmlRoot + `<body><x xmlns="urn:x"><a href="/not"/></x><a href="/after"/></body></html>`, ""},
	{asXHTML, hRoot + `<h:head><h:title/><h:base href="/b/"/></h:head><h:body><h:a href="after">x</h:a><a href="/not"/></h:body></h:html>`, ""},
	{"text/xml", hRoot + `<h:body><h:script/><h:a href="/after">x</h:a></h:body></h:html>`, ""},
	{"application/xml", hRoot + `<h:head><h:link rel="canonical" href="/canon"/></h:head><h:body><h:a h:href="/not">x</h:a></h:body></h:html>`, ""},
	{"application/xml", `<html><body><a href="/not">x</a></body></html>`, ""},
	{asXHTML, `<html><body><a href="/in">x</a></body></html>`, "a page whose type is XHTML is read though it forgets its namespace"},
	{asXHTML, xhtmlRoot + `<body><A HREF="/in">x</A></body></html>`, "names in capital letters are read: the page may have been one of HTML"},
	{asXHTML, `<html xmlns="http://www.w3.org/1999/xhtml" xmlns:s="http://www.w3.org/2000/svg" xmlns:l="http://www.w3.org/1999/xlink"><body><s:svg><s:a l:href="/svg"/></s:svg></body></html>`, ""},
	{"text/xml", `<feed xmlns="http://www.w3.org/2005/Atom"><content><div xmlns="http://www.w3.org/1999/xhtml"><a href="/not"/></div></content></feed>`, "a feed is no page: package sitemap reads it"},
	{asXHTML, xhtmlRoot + `<head><base href="/b/"/><link rel="canonical" href="c"/></head><body><a href="x"/></body></html>`, ""},

	// The base.
	{asHTML, `<a href="one">1</a><base href="https://other.example/">`, ""},
	{asHTML, `<base href="javascript:void(0)"><a href="one">1</a>`, ""},
	{asHTML, `<base href="data:,"><a href="one">1</a>`, ""},
	{asHTML, `<base href=""><base href="/b/"><a href="one">1</a>`, ""},
	{asHTML, `<base target=_top><base href="/b/"><a href="one">1</a>`, ""},
	{asHTML, `<base href="http://[::1/"><base href="/b/"><a href="one">1</a>`, "the URL of the page is the base then (HTML, section 4.2.3); Chromium has none"},
	{asHTML, `<base href="//other.example/dir/page?q"><a href="one"><a href="#f"><a href="?r">`, ""},
	{asHTML, `<svg><base href="/not/"/></svg><base href="./b/"><a href="one">1</a>`, ""},
	{asHTML, `<template><base href="/not/"></template><base href="/b/"><a href="one">1</a>`, ""},
	{asHTML, `<body><p><base href="/b/"><a href="one">1</a>`, ""},
	{asHTML, `<base href="https:///other.example\b\"><a href="one">1</a>`, ""},

	// The canonical URL.
	{asHTML, `<head><title>t</title><link rel="canonical" href="/canon"></head>`, ""},
	{asHTML, `<!doctype html><title>t</title><script>1</script><link rel=CANONICAL href=/canon>`, ""},
	{asHTML, `<head></head><body><link rel="canonical" href="/canon">`, ""},
	{asHTML, `<title>t</title><p>x<link rel="canonical" href="/canon">`, ""},
	{asHTML, `<head><svg><link rel="canonical" href="/canon">`, ""},
	{asHTML, `<head><template><link rel="canonical" href="/canon"></template></head>`, ""},
	{asHTML, `<head><link rel=canonical href=c><base href="/b/">`, ""},
	{asHTML, `<head></head> <link rel="canonical" href="/canon"><body>`, ""},

	// The charset.
	{"text/html; charset=windows-1251", cyrillic, ""},
	{"text/html;;; charset=windows-1251", cyrillic, ""},
	{"text/html; foo; charset=windows-1251", cyrillic, ""},
	{"text/html; charset=windows-1251; charset=utf-8", cyrillic, ""},
	{comma, cyrillic, ""},
	{`text/html; charset="windows-1251"`, cyrillic, ""},
	{"text/html", `<?xml version="1.0" encoding="windows-1251"?>` + cyrillic, ""},
	{asXHTML, `<?xml version="1.0" encoding="windows-1251"?>` + xhtmlRoot + "<body><a href='/\xef?q=\xef'/></body></html>", ""},
	{"text/html", "<meta charset=windows-1251>" + cyrillic, ""},
	{"text/html", "<meta http-equiv=content-type content='text/html; charset=windows-1251'>" + cyrillic, ""},
	{"text/html", "<head><!--" + strings.Repeat("x", 3000) + "--><meta charset=windows-1251>" + cyrillic, ""},
	{"text/html", "\xef\xbb\xbf<meta charset=windows-1251><a href='/\xc3\xa9?q=\xc3\xa9'>", ""},
	{"text/html; charset=nonsense", "<meta charset=windows-1251>" + cyrillic, ""},
	{"text/html; charset=Shift_JIS", "<a href='/\x83A?q=\x83A'>", ""},
	{"text/html; charset=iso-8859-1", "<a href='/\x80?q=\x80'>", ""},
	{"text/html; charset=big5", "<a href='/\xa4\xa4?q=\xa4\xa4&#x1F600;'>", ""},
	{"text/html; charset=utf-16le", "<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00/\x00\xe9\x00>\x00", ""},
	{"text/html", "<meta charset=utf-16><a href='/\xc3\xa9'>", ""},
}

// A seen is what somebody sees of a page.
type seen struct {
	Links     []string
	Base      string
	Canonical string
	Charset   string
}

// browserPage loads each page in a frame, and notes what its document says. Scripts of the pages
// don't run, as in a crawl.
const browserPage = `<!doctype html><meta charset="windows-1252"><body><script>
const all = [], most = %d
function web(raw, base) {
	try { const u = new URL(raw, base); u.hash = ""; return /^https?:/.test(u.protocol) ? u.href : "" } catch { return "" }
}
function load(i) {
	if (i == most) {
		const pre = document.createElement("pre")
		pre.textContent = "[[" + JSON.stringify(all) + "]]"
		document.body.append(pre)
		return
	}
	const frame = document.createElement("iframe")
	frame.sandbox = "allow-same-origin"
	frame.onload = () => {
		const d = frame.contentDocument, links = new Set()
		for (const a of d.links) links.add(web(a.href))
		for (const a of d.getElementsByTagNameNS("http://www.w3.org/2000/svg", "a")) links.add(web(a.href.baseVal, d.baseURI))
		links.delete("")
		const canonical = [...d.getElementsByTagNameNS("http://www.w3.org/1999/xhtml", "link")]
			.find(l => /^canonical$/i.test(l.rel) && l.closest("head"))
		all.push({Links: [...links].sort(), Base: d.baseURI, Canonical: canonical ? web(canonical.href) : "", Charset: d.characterSet.toLowerCase()})
		frame.onload = null
		frame.remove()
		load(i + 1)
	}
	frame.src = "/dir/page" + i
	document.body.append(frame)
}
load(0)
</script>`

// TestPagesAsABrowserSeesThem compares links, base, canonical URL and charset of pages with those
// of the documents that a real browser makes of them.
func TestPagesAsABrowserSeesThem(t *testing.T) {
	browser := browsertest.Find(t)
	if browser == "" {
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, browserPage, len(browserRows))
	})
	mux.HandleFunc("/dir/", func(w http.ResponseWriter, r *http.Request) {
		i, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/dir/page"))
		if err != nil || i >= len(browserRows) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", browserRows[i].contentType)
		_, _ = w.Write([]byte(browserRows[i].text))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	dom := browsertest.Look(t, browser, server.URL, "", "--virtual-time-budget=60000")
	_, dom, _ = strings.Cut(dom, "<pre>[[")
	dom, _, found := strings.Cut(dom, "]]</pre>")
	if !found {
		t.Fatal("the browser hasn't loaded all pages")
	}
	var documents []seen
	if err := json.Unmarshal([]byte(html.UnescapeString(dom)), &documents); err != nil {
		t.Fatal(err)
	}
	for i, row := range browserRows {
		want := documents[i]
		got := read(t, fmt.Sprintf("%s/dir/page%d", server.URL, i), &row)
		if isSame := reflect.DeepEqual(got, want); isSame != (row.differs == "") {
			t.Errorf("%s: %q\n  ours      %+v\n  browser's %+v\n  differs: %s", row.contentType, row.text, got, want, cmp.Or(row.differs, "no"))
		}
	}
}

// read returns what a crawl sees of a page.
func read(t *testing.T, pageURL string, row *browserRow) seen {
	t.Helper()
	p := &Page{
		FinalURL: pageURL,
		Body:     []byte(row.text),
		Response: &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {row.contentType}}},
	}
	kind := mediatype.OfPage([]string{row.contentType})
	p.readHTML(t.Context(), "bot", kind)
	s := seen{Links: []string{}, Base: pageURL, Canonical: p.Canonical, Charset: encodingOf(p.Body, kind)}
	if p.refs != nil && p.refs.base != nil {
		s.Base = p.refs.base.String()
	}
	for _, l := range p.Links {
		if l.Element == "a" || l.Element == "area" {
			s.Links = append(s.Links, l.URL)
		}
	}
	slices.Sort(s.Links)
	return s
}
