package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sitemap"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/robots"
)

// An outcome is the result of a URL.
type outcome int

const (
	outcomeStored     outcome = iota // new or changed
	outcomeUnchanged                 // 304, or the same as before
	outcomeFresh                     // not asked for: crawled lately
	outcomeNoIndex                   // fetched, but its body isn't to be kept
	outcomeMissing                   // 4xx
	outcomeRedirected                // leads to another URL, which another row has too
	outcomeRefused                   // by robots.txt, type or size
	outcomeFailed                    // 429, 5xx or no response, also after retries
	outcomeNone                      // a redirect in the middle
	outcomes
)

func (o outcome) String() string {
	return [...]string{"stored", "unchanged", "fresh", "noindex", "missing", "redirected", "refused", "failed", ""}[o]
}

// A bulk is one run.
type bulk struct {
	options
	out, errs io.Writer
	queue     *queue
	finder    sitemap.Finder
	sites     map[string]bool // hosts without www of the URLs to begin with
}

// run makes one run with the options o.
func run(ctx context.Context, out, errs io.Writer, o options) (err error) {
	store, err := openStore(ctx, o.engine, o.db, o.into)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	b := &bulk{options: o, out: out, errs: errs, sites: make(map[string]bool)}
	b.queue, err = openQueue(store, o.urlsFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.queue.Close()) }()
	if err := b.begin(ctx); err != nil {
		return err
	}

	proof := evidence.Console(errs)
	if o.evidence != "" {
		// Appended: the log keeps all runs, and an auditor proves each.
		f, openErr := os.OpenFile(o.evidence, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if openErr != nil {
			return openErr
		}
		log := evidence.JSONLines(f)
		defer func() { err = errors.Join(err, log.Close(), f.Close()) }()
		proof = evidence.Multi(proof, log)
	}
	crawler, err := b.crawler(ctx, proof)
	if err != nil {
		return err
	}
	_, err = crawler.Run(ctx, b.seeds...)
	left, finishErr := b.queue.finish(ctx)
	err = errors.Join(err, finishErr)
	if err != nil {
		return err
	}
	b.tell(left)
	if ctx.Err() != nil {
		return fmt.Errorf("the next run goes on where this one was interrupted: %w", ctx.Err())
	}
	return nil
}

// begin finds the URLs to begin with.
func (b *bulk) begin(ctx context.Context) error {
	b.queue.maxAge = b.maxAge
	b.queue.anyway = b.mode == "links"
	if b.query != "" {
		urls, err := b.queue.query(ctx, b.query)
		if err != nil {
			return err
		}
		for _, raw := range urls {
			u, err := crawl.Normalize(raw)
			if err != nil {
				fmt.Fprintf(b.errs, "bulk: %q is left out: %v\n", raw, err)
				continue
			}
			b.seeds = append(b.seeds, u)
		}
	}
	left, err := b.queue.urls.Waiting(ctx)
	switch {
	case err != nil:
		return err
	case left > 0:
		fmt.Fprintf(b.out, "%d URLs are left of the run before.\n", left)
	case len(b.seeds) == 0:
		return errors.New("there is nothing to crawl: no URLs are given, and none are left of a run before")
	}
	for _, seed := range b.seeds {
		b.sites[siteOf(seed)] = true
		if b.mode == "sitemap" {
			b.queue.starts[seed] = true
		}
	}
	return nil
}

