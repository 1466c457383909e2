// Package politeness makes any crawler polite. Wrap the transport of an
// http.Client, and every request is checked against robots.txt, waits its turn
// on its host, obeys 429 and Retry-After, spends the crawl's budget, and is
// reported, so that you can prove it:
//
//	t, err := politeness.New(politeness.Config{
//		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
//	})
//	client := &http.Client{Transport: t}
//
// Use it when you have a crawler that must not get banned, when you must show
// what a crawler did and why, or, together with package politenesstest, when
// you test a crawler. Refusals are errors of type [*Error]; an answer of the
// server, a 429 included, is never turned into an error unless
// [ResponseLimits] ask for it.
//
// The parts are usable by themselves: packages robots, robots/robotscache,
// hostlimit, backoff, budget and evidence.
package politeness

import (
	"errors"
	"fmt"
	"net/http"
	"net/mail"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/robots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A Config says how polite, on whose behalf and within which limits. Only
// UserAgent is required. A Config may be copied and changed until New is called;
// Configs that share a Hosts limiter or a Budget share its turns or its pages.
type Config struct {
	// UserAgent names the crawler and a way to reach its owner:
	// "Name/1.0 (+https://example.com/bot; bot@example.com)". Its product token
	// ("Name") chooses the group in robots.txt (RFC 9309, section 2.2.1). It
	// replaces the User-Agent of every request.
	UserAgent string

	// StrictUserAgent makes New refuse a UserAgent without a product, a version and
	// a mail address. False: a product and any contact will do.
	StrictUserAgent bool

	// From is the owner's mail address for the From header (RFC 9110, section
	// 10.1.2). Empty: no such header is added.
	From string

	// Base sends the requests. Nil: http.DefaultTransport.
	Base http.RoundTripper

	// Robots says how long robots.txt is kept, and what holds while it can't be
	// had. Zero: RFC 9309; 1 h, nothing is fetched for 5 min after 5xx, 429 and
	// network errors.
	Robots robotscache.Config

	// Hosts says who may start when. Nil: hostlimit.New(hostlimit.Config{}), which
	// is 2 requests at once per host, 200 to 500 ms apart. A limiter may be shared
	// by several Transports.
	Hosts hostlimit.Limiter

	// Budget limits pages, bytes and time. Nil: unlimited. A budget may be shared
	// by several Transports.
	Budget budget.Budget

	// Retry repeats requests that failed. Zero: none.
	Retry Retry

	// Response refuses what is too large or of the wrong type. Zero: nothing.
	Response ResponseLimits

	// Evidence is told of every decision. Nil: nobody is.
	Evidence evidence.Evidence

	// HostKey names what slots, delays and blocks are counted by. Nil: the host of
	// the URL with a port that isn't the scheme's default; hostlimit.BySite groups
	// by registrable domain.
	HostKey func(*url.URL) string

	// Refuse holds the user's own rules: an error refuses the request before
	// anything is waited for. Nil: none; PublicOnly and RefusePaths are ready ones,
	// RefuseAny joins several.
	Refuse func(*http.Request) error

	// DangerouslyIgnoreRobots fetches whatever robots.txt says, and doesn't ask
	// for it. It is for one's own sites; pacing and blocks still hold.
	DangerouslyIgnoreRobots bool
}

// A Transport is a polite http.RoundTripper. Make it with New. It is safe for
// concurrent use, owns no goroutines and needs no Close.
type Transport struct {
	userAgent  []string // as a header value, shared by all requests
	from       []string
	product    string
	base       http.RoundTripper
	hosts      hostlimit.Limiter
	hostKey    func(*url.URL) string
	robots     *robotscache.Cache // nil: robots.txt is ignored
	robotsOpen bool               // robotscache.Allow: the crawl goes on while robots.txt can't be had
	maxWait    time.Duration      // of hosts; 0: unlimited
	budget     budget.Budget      // nil: unlimited
	retry      Retry
	response   responseLimits
	evidence   *evidence.Guard // nil: discarded
	refuse     func(*http.Request) error
	trips      atomic.Uint64
	budgetEnd  atomic.Pointer[time.Time] // end of the budget's time; nil until it is known
}

// New checks cfg and compiles it. The error joins all problems, each naming its
// field.
func New(cfg Config) (*Transport, error) {
	t := &Transport{
		userAgent: []string{cfg.UserAgent},
		product:   robots.ProductToken(cfg.UserAgent),
		base:      cfg.Base,
		hosts:     cfg.Hosts,
		hostKey:   cfg.HostKey,
		budget:    cfg.Budget,
		retry:     cfg.Retry,
		refuse:    cfg.Refuse,

		robotsOpen: cfg.Robots.OnUnreachable == robotscache.Allow,
	}
	if cfg.From != "" {
		t.from = []string{cfg.From}
	}
	if cfg.Evidence != nil {
		t.evidence = evidence.Safe(cfg.Evidence)
	}
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	if t.hostKey == nil {
		t.hostKey = byHost
	}

	var errs []error
	add := func(field string, err error) {
		for _, problem := range problems(err) {
			errs = append(errs, fmt.Errorf("politeness: Config.%s: %w", field, problem))
		}
	}
	add("UserAgent", checkUserAgent(cfg.UserAgent, t.product, cfg.StrictUserAgent))
	add("From", checkFrom(cfg.From))
	add("Retry", cfg.Retry.validate())
	var err error
	t.response, err = cfg.Response.compile(t.product)
	add("Response", err)
	if cfg.Budget != nil {
		add("Budget", cfg.Budget.Limits().Validate())
	}
	if t.hosts == nil {
		t.hosts, err = hostlimit.New(hostlimit.Config{})
		add("Hosts", err)
	}
	if t.hosts != nil {
		t.maxWait = t.hosts.Config().MaxWait
	}
	cache, err := robotscache.New(cfg.Robots, robotscache.Client{
		UserAgent: cfg.UserAgent,
		Products:  []string{t.product},
		Transport: robotsTransport{t},
		Observe:   t.recordRobots,
	})
	add("Robots", err)
	if !cfg.DangerouslyIgnoreRobots {
		t.robots = cache
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return t, nil
}

// version is what follows the product in a strict User-Agent (RFC 9110, section
// 10.1.5), and mailAddress what has to be somewhere in it: an address by itself,
// not a part of a URL.
var (
	version     = regexp.MustCompile(`^/v?[0-9]`)
	mailAddress = regexp.MustCompile(`(?:^|[\s(<\[;,+]|mailto:)[^\s()<>\[\];,:@/]+@[^\s()<>\[\];,:@/]+\.[^\s()<>\[\];,:@/]+`)
)

func strictAgent(ua, product string) bool {
	_, rest, _ := strings.Cut(ua, product)
	return version.MatchString(rest) && mailAddress.MatchString(ua)
}

// checkUserAgent wants a name that robots.txt can address and a contact that a
// site's owner can write to.
func checkUserAgent(ua, product string, strict bool) error {
	switch {
	case strings.TrimSpace(ua) == "":
		return errors.New(`required, such as "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)"`)
	case strings.ContainsFunc(ua, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("%q holds a control character", ua)
	case product == "":
		return fmt.Errorf("%q doesn't begin with a product token, such as ExampleBot/1.0", ua)
	case !strings.Contains(ua, "@") && !strings.Contains(ua, "http://") && !strings.Contains(ua, "https://"):
		return fmt.Errorf("%q has no contact: add a URL or a mail address, such as (+https://example.com/bot; bot@example.com)", ua)
	case strict && !strictAgent(ua, product):
		return fmt.Errorf("%q must hold a product, a version and a mail address, such as ExampleBot/1.0 (bot@example.com)", ua)
	}
	return nil
}

func checkFrom(from string) error {
	if from == "" {
		return nil
	}
	if _, err := mail.ParseAddress(from); err != nil {
		return fmt.Errorf("%q is not a mail address: %w", from, err)
	}
	return nil
}

// problems takes apart what errors.Join has joined, so that each line of New's
// error names its whole field.
func problems(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error }) // only the outermost
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, problems(e)...)
	}
	return all
}

