package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/cmd/politeness/internal/printable"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sitemap"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/revisit"
)

const crawlUsage = `Usage: politeness crawl -agent UA [flags] URL...

Crawls politely from these URLs, and writes a line of JSON for each page.

  -agent UA       User-Agent: name, version, contact (default: USER_AGENT)
  -n              print what the crawl would do; fetches only robots.txt

Which pages:
  -urls FILE      more start URLs, one a line; "-" is standard input
  -follow HOW     host (default), name (all its ports), site, all or none
  -depth N        links from a start URL, at most; 0: the start URLs only
  -include RE     follow only links that match (regexp of URLs)
  -exclude RE     follow no link that matches
  -sitemaps       begin with the pages in the sites' sitemaps, too
  -depth-first    follow the links of a page before other pages of its host
  -traps HOW      filters and calendars without end: "last" (default) fetches
                  them last, "left" not at all, "ignored" as they come
  -header FIELD   send 'Name: value' with each page, to the sites of start URLs
  -purpose LIST   train, ground, search: leave out pages that sites reserve

Output:
  -o FILE         append to FILE instead of standard output
  -body           write the bodies of pages, too
  -urls-only      write a URL a line instead of JSON
  -failed FILE    append each URL that wasn't visited, with the reason
  -evidence FILE  append every decision, for politeness audit
  -q              no progress
  -status ADDR    serve a page with the state of the crawl: localhost:6060

Again:
  -every D        fetch pages again: 1d is each day, 1h-30d is as often
                  as a page changes; needs -state
  -watch          don't end: wait for the next due page; Ctrl-C ends it
  -source URL     read this sitemap or feed, too; may be repeated
  -ignore-text R  text that doesn't count in comparisons (regexp)
  -ignore-fresh   fetch even if the site calls its response fresh

How fast, how long:
  -preset NAME    audit, conservative, bulk or responsive
  -delay D        time between two requests to a host
  -per-host N     most concurrent requests to a host
  -max-wait D     longest wait of a request for its host
  -limit-rate N   bytes of pages a second, all together: 5000, 200k or 1.5m
  -tries N        tries of a URL, default 5
  -pages N        stop after N pages
  -time D         stop after D
  -state DIR      continue where the last run ended, even if it was killed
  -wait-state D   wait for another run that uses -state; 0 (default): end

For your own networks and sites:
  -private        fetch from private addresses, too
  -dangerously-ignore-robots

  politeness crawl -agent "MyBot/1.0 (me@example.com)" -n https://example.com/

Exit status: 0 finished, 1 no page was fetched or the crawl was stopped,
2 error, 4 another run uses -state.
`

var follows = map[string]func(*crawl.Page, crawl.Link) bool{
	"none": nil, "host": crawl.SameHost, "name": crawl.SameName, "site": crawl.SameSite, "all": crawl.Everywhere,
}

var trapsOf = map[string]crawl.Traps{"last": crawl.TrapsLast, "left": crawl.TrapsLeft, "ignored": crawl.TrapsIgnored}

// A line is what crawl writes for each page.
type line struct {
	Change   string    `json:"change,omitempty"` // with -every
	URL      string    `json:"url"`
	FinalURL string    `json:"finalUrl,omitempty"` // if it isn't URL
	Time     time.Time `json:"time"`

	Since *time.Time `json:"since,omitempty"` // the visit before, with -every
	To    string     `json:"to,omitempty"`    // where a page has moved

	Status      int      `json:"status"`
	ContentType string   `json:"contentType,omitempty"`
	Bytes       int      `json:"bytes"`
	Truncated   bool     `json:"truncated,omitempty"`
	Depth       int      `json:"depth"`
	Data        string   `json:"data,omitempty"` // crawl.Request.Data
	Canonical   string   `json:"canonical,omitempty"`
	Directives  string   `json:"directives,omitempty"`
	Preferences string   `json:"preferences,omitempty"`
	Links       []string `json:"links,omitempty"`
	Body        *string  `json:"body,omitempty"`
	BodyBase64  []byte   `json:"bodyBase64,omitempty"` // instead of Body, if that isn't UTF-8
}

