// Package crawl is a crawler on top of politeness. It fetches URLs through a politeness.Transport,
// calls your function with each page, and follows the links that you select.
//
//	summary, err := crawl.Run(ctx, crawl.Config{
//		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
//		Follow:    crawl.SameHost,
//		Visit: func(ctx context.Context, p *crawl.Page) error {
//			fmt.Println(p.Response.StatusCode, p.FinalURL, len(p.Body))
//			return nil
//		},
//	}, "https://example.com/")
//
// To set more, such as limits or evidence, make a politeness.Transport, and give it to
// Config.Transport.
//
// No host stops a crawl. Each host is visited when its next request may start. So nothing else
// waits for a host that is blocked, paced or slow. The robots.txt of the next hosts is fetched
// ahead. The number of connections (hostlimit.Config.MaxInFlight) and memory bound a crawl. Workers
// limits the number of concurrent visits.
//
// A host may have two origins, such as one with http and one with https. If the robots.txt of one
// can't be fetched, the URLs of the other one are fetched meanwhile.
//
// Terms:
//
//   - A host key is the name by which a host is counted (politeness.Transport.HostKey).
//   - A URL that waits in the Queue is waiting. A URL that the Queue has given to a process is
//     lent. A URL with an outcome is done. A URL that is still to be fetched when a crawl ends is
//     left.
//   - With Config.Revisit a done URL becomes due when it is to be fetched again. A hint is the news
//     of a sitemap or feed that a page was modified.
//   - A URL that looks like one of a trap is postponed. Its mark stands for the reason.
//   - A URL that one of your own rules refuses is set aside.
//
// # How pages are read
//
// URLs and pages are read as browsers read them:
//
//   - Links are a, area, link rel="next", meta http-equiv="refresh", frame and iframe, also in
//     noscript. Relative links are relative to the first base with a href, or else to the page.
//   - URLs follow the URL standard, in links, redirects, headers, sitemaps and start URLs. So
//     https:///example.com/a and \\example.com\a can be fetched. A URL that browsers can't read is
//     Invalid. A link to another scheme, such as mailto:, isn't a page.
//   - Three things differ from browsers. The crawl accepts the zone of an IPv6 address. It removes
//     the final dot of a name. It replaces a single % by %25.
//   - SVG, MathML and XHTML are read with their namespaces. Other XML is a page if its outermost
//     element is an XHTML element. The content of a template is ignored.
//   - If several links of a page lead to one URL, the first one without nofollow counts. A canonical
//     URL counts only in the head.
//   - The charset is taken from the Content-Type, the XML declaration or a meta in the head. In a
//     legacy charset, paths are encoded in UTF-8 and queries in the charset.
//   - gzip, x-gzip and both forms of deflate are decoded, also in combination and with damaged
//     trailers. If the data ends early, Page.Truncated is set. If the body has a coding that wasn't
//     requested, such as br, the URL is Failed. If Prepare sets Accept-Encoding, the body isn't
//     decoded.
package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/internal/durations"
	"github.com/go-politeness/politeness/internal/weburl"
	"github.com/go-politeness/politeness/revisit"
)

