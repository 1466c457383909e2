package robots_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/robots"
)

// TestMetaOfXHTML: in XML an element that ends itself holds nothing, so the <meta> behind it counts.
// Without a type a page with the namespace of XHTML is read in both ways.
func TestMetaOfXHTML(t *testing.T) {
	const root = `<html xmlns="http://www.w3.org/1999/xhtml"><head>`
	for page, want := range map[string]map[string]bool{ // by type: whether the page says noindex
		root + `<script src="a.js"/><meta name="robots" content="noindex"/></head>`:                                           {"": true, "application/xhtml+xml": true, "text/html": false},
		root + `<title/><meta name="robots" content="noindex"/></head>`:                                                       {"": true, "application/xhtml+xml": true, "text/html": false},
		root + `<style/><meta name="tdm-x"/><meta name="robots" content="noindex"/></head>`:                                   {"": true, "application/xhtml+xml": true, "text/html": false},
		`<html><head><script src="a.js"/><meta name="robots" content="noindex"/></head>`:                                      {"": false, "application/xhtml+xml": true, "text/html": false},
		root + `<script><![CDATA[ "<meta name='robots' content='noindex'/>" ]]></script></head>`:                              {"": false, "application/xhtml+xml": false, "text/html": false},
		root + `<svg><title/></svg><meta name="robots" content="noindex"/></head>`:                                            {"": true, "application/xhtml+xml": true, "text/html": true},
		root + `<template><meta name="robots" content="noindex"/></template></head>`:                                          {"": false, "application/xhtml+xml": false, "text/html": false},
		root + `<title>t</title><meta name="robots" content="noindex"/></head>`:                                               {"": true, "application/xhtml+xml": true, "text/html": true},
		root + `<title>t</title></head><body><meta name="robots" content="noindex"/>`:                                         {"": false, "application/xhtml+xml": false, "text/html": false},
		root + `<script>if (a</head) "</head>"</script><meta name="robots" content="noindex"/></head>`:                        {"": true, "text/html": true},
		`<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:head><h:title/><h:meta name="robots" content="noindex"/></h:head>`: {"": true, "application/xhtml+xml": true, "text/xml": true, "text/html": false},
		`<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:head></h:head><h:meta name="robots" content="noindex"/>`:           {"": false, "application/xhtml+xml": false, "application/xml": false},
		`<html xmlns="http://www.w3.org/1999/xhtml" xmlns:h="urn:x"><head><h:meta name="robots" content="noindex"/></head>`:   {"": false, "application/xhtml+xml": false, "application/xml": false},
		root + `<title/><meta name="robots" content="noindex"/></head>` + "\n":                                                {"": true, "application/xml": true, "image/svg+xml": true},
		`<rss><channel><meta name="robots" content="noindex"/></channel></rss>`:                                               {"text/xml": false, "application/rss+xml": false, "": true},
	} {
		for mediaType, noIndex := range want {
			s := robots.NewMetaScanner("FooBot")
			if mediaType != "" {
				s.SetType(mediaType)
			}
			for _, piece := range strings.SplitAfter(page, ">") {
				_, _ = s.Write([]byte(piece))
			}
			if got := s.Directives().NoIndex; got != noIndex {
				t.Errorf("%q: noindex is %t\n%s", mediaType, got, page)
			}
		}
		d, err := robots.ReadMeta(strings.NewReader(page), "FooBot")
		if d.NoIndex != want[""] || err != nil {
			t.Errorf("ReadMeta: noindex is %t, %v\n%s", d.NoIndex, err, page)
		}
	}
}

// TestMetaScannerIsDoneBehindTheHead, whatever its prefix, and however the page is cut in pieces.
func TestMetaScannerIsDoneBehindTheHead(t *testing.T) {
	for _, page := range []string{
		`<html xmlns="http://www.w3.org/1999/xhtml"><head><meta name="robots" content="noindex"/></head>`,
		`<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:head><h:meta name="robots" content="noindex"/></h:head>`,
		`<x-y.z:html xmlns:x-y.z="http://www.w3.org/1999/xhtml"><x-y.z:head><x-y.z:meta name="robots" content="noindex"/></x-y.z:head	>`,
	} {
		for size := 1; size <= len(page); size++ {
			s := robots.NewMetaScanner("FooBot")
			s.SetType("application/xml")
			for piece := range slices.Chunk([]byte(page), size) {
				_, _ = s.Write(piece)
			}
			if !s.Done() || !s.Directives().NoIndex {
				t.Errorf("pieces of %d bytes: done %t, %v\n%s", size, s.Done(), s.Directives(), page)
			}
		}
	}
}

// TestMetaScannerAdd: a <meta> that the caller has found counts as one that was written.
func TestMetaScannerAdd(t *testing.T) {
	s := robots.NewMetaScanner("FooBot")
	s.Add(" ROBOTS ", "noindex")
	s.Add("foobot", "nofollow")
	s.Add("otherbot", "none")
	s.Add("tdm-reservation", "1")
	if d := s.Directives(); !d.NoIndex || !d.NoFollow || d.NoArchive {
		t.Errorf("directives %v", d)
	}
	if _, refused := s.Preferences().Refused([]robots.Purpose{robots.Train}); !refused {
		t.Errorf("preferences %v", s.Preferences())
	}
	_, _ = s.Write([]byte("<head><meta name=robots content=noarchive></head>"))
	if d := s.Directives(); !s.Done() || !d.NoIndex || !d.NoArchive {
		t.Errorf("directives %v", d)
	}
}