// A crawlCommand is what the command line of a crawl asks for.
type crawlCommand struct {
	policy                       policy
	typed                        []string // URLs of the command line
	list, out, failed            string   // names of files
	status                       string   // address of the status page; empty: none
	follow                       func(*crawl.Page, crawl.Link) bool
	depth                        int // as crawl.Config has it
	tries                        int
	dry, quiet, sitemaps, bodies bool
	urlsOnly, depthFirst         bool
	traps                        crawl.Traps
	headers                      headers
	within                       scope
	waitState                    time.Duration
	rate                         byteRate
	every                        every
	urls                         *frontier // those of -state; nil without it
	polls                        *polls    // of -every with sitemaps or feeds; nil without
}

func parseCrawl(args []string) (*crawlCommand, error) {
	var c crawlCommand
	flags := flag.NewFlagSet("crawl", flag.ContinueOnError)
	c.policy.register(flags)
	flags.BoolVar(&c.dry, "n", false, "")
	flags.StringVar(&c.out, "o", "", "")
	flags.BoolVar(&c.quiet, "q", false, "")
	how := flags.String("follow", "host", "")
	flags.IntVar(&c.depth, "depth", 0, "")
	flags.IntVar(&c.tries, "tries", 5, "")
	flags.BoolVar(&c.sitemaps, "sitemaps", false, "")
	flags.BoolVar(&c.bodies, "body", false, "")
	flags.BoolVar(&c.urlsOnly, "urls-only", false, "")
	flags.BoolVar(&c.depthFirst, "depth-first", false, "")
	traps := flags.String("traps", "last", "")
	flags.Var(&c.headers, "header", "")
	flags.StringVar(&c.list, "urls", "", "")
	flags.StringVar(&c.failed, "failed", "", "")
	flags.StringVar(&c.status, "status", "", "")
	flags.Var(&c.within.include, "include", "")
	flags.Var(&c.within.exclude, "exclude", "")
	flags.Var(&c.rate, "limit-rate", "")
	flags.Var(&c.every, "every", "")
	flags.BoolVar(&c.every.watch, "watch", false, "")
	flags.Var(&c.every.sources, "source", "")
	flags.Var(&c.every.ignore, "ignore-text", "")
	flags.BoolVar(&c.every.ignoreWord, "ignore-fresh", false, "")
	flags.DurationVar(&c.waitState, "wait-state", 0, "")
	typed, err := parse(flags, args, "URL")
	if err != nil {
		return nil, err
	}
	c.typed = typed
	follow, ok := follows[*how]
	isTraps := false
	c.traps, isTraps = trapsOf[*traps]
	switch {
	case !isTraps:
		return nil, misused("-traps is last, left or ignored, not %q", *traps)
	case !ok:
		return nil, misused("-follow is none, host, name, site or all, not %q", *how)
	case c.depth < 0:
		return nil, misused("-depth is negative")
	case c.tries < 1:
		return nil, misused("-tries is at least 1")
	case c.waitState < 0:
		return nil, misused("-wait-state is negative")
	case c.waitState > 0 && c.policy.state == "":
		return nil, misused("-wait-state is for a -state that another run uses, and there is none")
	case c.urlsOnly && c.bodies:
		return nil, misused("-urls-only writes no bodies: leave out -body")
	case c.mixesEvidence():
		return nil, misused("-evidence needs its own file, because other lines would spoil the proof")
	}
	if err := c.every.check(c.policy.state); err != nil {
		return nil, err
	}
	c.follow = c.within.follow(follow)
	if c.depth == 0 && isSet(flags, "depth") {
		c.depth = -1 // the start URLs only
	}
	return &c, nil
}