// crawler makes the crawler, and the two Transports below it. They share connections, turns and
// robots.txt.
func (b *bulk) crawler(ctx context.Context, proof evidence.Evidence) (*crawl.Crawler, error) {
	cfg := politeness.Bulk(b.agent).WithState(b.state)
	cfg.Base = b.base()
	cfg.Evidence = proof
	cfg.Robots.Store = b.queue.store
	cfg.Hosts.Concurrency = b.perHost
	cfg.Hosts.MaxInFlight = b.connections
	cfg.Hosts.Delay.Min = b.delay
	cfg.Hosts.Delay.Max = b.delay
	cfg.Hosts.Backoff = backoff.Fibonacci{Unit: time.Second, Cap: b.backoffCap}
	cfg.Retry = politeness.Retry{Max: b.retries, Backoff: func() cenkalti.BackOff {
		return backoff.Fibonacci{Unit: time.Second, Cap: b.backoffCap}.BackOff()
	}}
	var err error
	cfg.Limiter, err = memory.New(cfg.Hosts)
	if err != nil {
		return nil, err
	}

	lists := cfg
	lists.Response = politeness.ResponseLimits{MaxBytes: 50 << 20} // by sitemaps.org
	b.finder.AsRead = true                                         // whatever a site lists
	b.finder.Transport, err = politeness.New(lists)
	if err != nil {
		return nil, err
	}
	cfg.Response.MaxBytes = b.bytes
	cfg.Response.Accept = b.accept
	cfg.Response.Reject = b.reject
	pages, err := politeness.New(cfg)
	if err != nil {
		return nil, err
	}
	threads := b.threads
	if threads == 0 {
		threads, err = b.engine.threads(ctx, b.queue.db)
	}
	if err != nil {
		return nil, err
	}
	return b.crawlerOf(pages, threads, cfg.Hosts.MaxWait)
}

// crawlerOf makes the crawler. The Transport pages leaves requests to it that would wait for more
// than longest.
func (b *bulk) crawlerOf(pages *politeness.Transport, threads int, longest time.Duration) (*crawl.Crawler, error) {
	c := crawl.Config{
		Transport:      pages,
		Client:         &http.Client{Transport: &copies{next: pages, queue: b.queue, longest: longest}},
		Visit:          b.visit,
		IgnoreNofollow: !b.nofollow,
		Canonical:      b.canonical && b.mode == "links",
		Queue:          b.queue,
		Workers:        threads,
		MaxDepth:       b.depth,
		MaxPages:       b.maxPages,
		MaxBody:        b.bytes + 1, // the Transport refuses what is longer, instead of cutting it
		Timeout:        time.Hour,   // of a request with its waits; exchangeTimeout bounds an exchange
		Tries:          1,           // the Transport repeats, as often as the flags ask for
		Progress:       crawl.ProgressLine(b.errs),
	}
	switch b.mode {
	case "links":
		c.Follow = crawl.SameHost
		if b.depth == 0 {
			c.MaxDepth = -1
		}
	case "sitemap":
		c.Discover = b.discover
	}
	return crawl.New(c)
}

// visit makes a row of a page.
func (b *bulk) visit(_ context.Context, p *crawl.Page) error {
	old := copyOf(p.Response)
	switch {
	case old == nil:
		b.queue.visited(p.FinalURL, newFetched(p))
	case old.fresh:
		b.queue.visited(p.FinalURL, &fetched{outcome: outcomeFresh})
	default:
		row := *old.page
		row.Error = ""
		row.CrawlTime = time.Now()
		row.ServerDate = old.date
		b.queue.visited(p.FinalURL, &fetched{&row, outcomeUnchanged})
	}
	return nil
}

// newFetched makes a row of a page that a server has sent.
func newFetched(p *crawl.Page) *fetched {
	header := p.Response.Header
	row := &page{
		URL:        p.FinalURL,
		SURT:       surt(p.FinalURL),
		Status:     p.Response.StatusCode,
		CrawlTime:  time.Now(),
		ServerDate: dateOf(p.Response),
		FinalURL:   p.FinalURL,
	}
	switch {
	case row.failed():
		row.Error = strings.ToValidUTF8(p.Response.Status, "?")
		return &fetched{row, outcomeFailed}
	case row.Status < 200 || row.Status > 299:
		return &fetched{row, outcomeMissing} // the truth about this URL
	}
	row.ContentType = text(header, "Content-Type")
	row.ETag = text(header, "Etag")
	row.LastModified = text(header, "Last-Modified")
	if p.Directives != (robots.Directives{}) {
		row.Directives = p.Directives.String()
	}
	if p.Directives.NoIndexAt(time.Now()) {
		return &fetched{row, outcomeNoIndex} // its body isn't kept
	}
	sum := sha256.Sum256(p.Body)
	row.Hash = hex.EncodeToString(sum[:])
	row.Body = p.Body
	if row.Body == nil {
		row.Body = []byte{} // an empty page, which is something
	}
	if hashOf(p.Response) == row.Hash {
		return &fetched{row, outcomeUnchanged}
	}
	return &fetched{row, outcomeStored}
}

