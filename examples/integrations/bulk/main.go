// Bulk crawls many sites into a table of a SQLite or DuckDB file, with the policy politeness.Bulk.
//
//	go run .                                # two small sites on loopback
//	go run . https://example.com            # the pages of its sitemaps
//	go run . -mode links https://example.com
//	go run . -mode direct URL...
//	go run . -db web.duckdb -query "SELECT url FROM candidates" -into answers
//	go run . -h                             # all flags
//
// If a run is interrupted or killed, the next run into the same table continues it. The run's URLs
// are in a file beside the database. If a run came to its end, the next one begins anew. It fetches
// only pages that are stale, with If-None-Match and If-Modified-Since.
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
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-politeness/politeness/crawl"
)

func main() {
	keepPrivate()
	o, err := parseFlags(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() {
		stop() // a second Ctrl-C ends the program at once
		fmt.Fprintln(os.Stderr, "bulk: what is under way is waited for, 10 s at most")
	})
	if err == nil && len(o.seeds) == 0 && o.db == "" {
		err = demo(ctx, os.Stdout, os.Stderr, o)
	} else if err == nil {
		err = run(ctx, os.Stdout, os.Stderr, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bulk:", err)
		os.Exit(1)
	}
}

// options are what the user chose.
type options struct {
	mode       string // one of modes
	seeds      []string
	ownMachine bool // a seed names an address of the user's own
	query      string

	db     string
	engine engine
	into   string

	agent       string
	threads     int // 0: as many as the database has
	connections int
	perHost     int
	delay       time.Duration
	backoffCap  time.Duration
	retries     int
	timeout     time.Duration
	keepAlive   bool
	proxy       *url.URL // nil: as the environment says
	compression bool
	bytes       int64
	accept      []string
	reject      []string

	depth     int
	maxPages  int
	nofollow  bool
	canonical bool
	maxAge    time.Duration

	evidence string
	state    string
}

// urlsFile returns the name of the file with the URLs that are still to be fetched.
func (o options) urlsFile() string { return o.db + "." + o.into + ".urls" }

var modes = []string{"sitemap", "links", "direct"}

// minThreads and maxThreads bound -threads.
const minThreads, maxThreads = 1, 32

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,50}$`)

// duckdbHelp is the help about DuckDB's settings.
const duckdbHelp = `
Of DuckDB's settings only threads is read (-threads 0). The others can't be: DuckDB keeps its settings
in a process, not in the file, and those of its own HTTP (http_timeout, http_retries,
http_retry_wait_ms, http_keep_alive, http_proxy) are about its own requests. Give -timeout, -retries,
-backoff-cap, -keepalive and -proxy instead.
`

const usage = `Usage: bulk [flags] [URL...]

Crawls into a database; without a URL and a -query, a few sites of its own.

