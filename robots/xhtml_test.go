package robots_test

import (
	"strings"
	"testing"

	"github.com/go-politeness/politeness/robots"
)

// TestMetaOfXHTML: in XML an element that ends itself holds nothing, so the <meta> behind it counts.
// Without a type a page with the namespace of XHTML is read in both ways.
func TestMetaOfXHTML(t *testing.T) {
	const root = `<html xmlns="http://www.w3.org/1999/xhtml"><head>`
	for page, want := range map[string]map[string]bool{ // by type: whether the page says noindex
		root + `<script src="a.js"/><meta name="robots" content="noindex"/></head>`:                    {"": true, "application/xhtml+xml": true, "text/html": false},
		root + `<title/><meta name="robots" content="noindex"/></head>`:                                {"": true, "application/xhtml+xml": true, "text/html": false},
		root + `<style/><meta name="tdm-x"/><meta name="robots" content="noindex"/></head>`:            {"": true, "application/xhtml+xml": true, "text/html": false},
		`<html><head><script src="a.js"/><meta name="robots" content="noindex"/></head>`:               {"": false, "application/xhtml+xml": true, "text/html": false},
		root + `<script><![CDATA[ "<meta name='robots' content='noindex'/>" ]]></script></head>`:       {"": false, "application/xhtml+xml": false, "text/html": false},
		root + `<svg><title/></svg><meta name="robots" content="noindex"/></head>`:                     {"": true, "application/xhtml+xml": true, "text/html": true},
		root + `<template><meta name="robots" content="noindex"/></template></head>`:                   {"": false, "application/xhtml+xml": false, "text/html": false},
		root + `<title>t</title><meta name="robots" content="noindex"/></head>`:                        {"": true, "application/xhtml+xml": true, "text/html": true},
		root + `<title>t</title></head><body><meta name="robots" content="noindex"/>`:                  {"": false, "application/xhtml+xml": false, "text/html": false},
		root + `<script>if (a</head) "</head>"</script><meta name="robots" content="noindex"/></head>`: {"": true, "text/html": true},
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