// RoundTrip sends req when robots.txt, the host, the budget and the user's own
// rules let it, and waits until they do. Redirects need nothing special:
// http.Client calls RoundTrip for each hop, so each is checked and paced against
// its own host. The slot on the host is held until the response's body is read
// to its end or closed. req is never changed. Robots.txt, slots and delays go by
// req.URL; a different req.Host is only sent. What Base returns as an error is returned
// as it is; every refusal is an *Error.
//
// Refused are also requests about whose path robots.txt can't be asked: those that hide
// it in a URL.Opaque such as "//host/path", and those that ask for a tunnel by CONNECT
// with a target in URL.Opaque.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	trip := t.begin(req, page)
	defer trip.end() // gives back whatever is still held, on every path

	// 1. Who asks whom, and do the user's own rules let it?
	if err := trip.identify(); err != nil {
		return nil, err
	}
	// 2. Is there anything left to spend?
	if err := trip.afford(); err != nil {
		return nil, err
	}
	for schedule := (cenkalti.BackOff)(nil); ; {
		for overtaken := true; overtaken; overtaken = trip.overtaken() {
			// 3. May this URL be fetched at all?
			if err := trip.ask(); err != nil {
				return nil, err
			}
			// 4. Wait for our turn: a page of the budget, a free slot, the delay, any block.
			if err := trip.waitTurn(); err != nil {
				return nil, err
			}
		}
		// 5. Send. From here on the base transport closes the request's body.
		if err := trip.start(); err != nil {
			return nil, err
		}
		resp, failure := trip.send()
		// 6. Learn: what the host answered moves everyone's next turn.
		trip.learn(resp, failure)
		// 7. Retry what may be another answer next time. Each try takes its own turn.
		if again, err := trip.retry(&schedule, resp, failure); err != nil {
			return nil, err
		} else if !again {
			// 8. Hand over: the slot stays taken until the body ends; guards watch it.
			return trip.handOver(resp, failure)
		}
	}
}

// CloseIdleConnections closes those of Base, if it has such a method, for
// http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}
