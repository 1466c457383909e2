// Bulk crawls many sites into a SQLite file, with the policy politeness.Bulk.
//
//	go run .                                # two small sites of its own, on loopback, twice
//	go run . https://example.com            # what its sitemaps list
//	go run . -mode links https://example.com
//	go run . -mode direct URL...
//	go run . -h                             # all flags
//
// A second run into the same file asks only for what is stale, and by
// If-None-Match and If-Modified-Since.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	o, err := parseFlags(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err == nil && len(o.seeds) == 0 {
		err = demo(ctx, os.Stdout, o)
	} else if err == nil {
		err = crawl(ctx, os.Stdout, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bulk:", err)
		os.Exit(1)
	}
}

// options are what the user chose.
type options struct {
	mode      string // one of modes
	seeds     []string
	db        string
	agent     string
	workers   int
	timeout   time.Duration
	keepAlive bool
	proxy     *url.URL // nil: as the environment says
	depth     int
	maxPages  int
	maxAge    time.Duration
	batch     int
	accept    []string
	reject    []string
	evidence  string
	state     string
}

var modes = []string{"sitemap", "links", "direct"}

// The bounds of -workers.
const minWorkers, maxWorkers = 1, 32

// parseFlags reads the command line. The error tells all that is wrong with it.
func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	var proxy, accept, reject string
	f := flag.NewFlagSet("bulk", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.mode, "mode", "sitemap", "where URLs come from: `sitemap`, links or direct")
	f.StringVar(&o.db, "db", "", "SQLite `FILE` to write to; empty: bulk.sqlite, or a temporary one for the loopback sites")
	f.StringVar(&o.agent, "agent", "BulkBot/1.0 (+https://github.com/go-politeness/politeness; bot@example.com)", "User-Agent")
	f.IntVar(&o.workers, "workers", 8, "worker threads, 1 to 32")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "for one exchange with a server; waits for a turn don't count")
	f.BoolVar(&o.keepAlive, "keepalive", true, "use connections again")
	f.StringVar(&proxy, "proxy", "", "`URL` of an HTTP or SOCKS5 proxy; empty: as the environment says")
	f.IntVar(&o.depth, "depth", 3, "with -mode links: how many links away from the first page")
	f.IntVar(&o.maxPages, "max-pages", 10_000, "how many pages at most")
	f.DurationVar(&o.maxAge, "max-age", 24*time.Hour, "a page that was crawled longer ago is stale")
	f.IntVar(&o.batch, "batch", 100, "how many results are written at once")
	f.StringVar(&accept, "accept", "text/*,application/xhtml+xml,application/pdf", "content `types` that are wanted")
	f.StringVar(&reject, "reject", "text/css,text/javascript", "content `types` that are not, though accepted")
	f.StringVar(&o.evidence, "evidence", "", "append the evidence log (JSON Lines) to `FILE`")
	f.StringVar(&o.state, "state", "", "remember in `DIR` what hosts are owed, for the next run; robots.txt is in -db")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.accept, o.reject = list(accept), list(reject)

	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains(modes, o.mode) {
		bad("-mode %q is none of %s", o.mode, strings.Join(modes, ", "))
	}
	if o.workers < minWorkers || o.workers > maxWorkers {
		bad("-workers %d is not within %d and %d", o.workers, minWorkers, maxWorkers)
	}
	if o.timeout <= 0 {
		bad("-timeout %v is not positive", o.timeout)
	}
	if o.depth < 0 || o.maxPages < 1 || o.batch < 1 || o.maxAge < 0 {
		bad("-depth and -max-age must not be negative, -max-pages and -batch must be 1 at least")
	}
	if proxy != "" {
		u, err := url.Parse(proxy)
		if err != nil || u.Host == "" {
			bad("-proxy %q is not a URL such as http://localhost:3128", proxy)
		}
		o.proxy = u
	}
	for _, seed := range f.Args() {
		u, err := normalize(seed)
		if err != nil {
			bad("%w", err)
			continue
		}
		o.seeds = append(o.seeds, u)
	}
	if o.db == "" && len(o.seeds) > 0 {
		o.db = "bulk.sqlite"
	}
	return o, errors.Join(errs...)
}

func list(s string) []string {
	var all []string
	for v := range strings.SplitSeq(s, ",") {
		if v = strings.TrimSpace(v); v != "" {
			all = append(all, v)
		}
	}
	return all
}

// demo crawls two sites of its own three times: by their sitemaps, the same again
// once everything is stale, and by their links.
func demo(ctx context.Context, out io.Writer, o options) error {
	sites := startSites()
	defer sites.Close()
	dir, err := os.MkdirTemp("", "bulk")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.seeds = sites.URLs(); o.db == "" {
		o.db = filepath.Join(dir, "bulk.sqlite")
	}

	fmt.Fprintln(out, "Two sites on loopback, by their sitemaps:")
	if err := crawl(ctx, out, o); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nThe same again, at once: nothing is stale.")
	if err := crawl(ctx, out, o); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nOnce more, with everything stale and one page changed:")
	sites.Change()
	o.maxAge = 0
	if err := crawl(ctx, out, o); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nWhat is in the file:")
	if err := show(ctx, out, o.db); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nBy their links, two away from the first page, into another file:")
	o.db, o.mode, o.depth = filepath.Join(dir, "links.sqlite"), "links", 2
	return crawl(ctx, out, o)
}
