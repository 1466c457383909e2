// Discovery finds the URLs of a site audit: it reads robots.txt for the
// crawler's own agent, falling back to *, reads the sitemaps that it names, and keeps
// the URLs that may be fetched.
//
//	go run ./examples/siteaudit/discovery         # two small sites of its own, on loopback
//	go run ./examples/siteaudit/discovery SITE... # real sites, such as https://example.com
//
// MAX_PAGES, MAX_SCAN_TIME_MINUTES and USER_AGENT change its budget and its name.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/examples/internal/sitemap"
	"github.com/go-politeness/politeness/examples/siteaudit/internal/demo"
)

const userAgent = "SiteAudit/1.0 (+https://github.com/go-politeness/politeness; bot@example.com)"

func main() {
	state := flag.String("state", "", "remember in `DIR` what hosts are owed, and robots.txt, for the next run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *state, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "discovery:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, state string, sites []string) error {
	base := reach.Base(sites)
	if len(sites) == 0 {
		for _, robots := range []demo.Robots{demo.FallBack, demo.OwnGroup} {
			site := demo.Start(robots)
			defer site.Close()
			sites = append(sites, site.URL)
		}
	}
	cfg, err := politeness.SiteAudit(userAgent).WithEnv()
	if err != nil {
		return err
	}
	cfg.Base = base
	transport, err := politeness.New(cfg.WithState(state))
	if err != nil {
		return err
	}
	d := &discovery{out: out, transport: transport, client: &http.Client{Transport: transport}}
	for _, site := range sites {
		if err := d.discover(ctx, site); err != nil {
			return err
		}
	}
	return nil
}

type discovery struct {
	out       io.Writer
	transport *politeness.Transport
	client    *http.Client
}

// discover prints what site's sitemaps list, and what of it may be fetched.
func (d *discovery) discover(ctx context.Context, site string) error {
	fmt.Fprintln(d.out, site)
	sitemaps, err := d.transport.Sitemaps(ctx, site)
	if err != nil {
		return err
	}
	if len(sitemaps) == 0 {
		sitemaps = []string{site + "/sitemap.xml", site + "/sitemap_index.xml"} // where many are
	}
	listed := d.read(ctx, sitemaps)
	for _, url := range listed {
		verdict, err := d.transport.Check(ctx, url)
		switch {
		case err != nil:
			fmt.Fprintf(d.out, "  %-40s %v\n", url, err)
		case verdict.Matched:
			fmt.Fprintf(d.out, "  %-40s allowed: %-5t  line %d, group %s, %q\n", url, verdict.Allowed, verdict.Line, verdict.Group, verdict.Rule)
		default:
			fmt.Fprintf(d.out, "  %-40s allowed: %-5t  no rule matches\n", url, verdict.Allowed)
		}
	}
	remain, err := d.transport.Filter(ctx, listed)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "%d of %d URLs remain: %q\n\n", len(remain), len(listed), remain)
	return nil
}

// most is how many sitemaps of a site are read.
const most = 100

// read returns the pages that sitemaps list, those of index files included. A
// sitemap that can't be read is told of and left out.
func (d *discovery) read(ctx context.Context, sitemaps []string) (pages []string) {
	queue := slices.Clone(sitemaps)
	for i := 0; i < len(queue) && i < most; i++ {
		if slices.Contains(queue[:i], queue[i]) {
			continue
		}
		s, err := d.fetch(ctx, queue[i])
		if err != nil {
			fmt.Fprintf(d.out, "  %v\n", err)
		}
		pages = append(pages, s.Pages...)
		queue = append(queue, s.Sitemaps...)
	}
	return pages
}

func (d *discovery) fetch(ctx context.Context, url string) (sitemap.Sitemap, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return sitemap.Sitemap{}, err
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return sitemap.Sitemap{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return sitemap.Sitemap{}, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return sitemap.Read(resp.Body)
}