// mixesEvidence reports whether the evidence goes into the same file as something else.
func (c *crawlCommand) mixesEvidence() bool {
	if c.policy.evidence == "" {
		return false
	}
	return slices.ContainsFunc([]string{c.out, c.failed}, func(name string) bool {
		return name != "" && filepath.Clean(name) == filepath.Clean(c.policy.evidence)
	})
}

func runCrawl(ctx context.Context, sh *shell, args []string) (int, error) {
	c, err := parseCrawl(args)
	if err != nil {
		return 0, err
	}
	ended := sh.reading(ctx)
	urls, err := startURLs(sh, c.typed, c.list)
	ended()
	if err != nil {
		return 0, err
	}
	if _, err := os.Stat(c.policy.state); c.dry && errors.Is(err, fs.ErrNotExist) {
		c.policy.state = "" // nothing is known there, and -n makes no directory
	}
	cfg, err := c.policy.config(c.policy.reach(c.typed)) // a list may be a stranger's
	if err != nil {
		return 0, err
	}
	cfg.Response.CheckIndexing = true
	cfg.Retry = politeness.Retry{} // the crawl itself comes back to a page: the two would multiply
	timeout := c.rate.limit(&cfg)
	if c.dry {
		status, err := rehearse(ctx, sh, cfg, urls)
		return status, errors.Join(err, c.tellDue(ctx, sh))
	}
	return c.start(ctx, sh, cfg, timeout, urls)
}

// start crawls by cfg, with the given time for a request.
func (c *crawlCommand) start(
	ctx context.Context, sh *shell, cfg politeness.Config, timeout time.Duration, urls []string,
) (status int, err error) {
	if err := c.policy.keep(); err != nil {
		return 0, err
	}
	err = c.holdState(ctx, sh, cfg)
	if errors.Is(err, politeness.ErrStateHeld) {
		fmt.Fprintf(sh.errs, "politeness crawl: -state %s: %v\n", printable.Text(c.policy.state), err)
		return exitHeld, nil
	}
	if err != nil {
		return 0, err
	}
	done, err := c.policy.record(sh, &cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, done()) }()
	notes := newNotes(sh.errs, sh.clearLine, urls)
	cfg.Evidence = evidence.Multi(notes, cfg.Evidence)
	transport, err := politeness.New(cfg)
	if err != nil {
		return 0, err
	}
	endStatus, err := serveStatus(ctx, sh, c.status, transport)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, endStatus()) }()
	pages := &writer{
		lineWriter: lineWriter{out: sh.out},
		bodies:     c.bodies,
		urlsOnly:   c.urlsOnly,
		changes:    c.every.isSet(),
		notes:      notes,
	}
	c.headers.allow(urls)
	prepare := func(r crawl.Request, req *http.Request) error {
		notes.redirected(r)
		c.headers.prepare(req)
		return c.within.prepare(r, req)
	}
	crawlCfg := crawl.Config{
		Transport: transport,
		Follow:    c.follow,
		Prepare:   prepare,
		MaxDepth:  c.depth,
		Traps:     c.traps,
		MaxPages:  c.policy.pages,
		Tries:     c.tries,
		Timeout:   timeout,
		Visit:     pages.visit,
	}
	if c.depthFirst {
		crawlCfg.Take = deepestFirst
	}
	if !c.quiet {
		notes.answers = true
		crawlCfg.Progress = c.progress(sh)
	}
	if c.sitemaps || len(c.every.sources) > 0 {
		l := &lister{
			finder:   sitemap.Finder{Transport: transport, AsRead: true},
			errs:     sh.errs,
			within:   &c.within,
			sitemaps: c.sitemaps,
			sources:  sourcesByHost(transport, urls, c.every.sources),
		}
		if c.every.isSet() {
			c.polls = newPolls(c.policy.state, sh.errs)
			l.polls = c.polls
		}
		crawlCfg.Discover = l.discover
	}
	c.every.apply(&crawlCfg)
	closed, err := c.open(ctx, sh, pages, &crawlCfg)
	defer func() { err = errors.Join(err, closed()) }()
	if err != nil {
		return 0, err
	}
	return c.crawl(ctx, sh, crawlCfg, urls, pages)
}