// A Config sets the way and the bounds of a crawl, and the functions that get its pages. Required
// are Visit, and either Transport or UserAgent. Every limit has a default that bounds a crawl among
// strangers.
//
// No URL is given up because of your own rules. Your own rules are politeness.Config.Refuse of the
// Transport, and a block by an operator (hostlimit.Controller) that ends later than Patience. A URL
// that a rule refuses is set aside, and costs no delay of its host. The rule is asked again each
// minute, and once before the crawl ends. A URL that passes is fetched. All others are Left. See
// Summary.Rules. Pages that are never to be fetched are the business of Follow.
type Config struct {
	// UserAgent names the crawler and its contact. Use it instead of Transport in a program with one
	// crawl and nothing else to set. New then makes a Transport for UserAgent, with the defaults of
	// package politeness. If Transport is set, UserAgent must be empty.
	UserAgent string

	// Transport decides when each URL may start, and sends the requests if Client is nil. A crawl
	// has at most as many requests in flight as MaxInFlight of its limiter allows. If that is 0, a
	// crawl has at most 4,096. If Transport is nil, set UserAgent.
	Transport *politeness.Transport

	// Client sends the requests. Set it for cookies (Jar), or to put a cache in front of the
	// Transport. Its field Transport (by default Config.Transport) must pass requests on to
	// Config.Transport with their contexts. Otherwise Run ends with an error at the first response,
	// because the crawl would be impolite. A response of a cache costs no delay. The next URL of
	// its host is fetched immediately. CheckRedirect isn't called. Redirects are separate URLs, and
	// wait for their own host. The default is a client over Transport.
	Client *http.Client

	// Visit receives each response, with any status. It receives no redirects. If a page is refused
	// several times (see Tries), Visit receives only the last refusal. A page whose status is an error
	// has no Links. Visit runs in Workers goroutines concurrently. If Visit returns an error or
	// panics, the page is VisitFailed, and the crawl continues. If the error wraps ErrRefused, the
	// page is a refusal of its host. See ErrRefused. If a function of the Config panics, package log
	// logs the panic with its stack. The ctx of Visit ends Config.Grace after the context of Run.
	Visit func(ctx context.Context, p *Page) error

	// Follow reports whether a link of a page is added to the crawl. Use SameHost, SameName, SameSite,
	// Hosts, Everywhere, or your own function. Follow is called for the target of a redirect too, with
	// the Element "redirect". It isn't called if a start URL redirects. If Follow is nil, each
	// redirect is followed, and no link. Visit can add URLs by Page.Add.
	Follow func(p *Page, l Link) bool

	// Take is called before a URL is added. Links that are marked nofollow are dropped first. Then
	// Take is called for each link, and then Follow. Take is called too for each redirect with
	// Link.Element "redirect", for a canonical URL with "link", and for each URL of Discover with
	// "discover" and a nil Page. Take may set r.Priority, r.Data and r.URL (relative to the page or
	// not), for example to remove session ids. Other fields are for reading. Follow gets the link
	// with the new URL. If Take returns false, the URL is left out. Take isn't called for start
	// URLs, nor for Page.Add. Calls come concurrently from several goroutines. If Take is nil, all
	// URLs are added as they are.
	Take func(p *Page, l Link, r *Request) bool

	// IgnoreNofollow calls Take and Follow also for links that are marked nofollow, by rel or by their
	// page.
	IgnoreNofollow bool

	// Canonical skips the visit of a page that names another URL as its canonical one. If a site
	// serves one page under many URLs, set Canonical to visit that page only once. The canonical URL
	// is added if Follow returns true for it. The canonical URL of a start URL is always added. Some
	// cases are special:
	//
	//   - A page of https isn't skipped for the same URL with http.
	//   - If two pages name each other, one is visited. If another process has one of them, both may
	//     be visited. If a Run ends between them, none is visited.
	//   - If the canonical URL redirects back to the page, the page isn't visited.
	//
	// The default is false, so that such a page is visited.
	Canonical bool

	// Prepare may set headers of a request before it is sent, such as Accept-Language, and its
	// method and body. Examples are POST for a search form, and HEAD for a link checker. It is
	// called before each try, so that each has its own body. A request that is refused is sent
	// again, up to Tries times, so don't POST anything that must not happen twice. The URL stays
	// the key, so two searches at one URL are one. If Prepare changes the URL, the URL is Failed.
	// Use Take to change it. A redirect leads to a GET, for which Prepare is called with
	// Request.Via. If Prepare returns an error, the URL is Failed. If Prepare is nil, requests are
	// sent as they are.
	Prepare func(r Request, req *http.Request) error

	// Revisit fetches pages again when they may have changed, with conditions, so that the site sends
	// only changed pages. Visit is called for new, changed and gone pages, and for a response that is
	// no version of the page, such as a 403. See Page.Change. A page that is the same is Unchanged,
	// and Visit isn't called. A page that redirects is Redirected. Pages come back in a later Run with
	// the same Queue, or in this one, see Watch. To exclude a page for ever, use Follow or Take. With
	// the zero Schedule each page is fetched once. Any other Schedule needs a Queue that is a
	// Recurring, as the default Queue is.
	Revisit revisit.Schedule

	// Watch is how long Run waits for the URL that is due next when nothing else is left to do. The
	// default is 0, so that Run ends when nothing is due. If Watch is negative, Run waits until its
	// ctx is done. Set it with Revisit only.
	Watch time.Duration

	// Compare returns the part of a page that is compared with its last version. It is called for
	// pages that were served, before Visit. If a script renders the page, or a clock is part of its
	// text, return a part of Page.Body, or of Page.Compared. The default is the visible text and
	// the targets of links and images of HTML, and otherwise the body.
	Compare func(p *Page) []byte

	// Known returns the validators of the copy of url that you have, so that the site sends the
	// page only if it has changed. If the page hasn't changed, Visit receives status 304. Known is
	// called with the URL that is fetched. If that URL is the target of a redirect, and Known
	// returns no validators for it, Known is called again with Page.URL. Use Known if a list or
	// Discover names all URLs, and Revisit otherwise. If Known and Follow are both set, New returns
	// an error, because an unchanged page has no links to follow. If Known is nil, every page is
	// sent.
	Known func(ctx context.Context, url string) (Validators, error)

	// Discover yields further URLs of a host. Use it for sitemaps. See Transport.Sitemaps, and
	// package crawl/sitemap. Discover is called once for each host, with one of its URLs, when its
	// robots.txt has been fetched. Each Request may have Priority, Data and Depth. Depth is at
	// least 1, as if a start URL linked to the URL. A nil sequence has no URL. URLs go to the Queue
	// in their order while the sequence runs, and are crawled meanwhile. If the Queue is slow,
	// yield blocks. So even a long list needs little memory. A sequence can't return an error. If a
	// source fails, report it yourself, for example in a log, and continue with the next source.
	// When the crawl stops, ctx is done, and yield returns false. If several processes share a
	// Queue, each process that gets the host calls Discover. The URL with which Discover is called
	// is done when the sequence has ended. If ctx or the process ends before that, the next Run
	// fetches that URL again, and calls Discover again. With Revisit, Discover is called again for
	// a host after Revisit.Min, before the pages of the host that are due. Then a page is due if
	// its Request.Modified is later than its visit. If a call yields nothing, the next calls come
	// more rarely. So yield the zero Request if the host has sources without anything new. It adds
	// no URL. If Discover is nil, there are no calls.
	Discover func(ctx context.Context, url string) iter.Seq[Request]

	// Done receives the result of each URL. An added URL has one result. A URL that is Invalid,
	// TooDeep, TooLong or EnoughOfHost has one each time that it is found. Those that are Duplicate,
	// TooMany or without room are counted only. Calls come one at a time. Each comes after the Queue
	// has the result. Calls of Visit may run at the same time. A slow Done slows the crawl. When Run
	// returns, all calls of Done have returned. Without Done, the Summary has the first error of each
	// outcome.
	Done func(Result)

	// Queue keeps the URLs. The default keeps MaxURLs of them in memory, for one Run. If several
	// processes share one, all numbers below are of one process, and so are Canonical, Done and the
	// Summary.
	Queue Queue

	Workers         int // most concurrent calls of Visit, by default 32
	MaxDepth        int // most links from a start URL, by default 100; if negative, start URLs only
	MaxPages        int // most pages visited, or fetched and Refused, by default unlimited
	MaxPagesPerHost int // most such pages of a host, by default unlimited

	// MaxURLs is the most URLs in memory, by default 1,000,000. The default Queue keeps no more. If
	// you set a Queue, the crawl takes at most 16 URLs of each host into memory. MaxURLs counts URLs
	// of 96 bytes on average. If URLs are longer, fewer have room. A URL without room is counted as
	// NoRoom. The last tenth is for URLs that aren't postponed (Traps).
	MaxURLs int

	MaxBody int64 // most bytes read of a body, by default 10 MiB, see Page.Truncated

	// MaxHeld is the most bytes of headers and bodies that are in flight or wait for their visits, by
	// default 64 MiB. If there is no room, the crawl waits before it reads more of a response. Lower
	// it on a machine with little memory. The first 16 KiB of each response don't count. There is
	// always room for one body of MaxBody, so such a body may exceed a small MaxHeld. A header counts
	// once net/http has read it. Bound it by the MaxResponseHeaderBytes of Base, as
	// publicnet.Transport does.
	MaxHeld int64

	Timeout  time.Duration // time of one exchange with its body, by default 2 min
	Grace    time.Duration // time for requests and visits in flight when ctx ends, by default 10 s
	Patience time.Duration // longest wait for a host before its URLs are Refused, by default 24 h

	// Tries limits the requests for a URL that is refused by 429, 5xx, 408 or 425, or that gets no
	// response. After a refusal the crawl may also request a page that the host served before. If the
	// host refuses that page too, the refusal doesn't count as a try. So a ban costs time, not pages.
	// If the host serves that page, but refuses the URL twice, the URL is done, because only this URL
	// fails. A URL with 401, 402, 403 or 451 is normally done when the host serves another page.
	// Before that, the first few such URLs of a host are requested once more, the very first one after
	// a rest of the host of 10 s. If the host limits the rate, all such URLs are requested once more.
	// If the host turns out to limit the rate by such a status, the URL is like one with 503. If the
	// host turns out to have banned the crawler, all such URLs are requested again after the ban.
	// Tries also limits the fetches of a robots.txt that can't be fetched. If the host refuses the
	// connection for robots.txt, robots.txt is fetched only twice. Between two tries the crawl
	// continues with other hosts. The crawl ends when only hosts are left that don't respond at all.
	// If a host has served nothing yet, its refusals don't count as tries for a quarter of an hour.
	// They count if the host's limiter knows that only this URL fails. The default is 5. If Tries is
	// more than 1, Retry of the Transport repeats none of the crawl's requests. If Tries is 1, only
	// Retry repeats requests, and occupies a connection meanwhile.
	Tries int

	// Traps decides about URLs that look like those of a trap. Examples are filters that combine,
	// calendars without end, and session ids. They are postponed if similar URLs have brought no new
	// pages. Real pages go first, and about three of a hundred requests are for the others. With
	// TrapsLast no URL is lost. TrapsLeft loses pages. Start URLs and those of Discover and Page.Add
	// are never postponed. A URL with a higher Priority goes first, even if it is postponed.
	// Postponing needs a Queue that is a Postponer, as the default Queue is. With another Queue
	// nothing is postponed. The zero value is TrapsLast. See docs/traps.md.
	Traps Traps

	// Progress is called about once a second, and once at the end of the crawl, one call at a time.
	// ProgressLine is a ready one. If Progress is nil, there are no calls.
	Progress func(Progress)
}

