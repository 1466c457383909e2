package sitemap_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl/sitemap"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/revisit"
)

// A file at hand is read entry by entry.
func ExampleRead() {
	file := strings.NewReader(`<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
  <url><loc>https://example.com/</loc><lastmod>2026-11-01</lastmod><priority>1.0</priority></url>
  <url><loc>https://example.com/?a=1&amp;b=2</loc><lastmod>2026-10</lastmod></url>
  <url><loc>/relative</loc></url>
</urlset>`)
	for e, err := range sitemap.Read(file) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(e.Loc, e.Priority, e.LastMod.Format(time.DateOnly))
	}
	// Output:
	// https://example.com/ 1 2026-11-01
	// https://example.com/?a=1&b=2 0.5 2026-10-01
	// sitemap has entries without an absolute http or https URL, left out: 1, the first "/relative"
}

// A program that cron starts each day reads only the sitemaps that have changed.
func ExampleSeen() {
	web := politenesstest.NewWeb() // instead of the real one
	web.Site("https://example.com").Handle("/sitemap.xml", http.HandlerFunc(
		func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Etag", `"1"`)
			http.ServeContent(w, req, "", time.Time{}, strings.NewReader("https://example.com/one\n"))
		}))
	cfg := politeness.Config{UserAgent: "ExampleBot/1.0 (+https://example.com/bot)", Base: web}
	cfg.Hosts.Delay.Min, cfg.Hosts.Delay.Max = time.Millisecond, time.Millisecond // for the example's sake
	transport, err := politeness.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "sitemaps")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	for day := 1; day <= 2; day++ {
		seen := &sitemap.Seen{Store: revisit.Dir(dir)}
		finder := sitemap.Finder{Transport: transport, Seen: seen}
		pages := 0
		for page, err := range finder.Pages(ctx, "https://example.com/") {
			if err != nil {
				fmt.Println(err)
				continue
			}
			pages++ // store the page here
			_ = page
		}
		if err := seen.Save(ctx); err != nil {
			fmt.Println(err)
		}
		fmt.Printf("day %d: %d pages\n", day, pages)
	}
	// Output:
	// day 1: 1 pages
	// day 2: 0 pages
}

// The pages of a site, from the sitemaps that its robots.txt names.
func ExampleFinder() {
	web := politenesstest.NewWeb() // instead of the real one
	web.Site("https://example.com").
		Robots("Sitemap: https://example.com/all.xml\n").
		Page("/all.xml", "<sitemapindex><sitemap><loc>https://example.com/news.txt</loc></sitemap></sitemapindex>").
		Page("/news.txt", "https://example.com/one\nhttps://www.example.com/two\n")

	cfg := politeness.Config{UserAgent: "ExampleBot/1.0 (+https://example.com/bot)", Base: web}
	cfg.Hosts.Delay.Min, cfg.Hosts.Delay.Max = time.Millisecond, time.Millisecond // for the example's sake
	transport, err := politeness.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	finder := sitemap.Finder{Transport: transport}
	for page, err := range finder.Pages(context.Background(), "https://example.com/") {
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("page:", page.Loc)
	}
	// Output:
	// page: https://example.com/one
	// https://example.com/news.txt lists 1 page of www.example.com, left out: robots.txt there doesn't name this sitemap (if they are one site, ask for the pages of https://www.example.com/two as well)
}