// progress returns a Config.Progress that speaks of flags.
func (c *crawlCommand) progress(sh *shell) func(crawl.Progress) {
	show := crawl.ProgressLine(sh.errs)
	return func(p crawl.Progress) {
		var spent *budget.Error
		switch {
		case errors.Is(p.Stopped, crawl.ErrMaxPages):
			p.Stopped = fmt.Errorf("%d pages, the most that -pages allows", c.policy.pages)
		case errors.As(p.Stopped, &spent) && spent.Limit == budget.Pages && c.policy.pages > 0:
			p.Stopped = fmt.Errorf("%d pages were fetched, the most that -pages allows", c.policy.pages)
		}
		if p.Done && c.urls != nil {
			c.countLeft(&p)
		}
		show(p)
	}
}

// countLeft makes p tell all URLs that wait for the next run: the crawl itself knows those only
// that it had lent. The next run begins with the same number.
func (c *crawlCommand) countLeft(p *crawl.Progress) {
	waiting, err := c.urls.Waiting(context.Background())
	if err != nil {
		return // the number of the crawl stays
	}
	p.Outcomes = maps.Clone(p.Outcomes)
	if p.Outcomes == nil {
		p.Outcomes = make(map[crawl.Outcome]int)
	}
	p.Outcomes[crawl.Left] = waiting
}

// deepestFirst is a Config.Take for a crawl that is depth first on each host.
func deepestFirst(_ *crawl.Page, _ crawl.Link, r *crawl.Request) bool {
	r.Priority = r.Depth
	return true
}

// open opens the files that the crawl writes to, and its queue. The function closes what was
// opened, also after an error.
func (c *crawlCommand) open(
	ctx context.Context, sh *shell, pages *writer, cfg *crawl.Config,
) (closeAll func() error, err error) {
	var opened []func() error
	closeAll = func() (err error) {
		for _, f := range slices.Backward(opened) {
			err = errors.Join(err, f())
		}
		return err
	}
	if c.out != "" {
		file, err := c.openOut()
		if err != nil {
			return closeAll, err
		}
		opened = append(opened, file.Close)
		pages.out = file
	}
	if c.failed != "" {
		misses, err := openFailures(c.failed, c.policy.state != "")
		if err != nil {
			return closeAll, err
		}
		opened = append(opened, misses.close)
		cfg.Done = misses.done
	}
	if c.every.isSet() {
		others := cfg.Done
		cfg.Done = func(res crawl.Result) {
			pages.moved(res)
			if others != nil {
				others(res)
			}
		}
	}
	if c.policy.state != "" {
		urls, err := openFrontier(ctx, c.policy.state, pages, sh.errs, c.every.isSet())
		if err != nil {
			return closeAll, err
		}
		opened = append(opened, urls.Close)
		cfg.Queue = urls
		c.urls = urls
	}
	return closeAll, nil
}