// Validators are the values of a page's ETag and Last-Modified headers, by which a site finds
// whether the page has changed (RFC 9110, section 8.8). Config.Known returns them.
type Validators struct{ ETag, LastModified string }

// longestRevisit is the default of Revisit.Max, that of package revisit.
const longestRevisit = 30 * 24 * time.Hour

// A Crawler crawls. Make it with New. It may run several crawls, one after the other or
// concurrently. With a Queue it runs one at a time.
type Crawler struct {
	cfg    Config
	client *http.Client
}

// New checks cfg. The error joins all problems, one a line, each naming its field.
func New(cfg Config) (*Crawler, error) {
	var errs []error
	if err := cfg.setTransport(); err != nil {
		errs = append(errs, err)
	}
	if cfg.Visit == nil {
		errs = append(errs, errors.New("crawl: Config.Visit is nil, so nothing would handle the pages"))
	}
	errs = append(errs,
		setDefault("Workers", &cfg.Workers, 32),
		setDefault("MaxPages", &cfg.MaxPages, 0),
		setDefault("MaxPagesPerHost", &cfg.MaxPagesPerHost, 0),
		setDefault("MaxURLs", &cfg.MaxURLs, 1_000_000),
		setDefault("MaxBody", &cfg.MaxBody, 10<<20),
		setDefault("MaxHeld", &cfg.MaxHeld, 64<<20),
		setDefault("Tries", &cfg.Tries, 5),
		durations.Check("crawl: Config.Timeout", cfg.Timeout),
		durations.Check("crawl: Config.Grace", cfg.Grace),
		durations.Check("crawl: Config.Patience", cfg.Patience),
		cfg.checkRevisit(),
	)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Traps > TrapsIgnored {
		return nil, fmt.Errorf("crawl: Config.Traps is %d: it is TrapsLast, TrapsLeft or TrapsIgnored", cfg.Traps)
	}
	cfg.MaxDepth = cmp.Or(cfg.MaxDepth, 100)
	cfg.Timeout = cmp.Or(cfg.Timeout, 2*time.Minute)
	cfg.Grace = cmp.Or(cfg.Grace, 10*time.Second)
	cfg.Patience = cmp.Or(cfg.Patience, 24*time.Hour)
	cfg.Revisit.Max = cmp.Or(cfg.Revisit.Max, max(cfg.Revisit.Min, longestRevisit))
	c := &Crawler{cfg: cfg, client: new(http.Client)}
	if cfg.Client != nil {
		*c.client = *cfg.Client
	}
	if c.client.Transport == nil {
		c.client.Transport = cfg.Transport
	}
	c.client.Transport = weburl.Locations{RoundTripper: c.client.Transport}
	c.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// checkRevisit returns an error if a field about revisits is wrong.
func (cfg *Config) checkRevisit() error {
	var errs []error
	if err := cfg.Revisit.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("crawl: Config.Revisit: %w", err))
	}
	isSet := cfg.Revisit.Min > 0
	_, isRecurring := cfg.Queue.(Recurring)
	if isSet && cfg.Queue != nil && !isRecurring {
		err := fmt.Errorf("crawl: Config.Revisit needs a Queue that is a Recurring, and %T isn't", cfg.Queue)
		errs = append(errs, err)
	}
	if cfg.Watch != 0 && !isSet {
		err := errors.New("crawl: Config.Watch is set without Config.Revisit: nothing comes due again")
		errs = append(errs, err)
	}
	switch {
	case cfg.Known != nil && isSet:
		errs = append(errs, errors.New("crawl: Config.Known is set beside Config.Revisit, "+
			"which keeps validators itself: leave Known out"))
	case cfg.Known != nil && cfg.Follow != nil:
		errs = append(errs, errors.New("crawl: Config.Known is set beside Config.Follow: a page that hasn't changed "+
			"has no links, so pages behind it would be missed. Set Config.Revisit in place of Known, "+
			"or leave out Follow if Discover or a list names all URLs"))
	}
	return errors.Join(errs...)
}