`

// A rawFlags holds the flags that options has in another form.
type rawFlags struct{ engine, proxy, accept, reject string }

// parseFlags reads the command line. The error lists all that is wrong with it.
func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	var raw rawFlags
	f := flagSet(&o, &raw)
	f.SetOutput(out)
	f.Usage = func() {
		fmt.Fprint(out, usage)
		f.PrintDefaults()
		fmt.Fprint(out, duckdbHelp)
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	errs := append(o.check(), o.complete(raw, f.Args())...)
	return o, errors.Join(errs...)
}

// flagSet returns the flags, which set o and raw.
func flagSet(o *options, raw *rawFlags) *flag.FlagSet {
	f := flag.NewFlagSet("bulk", flag.ContinueOnError)
	f.StringVar(&o.mode, "mode", "",
		"where URLs come from: `sitemap`, links or direct (those given); empty: sitemap, or direct with -query")
	f.StringVar(&o.query, "query", "",
		"`SQL` on the database that returns URLs, which are added to those given; it changes nothing")
	f.StringVar(&o.db, "db", "",
		"`FILE` of the database; empty: bulk.sqlite, or a temporary one for the loopback sites")
	f.StringVar(&raw.engine, "engine", "",
		"sqlite or duckdb; empty: duckdb for a FILE.duckdb or FILE.ddb, else sqlite")
	f.StringVar(&o.into, "into", "pages",
		"`table` of the results; the URLs still to be fetched are in FILE.table.urls")
	f.StringVar(&o.agent, "agent", "BulkBot/1.0 (+https://example.com/bot; bot@example.com)", "User-Agent")
	f.IntVar(&o.threads, "threads", 0,
		"how many pages are worked on at once, 1 to 32; 0: DuckDB's threads setting, 8 for SQLite")
	f.IntVar(&o.connections, "connections", 64, "requests in flight at most, in all")
	f.IntVar(&o.perHost, "per-host", 2, "requests in flight at most, to one host")
	f.DurationVar(&o.delay, "delay", 200*time.Millisecond,
		"between two requests to a host at least; crawl-delay, slowness and refusals make it longer")
	f.DurationVar(&o.backoffCap, "backoff-cap", 10*time.Minute,
		"longest time between two tries of a page, and for which a refusal without Retry-After holds a host")
	f.IntVar(&o.retries, "retries", 5, "further tries after 429, 5xx and network errors")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second,
		"for one exchange with a server; waits for a turn don't count")
	f.BoolVar(&o.keepAlive, "keepalive", true, "use connections again")
	f.StringVar(&raw.proxy, "proxy", "", "`URL` of an HTTP or SOCKS5 proxy; empty: as the environment says")
	f.BoolVar(&o.compression, "compression", true, "ask for gzip and deflate")
	f.Int64Var(&o.bytes, "bytes", 10<<20, "largest page, decompressed; a larger one is refused")
	f.StringVar(&raw.accept, "accept", "text/*,application/xhtml+xml,application/pdf",
		"content `types` that are wanted")
	f.StringVar(&raw.reject, "reject", "text/css,text/javascript", "content `types` that are not, though accepted")
	f.IntVar(&o.depth, "depth", 3, "with -mode links: how many links away from the first page")
	f.IntVar(&o.maxPages, "max-pages", 10_000, "how many pages at most; the rest is left for the next run")
	f.BoolVar(&o.nofollow, "nofollow", true, "leave links that are marked nofollow")
	f.BoolVar(&o.canonical, "canonical", true,
		"with -mode links: a page that names another one as the canonical one gives way to it")
	f.DurationVar(&o.maxAge, "max-age", 24*time.Hour,
		"a page that was crawled longer ago is stale, unless a sitemap's lastmod or changefreq says otherwise")
	f.StringVar(&o.evidence, "evidence", "", "append the evidence log (JSON Lines) to `FILE`")
	f.StringVar(&o.state, "state", "",
		"remember in `DIR` what hosts are owed, for the next run; empty: beside the database")
	return f
}

// problems are what is wrong with the flags.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// check returns what is wrong with single flags.
func (o *options) check() []error {
	var wrong problems
	if o.mode != "" && !slices.Contains(modes, o.mode) {
		wrong.add("-mode %q is none of %s", o.mode, strings.Join(modes, ", "))
	}
	if o.threads != 0 && (o.threads < minThreads || o.threads > maxThreads) {
		wrong.add("-threads %d is not within %d and %d", o.threads, minThreads, maxThreads)
	}
	for name, value := range map[string]int64{
		"connections": int64(o.connections),
		"per-host":    int64(o.perHost),
		"delay":       int64(o.delay),
		"backoff-cap": int64(o.backoffCap),
		"timeout":     int64(o.timeout),
		"bytes":       o.bytes,
		"max-pages":   int64(o.maxPages),
	} {
		if value <= 0 {
			wrong.add("-%s must be more than 0", name)
		}
	}
	if o.depth < 0 || o.maxAge < 0 || o.retries < 0 {
		wrong.add("-depth, -max-age and -retries must not be negative")
	}
	if !tableName.MatchString(o.into) {
		wrong.add("-into %q is no name of a table such as pages: letters, digits and _", o.into)
	}
	return wrong
}

// complete sets what follows from the flags: the mode, the proxy, the seeds and the database. It
// returns what is wrong with them.
func (o *options) complete(raw rawFlags, args []string) []error {
	var wrong problems
	o.accept = list(raw.accept)
	o.reject = list(raw.reject)
	switch {
	case o.mode != "":
	case o.query != "":
		o.mode = "direct"
	default:
		o.mode = "sitemap"
	}
	if raw.proxy != "" {
		u, err := url.Parse(raw.proxy)
		if err != nil || u.Host == "" {
			wrong.add("-proxy %q is not a URL such as http://localhost:3128", raw.proxy)
		}
		o.proxy = u
	}
	for _, seed := range args {
		u, err := crawl.Normalize(seed)
		switch {
		case strings.HasPrefix(seed, "-"):
			wrong.add("%s comes too late: flags go before URLs", seed)
		case err != nil:
			wrong.add("%q is no URL of a page, such as https://example.com/: %w", seed, err)
		default:
			o.seeds = append(o.seeds, u)
		}
	}
	o.ownMachine = ownMachine(o.seeds)
	if o.db == "" && (len(o.seeds) > 0 || o.query != "") {
		o.db = "bulk.sqlite"
	}
	if o.db == "" {
		return wrong // demo has one for its own sites
	}
	var err error
	o.engine, err = engineOf(raw.engine, o.db)
	if err != nil {
		wrong = append(wrong, err)
	}
	if o.state == "" {
		o.state = o.db + ".state"
	}
	return wrong
}

func list(s string) []string {
	var all []string
	for v := range strings.SplitSeq(s, ",") {
		trimmed := strings.TrimSpace(v)
		if trimmed != "" {
			all = append(all, trimmed)
		}
	}
	return all
}

// demo crawls two sites of its own three times: by their sitemaps, the same again
// once everything is stale, and by their links.
func demo(ctx context.Context, out, errs io.Writer, o options) error {
	sites := startSites()
	defer sites.Close()
	dir, err := os.MkdirTemp("", "bulk")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.seeds = sites.URLs()
	o.ownMachine = true
	if o.db == "" {
		o.db = filepath.Join(dir, "bulk.sqlite")
		o.engine = sqlite
		o.state = filepath.Join(dir, "state")
	}

	fmt.Fprintln(out, "Two sites on loopback, by their sitemaps:")
	if err := run(ctx, out, errs, o); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nThe same again, at once: nothing is stale.")
	if err := run(ctx, out, errs, o); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nOnce more, with everything stale and one page changed:")
	sites.Change()
	o.maxAge = 0
	if err := run(ctx, out, errs, o); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nWhat is in the file:")
	if err := show(ctx, out, o); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nBy their links, two away from the first page, into another table:")
	o.into = "by_links"
	o.mode = "links"
	o.depth = 2
	return run(ctx, out, errs, o)
}