// openOut opens the file for pages.
func (c *crawlCommand) openOut() (*os.File, error) {
	if c.urlsOnly { // openLines cuts off half a line of JSON
		return os.OpenFile(c.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	return openLines(c.out)
}

// crawl runs the crawl and returns its exit status.
func (c *crawlCommand) crawl(
	ctx context.Context, sh *shell, cfg crawl.Config, urls []string, pages *writer,
) (status int, err error) {
	crawler, err := crawl.New(cfg)
	if err != nil {
		return 0, err
	}
	// The reader of the pages may go: that is an error like another.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	defer sh.stopping(ctx, "crawl", "pages that are under way are still written, for 10 s at most")()
	crawlCtx, end := context.WithCancelCause(ctx)
	defer end(nil)
	pages.end = end
	// The budget's time begins with the first page, which may have to wait.
	most := c.policy.duration
	if most > 0 {
		var cancel context.CancelFunc
		crawlCtx, cancel = context.WithTimeoutCause(crawlCtx, most, fmt.Errorf("-time, %v, is over", most))
		defer cancel()
	}
	summary, err := crawler.Run(crawlCtx, urls...)
	if err == nil && crawlCtx.Err() == nil {
		c.polls.end(ctx, summary)
	}
	if crawlCtx.Err() == nil && errors.Is(summary.Stopped, context.DeadlineExceeded) {
		fmt.Fprintf(sh.errs, "politeness crawl: -time, %v, is over before anything that is left can start\n", most)
	}
	pages.notes.show()
	lost := pages.lost()
	switch {
	case errors.Is(lost, syscall.EPIPE): // such as by "| head"
		return exitNo, nil
	case lost != nil:
		return 0, fmt.Errorf("pages are lost: %w", lost)
	case ctx.Err() != nil: // a user has stopped it
		return exitNo, nil
	case err != nil:
		return 0, err
	case c.every.isSet():
		if c.quiet && len(summary.Changes) > 0 {
			fmt.Fprintln(sh.errs, summary)
		}
		if !c.quiet && isIdle(summary) {
			c.tellNext(ctx, sh)
		}
		if !isAsked(summary) {
			return exitNo, nil
		}
	case summary.Visited() == 0:
		return exitNo, nil
	}
	return exitOK, nil
}

// isSet reports whether the flag called name was given.
func isSet(flags *flag.FlagSet, name string) bool {
	var given []string
	flags.Visit(func(f *flag.Flag) { given = append(given, f.Name) })
	return slices.Contains(given, name)
}

// rehearse says what a crawl would do.
func rehearse(ctx context.Context, sh *shell, cfg politeness.Config, urls []string) (int, error) {
	q, err := newQuestions(cfg)
	if err != nil {
		return 0, err
	}
	fmt.Fprint(sh.out, describe(cfg, q.transport.Limiter().Config()))
	var allowed, unknown bool
	for _, raw := range urls {
		fmt.Fprintln(sh.out)
		a := q.ask(ctx, raw)
		a.print(sh)
		allowed = allowed || a.Allowed
		unknown = unknown || a.Error != ""
	}
	switch {
	case allowed:
		return exitOK, nil
	case unknown:
		return exitError, nil
	}
	return exitNo, nil
}

// A lister finds what sitemaps and feeds list.
type lister struct {
	finder   sitemap.Finder
	errs     io.Writer
	within   *scope
	sitemaps bool                // those of the site are read
	sources  map[string][]string // further ones by host
	polls    *polls              // nil: all is read each time
}

// sourcesByHost returns the sources by the hosts with which they are read: their own, or the first
// one that the user has named.
func sourcesByHost(t *politeness.Transport, urls, sources []string) map[string][]string {
	hosts := make(map[string]bool)
	first := ""
	for _, url := range urls {
		if key, err := t.HostKey(url); err == nil {
			hosts[key] = true
			first = cmp.Or(first, key)
		}
	}
	byHost := make(map[string][]string)
	for _, source := range sources {
		key, err := t.HostKey(source)
		if err != nil || !hosts[key] {
			key = first
		}
		byHost[key] = append(byHost[key], source)
	}
	return byHost
}

// discover is a Config.Discover that adds what a site's sitemaps list of it.
func (l *lister) discover(ctx context.Context, url string) iter.Seq[crawl.Request] {
	return func(yield func(crawl.Request) bool) { l.list(ctx, url, yield) }
}

// entries yields what the sitemaps and feeds list that are read with the host home.
func (l *lister) entries(
	ctx context.Context, url, home string, seen *sitemap.Seen,
) iter.Seq2[sitemap.Entry, error] {
	finder := l.finder
	finder.Seen = seen
	return func(yield func(sitemap.Entry, error) bool) {
		for e, err := range finder.Read(ctx, l.further(ctx, url, home)...) {
			if !yield(e, err) {
				return
			}
		}
		if !l.sitemaps {
			return
		}
		for e, err := range finder.Pages(ctx, url) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// further returns the sources of the host home that aren't among the sitemaps of the site of url,
// or they would be read twice.
func (l *lister) further(ctx context.Context, url, home string) []string {
	sources := l.sources[home]
	if !l.sitemaps || len(sources) == 0 {
		return sources
	}
	named, err := l.finder.Transport.Sitemaps(ctx, url)
	if err != nil {
		return sources
	}
	isNamed := make(map[string]bool)
	for _, name := range named {
		if to, err := crawl.Normalize(name); err == nil {
			isNamed[to] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(sources), func(source string) bool {
		to, err := crawl.Normalize(source)
		return err == nil && isNamed[to]
	})
}

// list yields the pages of the host of a URL that its sitemaps list, until yield returns false.
func (l *lister) list(ctx context.Context, url string, yield func(crawl.Request) bool) {
	home, err := l.finder.Transport.HostKey(url)
	if err != nil {
		fmt.Fprintf(l.errs, "politeness crawl: no sitemaps of %s are read: %s\n", printable.Text(url), plain(err))
		return
	}
	elsewhere := 0
	listed := 0
	seen := l.polls.begin(ctx, url)
	for e, err := range l.entries(ctx, url, home, seen) {
		if err != nil {
			if ctx.Err() == nil {
				fmt.Fprintf(l.errs, "politeness crawl: %s\n", plain(err))
			}
			continue
		}
		if host, err := l.finder.Transport.HostKey(e.Loc); err != nil || host != home {
			elsewhere++
			continue
		}
		if to, err := crawl.Normalize(e.Loc); err == nil && !l.within.has(to) {
			l.polls.drop(url)
			continue
		}
		listed++
		if !yield(crawl.Request{URL: e.Loc, Modified: e.LastMod}) {
			break
		}
	}
	// A site without anything new has sitemaps all the same. If nothing was yielded, the crawl would
	// take it for a site without, and call rarely.
	if listed == 0 && seen != nil && seen.Unchanged() > 0 {
		yield(crawl.Request{})
	}
	if elsewhere > 0 {
		l.polls.drop(url)
		fmt.Fprintf(l.errs, "politeness crawl: the sitemaps of %s list %d pages of other hosts, which are left out\n",
			printable.Text(home), elsewhere)
	}
}

// A writer writes a line for each page.
type writer struct {
	lineWriter
	bodies   bool
	urlsOnly bool // no JSON
	changes  bool // pages alone that are new, changed or gone
	notes    *notes
	end      func(error) // ends the crawl
}

func (w *writer) visit(_ context.Context, p *crawl.Page) error {
	w.notes.had(p.URL, p.FinalURL)
	if w.changes && p.Change == "" {
		return nil
	}
	if w.writePage(p) != nil { // which is reported at the end, unless a pipe was closed
		w.end(errUnwritten)
		return errUnwritten
	}
	return nil
}

// writePage writes the line of a page.
func (w *writer) writePage(p *crawl.Page) error {
	if w.urlsOnly {
		return w.writeText(p.FinalURL)
	}
	return w.write(w.lineOf(p))
}

// lineOf returns the line of a page.
func (w *writer) lineOf(p *crawl.Page) line {
	l := line{
		Change:      string(p.Change),
		URL:         p.URL,
		FinalURL:    p.FinalURL,
		Data:        p.Data,
		Time:        time.Now().UTC(),
		Status:      p.Response.StatusCode,
		ContentType: p.Response.Header.Get("Content-Type"),
		Bytes:       len(p.Body),
		Truncated:   p.Truncated,
		Depth:       p.Depth,
		Canonical:   p.Canonical,
		Directives:  p.Directives.String(),
		Preferences: politeness.PreferencesOf(p.Response).String(),
	}
	l.setSince(p.Since)
	if l.FinalURL == l.URL {
		l.FinalURL = ""
	}
	if l.Directives == "all" { // there are none
		l.Directives = ""
	}
	for _, link := range p.Links {
		l.Links = append(l.Links, link.URL)
	}
	switch {
	case p.Change == revisit.Gone: // its text is about the server
	case w.bodies && utf8.Valid(p.Body):
		body := string(p.Body)
		l.Body = &body
	case w.bodies:
		l.BodyBase64 = p.Body
	}
	return l
}

// errUnwritten ends a crawl: without its pages it bothers the sites for nothing.
var errUnwritten = errors.New("pages can't be written")

// notes keep why the URLs that the user has named weren't fetched, and print that at the end. They
// report immediately if state can't be kept, and which response the crawl waits for while no page
// comes.
type notes struct {
	to        io.Writer
	clearLine string // as in shell

	mu   sync.Mutex
	why  map[string]string // of URLs that weren't fetched, and where they redirect; empty: not known
	lost bool

	answers  bool      // print which response the crawl waits for while no page comes
	lastPage time.Time // when the last page came
	said     time.Time // when that was last printed
}

// waitAgain is the time without a page after which notes print which response the crawl waits for.
const waitAgain = 10 * time.Second

func newNotes(to io.Writer, clearLine string, urls []string) *notes {
	n := &notes{to: to, clearLine: clearLine, why: make(map[string]string)}
	for _, raw := range urls {
		if url, err := crawl.Normalize(raw); err == nil {
			n.why[url] = ""
		}
	}
	return n
}

// Record implements evidence.Evidence.
func (n *notes) Record(_ context.Context, d evidence.Decision) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch d.Type {
	case evidence.StateLost:
		if !n.lost {
			n.lost = true
			fmt.Fprintf(n.to, "%s%v\n", n.clearLine, d)
		}
	case evidence.Waiting:
		isDue := n.lastPage.After(n.said) || d.Time.Sub(n.said) > waitAgain
		if n.answers && d.Hold == "answer" && isDue && d.Time.Sub(n.lastPage) > time.Second {
			n.said = d.Time
			fmt.Fprintf(n.to, "%swaiting for a response from %s\n", n.clearLine, printable.Text(d.URL))
		}
	case evidence.BlockedByRobots, evidence.BlockedByRule, evidence.Reserved, evidence.RobotsUnreachable,
		evidence.BudgetExceeded, evidence.SlotTimeout, evidence.ResponseRejected, evidence.Failed:
		_, typed := n.why[d.URL]
		if typed {
			n.why[d.URL] = d.String()
		}
	}
}

// had notes that the page of a URL has come, and where it was found.
func (n *notes) had(url, finalURL string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.why, url)
	delete(n.why, finalURL)
	n.lastPage = time.Now()
}

// redirected notes where a URL that the user has named redirects.
func (n *notes) redirected(r crawl.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, typed := n.why[r.Via]
	if typed && n.why[r.URL] == "" {
		n.why[r.URL] = ""
	}
}

// mostNotes is the most URLs of a list that show prints.
const mostNotes = 20

// show says why pages haven't come.
func (n *notes) show() {
	n.mu.Lock()
	defer n.mu.Unlock()
	shown := 0
	for _, url := range slices.Sorted(maps.Keys(n.why)) {
		why := n.why[url]
		if why == "" {
			continue
		}
		shown++
		if shown > mostNotes {
			fmt.Fprintln(n.to, "and further ones: -failed FILE has them all")
			return
		}
		fmt.Fprintln(n.to, why)
	}
}
