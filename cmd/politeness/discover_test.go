package main

import (
	"strings"
	"testing"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl/sitemap"
	"github.com/go-politeness/politeness/politenesstest"
)

// TestDiscoverSaysWhatItCannotRead: a URL without a host has no sitemaps, which isn't left unsaid.
func TestDiscoverSaysWhatItCannotRead(t *testing.T) {
	transport, err := politeness.New(politeness.Config{UserAgent: "FooBot/1.0 (+https://example.com/bot)", Base: politenesstest.NewWeb()})
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	l := &lister{finder: sitemap.Finder{Transport: transport}, errs: &errs, within: new(scope), sitemaps: true}
	for r := range l.discover(t.Context(), "http://[::1/") {
		t.Errorf("found %v", r)
	}
	if got := errs.String(); !strings.HasPrefix(got, "politeness crawl: no sitemaps of http://[::1/ are read: ") {
		t.Errorf("said %q", got)
	}
}