// text is a header field as a database takes it.
func text(h http.Header, name string) string { return strings.ToValidUTF8(h.Get(name), "?") }

// dateOf is the time of an answer by the clock of its server; zero if it has no Date.
func dateOf(resp *http.Response) time.Time {
	t, _ := http.ParseTime(resp.Header.Get("Date"))
	return t
}

// discover yields the pages of the host of rawURL that its sitemaps list and that are due: pages
// that are fresh by the sitemap needn't be fetched. Hosts that a page was moved to are left alone,
// but for one that differs by www from a host to begin with.
func (b *bulk) discover(ctx context.Context, rawURL string) iter.Seq[crawl.Request] {
	site := siteOf(rawURL)
	if !b.sites[site] {
		return nil
	}
	return func(yield func(crawl.Request) bool) { b.listed(ctx, rawURL, site, yield) }
}

// listed yields the pages of the site of rawURL for discover.
func (b *bulk) listed(ctx context.Context, rawURL, site string, yield func(crawl.Request) bool) {
	elsewhere := 0
	var listed []sitemap.Entry // under their normal URLs
	defer func() {
		if err := b.queue.discovered(ctx, listed); err != nil {
			fmt.Fprintln(b.errs, "bulk:", err)
		}
	}()
	for e, err := range b.finder.Pages(ctx, rawURL) {
		if err != nil {
			if ctx.Err() == nil {
				fmt.Fprintln(b.errs, "bulk:", err)
			}
			continue
		}
		u, err := crawl.Normalize(e.Loc)
		if err != nil || siteOf(u) != site {
			elsewhere++
			continue
		}
		entry := e
		entry.Loc = u
		listed = append(listed, entry)
		if len(listed) == manyListed {
			if err := b.queue.discovered(ctx, listed); err != nil {
				fmt.Fprintln(b.errs, "bulk:", err)
			}
			listed = listed[:0]
		}
		due, err := b.isDue(ctx, u, e)
		if err != nil {
			fmt.Fprintln(b.errs, "bulk:", err)
			return
		}
		if due && !yield(crawl.Request{URL: u}) {
			return
		}
	}
	if elsewhere > 0 {
		fmt.Fprintf(b.errs, "bulk: the sitemaps of %s list %d pages of other sites, which are left out\n",
			site, elsewhere)
	}
}

// manyListed is how many pages of sitemaps are written to the database at once.
const manyListed = 10_000

// isDue reports whether a page is to be fetched, by its sitemap. If the sitemap has no date for the
// page, -max-age decides.
func (b *bulk) isDue(ctx context.Context, url string, e sitemap.Entry) (bool, error) {
	now := time.Now()
	if e.ChangeFreq == "" && (e.LastMod.IsZero() || e.LastMod.After(now)) {
		return true, nil
	}
	old, err := b.queue.last(ctx, url)
	if err != nil || old == nil || old.failed() {
		return true, err
	}
	if !e.Stale(old.CrawlTime, now) {
		b.queue.count(outcomeFresh, 1)
		return false, nil
	}
	b.queue.mark(url)
	return true, nil
}

// tell prints the outcomes of the URLs.
func (b *bulk) tell(left int) {
	total := 0
	var parts []string
	for o, n := range b.queue.counts {
		if outcome(o) == outcomeNone || n == 0 {
			continue
		}
		total += n
		parts = append(parts, fmt.Sprintf("%d %s", n, outcome(o)))
	}
	if total > 0 {
		fmt.Fprintf(b.out, "%d URLs: %s; see table %s of %s\n", total, strings.Join(parts, ", "), b.into, b.db)
	}
	if left > 0 {
		fmt.Fprintf(b.out, "%d URLs are left for the next run.\n", left)
	}
}

// siteOf is the host of a URL with its port, without www.
func siteOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(u.Host, "www.")
}
