package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-politeness/politeness/examples/internal/sitemap"
)

// maxSitemaps is how many sitemaps of one site are read.
const maxSitemaps = 500

// discover returns the pages of seed's host that its sitemaps list: those that
// robots.txt names, else those in the usual places. Without any it returns seed.
func (c *crawler) discover(ctx context.Context, seed string) ([]string, error) {
	origin, err := url.Parse(seed)
	if err != nil {
		return nil, err
	}
	queue, err := c.ask.Sitemaps(ctx, seed)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		c.progress.say("%v", err)
	}
	if len(queue) == 0 {
		for _, path := range []string{"/sitemap.xml", "/sitemap_index.xml"} {
			queue = append(queue, origin.ResolveReference(&url.URL{Path: path}).String())
		}
	}
	var pages []string
	read := make(map[string]bool)
	for ; len(queue) > 0 && len(read) < maxSitemaps && len(pages) < c.maxPages; queue = queue[1:] {
		if read[queue[0]] {
			continue
		}
		read[queue[0]] = true
		s, err := c.readSitemap(ctx, queue[0])
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			c.progress.say("%v", err)
		}
		queue = append(queue, s.Sitemaps...)
		for _, raw := range s.Pages {
			// A sitemap speaks for its own host only.
			if u, err := normalize(raw); err == nil && hostOf(u) == origin.Host {
				pages = append(pages, u)
			}
		}
	}
	if len(pages) == 0 {
		return []string{seed}, nil
	}
	return pages, nil
}

func (c *crawler) readSitemap(ctx context.Context, raw string) (sitemap.Sitemap, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, raw, nil)
	if err != nil {
		return sitemap.Sitemap{}, err
	}
	resp, err := c.lists.Do(req)
	if err != nil {
		return sitemap.Sitemap{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return sitemap.Sitemap{}, fmt.Errorf("%s: %w", raw, errors.New(resp.Status))
	}
	s, err := sitemap.Read(resp.Body)
	if err != nil {
		err = fmt.Errorf("%s: %w", raw, err)
	}
	return s, err
}