// setTransport makes a Transport for UserAgent, if there is none.
func (cfg *Config) setTransport() error {
	switch {
	case cfg.Transport != nil && cfg.UserAgent != "":
		return errors.New("crawl: Config.UserAgent is set beside Config.Transport, which has its own: leave one out")
	case cfg.Transport != nil:
		return nil
	case cfg.UserAgent == "":
		return errors.New("crawl: Config.Transport is nil: make one with politeness.New, or set Config.UserAgent")
	}
	t, err := politeness.New(politeness.Config{UserAgent: cfg.UserAgent})
	if err != nil {
		return fmt.Errorf("crawl: Config.UserAgent: %w", err)
	}
	cfg.Transport = t
	return nil
}

// Run crawls from the given URLs. It is New and Run of the Crawler. Use it for a program with one
// crawl.
func Run(ctx context.Context, cfg Config, urls ...string) (Summary, error) {
	c, err := New(cfg)
	if err != nil {
		return Summary{}, err
	}
	return c.Run(ctx, urls...)
}

// ErrRefused is for errors of Config.Visit. Return an error that wraps it if the text of a page
// shows that the host refuses. Examples are a captcha with status 200, and a request to come back
// later. The text of the error is for people, and stands in evidence.
//
//	if bytes.Contains(p.Body, []byte("Are you a robot?")) {
//		return fmt.Errorf("%w: a captcha", crawl.ErrRefused)
//	}
//
// The host is blocked as by a 429. URLs that were found in the refused page are dropped. When the
// host serves the page again, Visit is called again. Further responses with the same text are
// refusals without a call of Visit. If the host refuses the page Config.Tries times, but serves
// others, the page is Refused with that error.
var ErrRefused = errors.New("crawl: the page is a refusal of its host")

// setDefault sets a field of a Config that is 0 to its default. A negative one is an error.
func setDefault[T int | int64](name string, field *T, value T) error {
	if *field < 0 {
		return fmt.Errorf("crawl: Config.%s is negative: %v", name, *field)
	}
	*field = cmp.Or(*field, value)
	return nil
}
