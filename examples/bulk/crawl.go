package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
)

// A crawler is one run.
type crawler struct {
	options
	store    *store
	progress *progress

	pages *http.Client          // for what is crawled
	lists *http.Client          // for sitemaps: other types, larger files, the same turns
	ask   *politeness.Transport // that of lists
}

// crawl makes one run as o says.
func crawl(ctx context.Context, out io.Writer, o options) (err error) {
	store, err := openStore(ctx, o.db, o.batch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c := &crawler{options: o, store: store, progress: newProgress(out)}

	proof := evidence.Evidence(c.progress)
	if o.evidence != "" {
		// Appended: what the runs before did isn't forgotten, and an auditor proves each.
		f, openErr := os.OpenFile(o.evidence, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if openErr != nil {
			return openErr
		}
		log := evidence.JSONLines(f)
		defer func() { err = errors.Join(err, log.Close(), f.Close()) }()
		proof = evidence.Multi(proof, log)
	}
	if err := c.connect(proof); err != nil {
		return err
	}

	defer c.progress.end() // tells of an interrupted run, too
	level, err := c.seed(ctx)
	if err != nil {
		return err
	}
	return c.walk(ctx, level)
}

// connect makes the two clients. They share connections, turns and robots.txt.
func (c *crawler) connect(proof evidence.Evidence) error {
	cfg := politeness.Bulk(c.agent).WithState(c.state)
	cfg.Base = c.base()
	cfg.Evidence = proof
	cfg.Robots.Store = c.store
	var err error
	if cfg.Hosts, err = hostlimit.New(cfg.Limits); err != nil {
		return err
	}

	lists := cfg
	lists.Response = politeness.ResponseLimits{MaxBytes: 50 << 20} // by sitemaps.org
	if c.ask, err = politeness.New(lists); err != nil {
		return err
	}
	cfg.Response.Accept, cfg.Response.Reject = c.accept, c.reject
	pages, err := politeness.New(cfg)
	if err != nil {
		return err
	}
	c.lists, c.pages = &http.Client{Transport: c.ask}, &http.Client{Transport: pages}
	return nil
}

// seed returns the URLs to begin with.
func (c *crawler) seed(ctx context.Context) ([]string, error) {
	if c.mode != "sitemap" {
		return c.seeds, nil
	}
	var all []string
	for _, seed := range c.seeds {
		urls, err := c.discover(ctx, seed)
		if err != nil {
			return nil, err
		}
		all = append(all, urls...)
	}
	return all, nil
}

// walk crawls level after level, which is breadth first: all pages of a level are
// done before one that they link to.
func (c *crawler) walk(ctx context.Context, level []string) error {
	seen := make(map[string]bool)
	for depth := 0; len(level) > 0; depth++ {
		var batch []string
		for _, u := range level {
			if !seen[u] && len(seen) < c.maxPages {
				seen[u] = true
				batch = append(batch, u)
			}
		}
		c.progress.add(len(batch))
		level = nil
		for _, found := range c.crawlAll(ctx, byTurns(batch)) {
			if c.mode == "links" {
				level = append(level, c.next(found, depth)...)
			}
		}
		if err := errors.Join(ctx.Err(), c.store.Err()); err != nil {
			return err
		}
	}
	return nil
}

// next returns what a page at depth leads to: the page that it says it is a copy
// of, at no further distance, else its links.
func (c *crawler) next(found links, depth int) []string {
	if found.canonical != "" {
		return []string{found.canonical}
	}
	if depth >= c.depth {
		return nil
	}
	return found.pages
}

// crawlAll crawls urls and returns where they lead, in their order.
func (c *crawler) crawlAll(ctx context.Context, urls []string) []links {
	found := make([]links, len(urls))
	queue := make(chan int)
	var group sync.WaitGroup
	for range c.workers {
		group.Go(func() {
			for i := range queue {
				found[i] = c.crawlOne(ctx, urls[i])
			}
		})
	}
	for i := range urls {
		select {
		case queue <- i:
		case <-ctx.Done(): // the rest is left
		}
	}
	close(queue)
	group.Wait()
	return found
}

// byTurns orders urls so that hosts take turns: workers that wait for one host
// would keep others waiting.
func byTurns(urls []string) []string {
	var hosts []string
	queues := make(map[string][]string)
	for _, raw := range urls {
		host := raw
		if u, err := url.Parse(raw); err == nil {
			host = u.Host
		}
		if queues[host] == nil {
			hosts = append(hosts, host)
		}
		queues[host] = append(queues[host], raw)
	}
	ordered := make([]string, 0, len(urls))
	for len(ordered) < len(urls) {
		for _, host := range hosts {
			if q := queues[host]; len(q) > 0 {
				ordered, queues[host] = append(ordered, q[0]), q[1:]
			}
		}
	}
	return ordered
}

// crawlOne crawls a page unless what is known of it is fresh, stores it, and
// returns where it leads.
func (c *crawler) crawlOne(ctx context.Context, raw string) links {
	old, err := c.store.Page(ctx, raw)
	if err != nil {
		c.progress.done(outcomeFailed)
		c.store.fail(err)
		return links{}
	}
	if old != nil && !old.due(c.maxAge) {
		c.progress.done(outcomeFresh)
		return c.linksOf(old)
	}
	p, outcome := c.fetch(ctx, raw, old)
	if p == nil {
		return links{} // interrupted: the next run takes it up
	}
	c.store.Write(p)
	c.progress.done(outcome)
	return c.linksOf(p)
}

func (c *crawler) linksOf(p *page) links {
	if c.mode != "links" || p.Body == nil {
		return links{}
	}
	return findLinks(p)
}
