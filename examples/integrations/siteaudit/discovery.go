package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sitemap"
)

const (
	maxSitemaps = 100 // of a site that are read
	maxTold     = 20  // disallowed URLs of a site that are printed
	batch       = 500 // URLs that are written at once
)

// A discovery finds the URLs of an audit.
type discovery struct {
	out     io.Writer
	log     io.Writer
	store   *store
	auditor *auditor
	max     int64 // most URLs in the database; 0: any number

	// Of this site.
	listed  int
	allowed int
	told    int // disallowed URLs that were printed, or left out
	added   int
	found   []crawl.Request // not written yet
	source  string
	visited map[string]bool
}

// errFull ends a discovery that has found enough.
var errFull = errors.New("MAX_PAGES URLs are in the database")

// discover writes the URLs of sites that may be fetched to the database.
func discover(ctx context.Context, out io.Writer, o options, sites []string) (err error) {
	s, err := openStore(ctx, o.db, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.sites(ctx, sites); err != nil {
		return err
	}
	id, err := s.id(ctx)
	if err != nil {
		return err
	}
	// The worker spends the pages of the audit. Discovery gets as many pages again, for its crawl,
	// and more for the sitemaps.
	a, err := newAuditor(ctx, o, id+"-discovery", func(cfg *politeness.Config) {
		if cfg.Spend.Pages > 0 {
			cfg.Spend.Pages += int64(maxSitemaps * len(sites))
		}
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	known, err := count(ctx, s.db)
	if err != nil {
		return err
	}
	for _, site := range sites {
		d := &discovery{out: out, log: o.log, store: s, auditor: a, max: a.spend.Pages}
		if err := d.site(ctx, site); err != nil && !errors.Is(err, errFull) {
			return fmt.Errorf("%s: %w", site, err)
		}
	}
	n, err := count(ctx, s.db)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d URLs in %s, %d of them new.\n", n, o.db, n-known)
	if n == 0 {
		return errors.New("nothing was found that may be fetched")
	}
	return ctx.Err()
}

// site finds the URLs of one site: in its sitemaps, else by its links.
func (d *discovery) site(ctx context.Context, site string) error {
	start, err := crawl.Normalize(site)
	if err != nil {
		return err
	}
	err = d.sitemaps(ctx, start)
	if err == nil && d.listed == 0 {
		err = d.crawl(ctx, start)
	}
	if err == nil {
		err = d.flush(ctx)
	}
	fmt.Fprintf(d.out, "%s: %d of %d URLs remain, %d of them new (from %s)\n",
		start, d.allowed, d.listed, d.added, d.source)
	return err
}

// sitemaps takes in the pages that the site's sitemaps list.
func (d *discovery) sitemaps(ctx context.Context, site string) error {
	d.source = "sitemap"
	finder := sitemap.Finder{Transport: d.auditor.Transport, MaxFiles: maxSitemaps}
	for page, err := range finder.Pages(ctx, site) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(d.out, "  %v\n", err)
			continue
		}
		if err := d.take(ctx, page.Loc); err != nil {
			return err
		}
	}
	return nil
}

// crawl takes in the pages of the site and what they link to on it, until there are enough.
func (d *discovery) crawl(ctx context.Context, site string) error {
	d.source = "crawl"
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c, err := crawl.New(crawl.Config{
		Transport: d.auditor.Transport,
		Follow:    crawl.SameHost,
		Progress:  crawl.ProgressLine(d.log),
		Workers:   1, // because take isn't safe for concurrent use
		MaxPages:  int(d.max),
		Visit: func(ctx context.Context, p *crawl.Page) error {
			err := d.visit(ctx, p)
			if err != nil {
				stop(err)
			}
			return err
		},
	})
	if err != nil {
		return err
	}
	summary, err := c.Run(ctx, site)
	cause := context.Cause(ctx)
	if cause != nil {
		return cause
	}
	if summary.Visited() == 0 {
		fmt.Fprintf(d.out, "  no page answered: %v\n", summary)
	}
	return err
}

// visit takes in a page and what it links to on its site.
func (d *discovery) visit(ctx context.Context, p *crawl.Page) error {
	if p.Response.StatusCode != http.StatusOK {
		return nil
	}
	urls := []string{p.FinalURL}
	for _, link := range p.Links {
		if !link.Nofollow && !p.Directives.NoFollow && crawl.SameHost(p, link) {
			urls = append(urls, link.URL)
		}
	}
	for _, url := range urls {
		if err := d.take(ctx, url); err != nil {
			return err
		}
	}
	return nil
}

// take takes in a URL if robots.txt allows it and it hasn't been taken in before.
func (d *discovery) take(ctx context.Context, rawURL string) error {
	url, err := crawl.Normalize(rawURL)
	if err != nil {
		fmt.Fprintf(d.out, "  %q: %v\n", rawURL, err)
		return nil
	}
	if d.visited == nil {
		d.visited = make(map[string]bool)
	}
	if d.visited[url] {
		return nil
	}
	d.visited[url] = true
	d.listed++
	verdict, err := d.auditor.Check(ctx, url)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Fprintf(d.out, "  %-40s %v\n", url, err)
		return nil
	}
	if !verdict.Allowed {
		d.told++
		if d.told <= maxTold {
			fmt.Fprintf(d.out, "  %-40s disallowed: line %d, group %s, %q\n",
				url, verdict.Line, verdict.Group, verdict.Rule)
		}
		return nil
	}
	host, err := d.auditor.HostKey(url)
	if err != nil {
		return err
	}
	d.allowed++
	d.found = append(d.found, crawl.Request{URL: url, Host: host})
	if len(d.found) < batch && (d.max == 0 || int64(len(d.found)) < d.max) {
		return nil
	}
	return d.flush(ctx)
}

// flush writes what was found. It returns errFull if there is no room for more.
func (d *discovery) flush(ctx context.Context) error {
	got, err := d.store.insert(ctx, d.source, d.found, d.max)
	d.added += got.added
	d.found = nil
	if err == nil && !got.room {
		return errFull
	}
	return err
}
