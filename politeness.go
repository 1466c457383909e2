// Package politeness makes any crawler polite. Wrap the transport of an http.Client, and every
// request is checked against robots.txt, waits for its host, obeys 429 and Retry-After, spends the
// crawl's budget, and is reported, so that you can prove it. For example:
//
//	t, err := politeness.New(politeness.Config{
//		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
//	})
//	client := &http.Client{Transport: t}
//
// Use it when you have a crawler that must not get banned, when you must prove a crawler's actions
// and their reasons, or, together with package politenesstest, when you test a crawler. If one of
// these checks doesn't let a request pass, you get an [*Error]. Its Stage names the check. A
// response with an error status, such as 429, is never turned into an error. Only a 2xx response to
// a page can become an error, by Config.Response or Config.Purposes. Later, while you read the body
// of any response, the budget can end the reading with an error.
//
// Package crawl is a crawler on top of this package. Package statuspage serves the present state of
// a crawl. Package publicnet keeps a crawl off private networks. You can also use each part by
// itself. The parts are packages robots, robots/robotscache, hostlimit, backoff, budget, revisit,
// botauth, evidence with evidence/audit, and crawl/sitemap.
//
// Terms:
//
//   - A host is known by its key (see [ByHost]). Slots, delays, blocks and bans are explained in
//     package hostlimit.
//   - A refusal of a host is a response such as 429, and blocks the host. A refusal by the
//     Transport is an [*Error].
//   - A rule is a function in Config.Refuse.
//   - A copy is a robots.txt that was fetched before.
//   - A purpose is a use of pages, such as training AI. A site reserves a purpose if it says that
//     its pages must not be used for it.
//   - State is what is kept about hosts for the next run (see [Config.WithState]).
package politeness

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
	"weak"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/internal/alarm"
	"github.com/go-politeness/politeness/internal/problems"
	"github.com/go-politeness/politeness/internal/recorder"
	"github.com/go-politeness/politeness/internal/statedir"
	"github.com/go-politeness/politeness/internal/tally"
	"github.com/go-politeness/politeness/internal/useragent"
	"github.com/go-politeness/politeness/robots"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A Config sets how polite a crawler is, for whom it works, and its limits. Only UserAgent is
// required. A Config is plain data. You can copy, change and print it, and use it for several calls
// of New. Each call makes a separate limiter and budget. Only the values of Limiter and Budget are
// shared by all Transports that get them.
type Config struct {
	// UserAgent names the crawler and a way to reach its owner, for example "ExampleBot/1.0
	// (+https://example.com/bot; bot@example.com)". It consists of products, each one word with an
	// optional version after a slash, and of comments in parentheses (RFC 9110, section 10.1.5). The
	// first product ("ExampleBot") chooses the group in robots.txt (RFC 9309, section 2.2.1). If the
	// first product is Mozilla, the product after "compatible;" chooses the group. UserAgent replaces
	// the User-Agent of every request.
	UserAgent string

	// StrictUserAgent makes New return an error if UserAgent lacks a product, a version or a mail
	// address. The mail address must be in UserAgent itself. Config.From doesn't replace it. The
	// default is false. Then a product and any contact are enough, and Config.From counts as the
	// contact.
	StrictUserAgent bool

	// From is the owner's mail address for the From header (RFC 9110, section 10.1.2). It counts as
	// the contact of a UserAgent that has none. If it is empty, no such header is added.
	From string

	// Base sends the requests. The default is http.DefaultTransport. The variable is read at each
	// request, so a later change of it counts. http.DefaultTransport connects to private addresses
	// as well. If your crawler follows links of strangers, use publicnet.Transport. Base must not
	// be a Transport, because each page would wait for its host twice. If Base has a method
	// Unwrap() http.RoundTripper, its result must not be a Transport either. To send some requests
	// by another base, see Transport.Over.
	//
	// If Base is an *http.Transport with a Proxy function, let the function choose by the URL
	// alone. Then robots.txt is fetched by the same proxy as the pages. A robots.txt is fetched
	// once for all requests that need it, with the context of the first of them. A Proxy function
	// that reads the context sees that context. Package crawl fetches robots.txt with the context
	// of Run.
	Base http.RoundTripper

	// RobotsBase sends the fetches of robots.txt, also those of Transport.Over, instead of Base.
	// Set it if Base adds credentials, as an oauth2.Transport does. The fetch of a robots.txt is
	// given up if Base adds credentials such as Authorization or Cookie to it. The default is Base.
	RobotsBase http.RoundTripper

	// Robots configures the cache of robots.txt. It sets how long a copy is kept, and if pages are
	// fetched while there is no copy. The default is RFC 9309, copies for 1 h, and no page for 5
	// min after 5xx, 429 and network errors.
	Robots robotscache.Config

	// AnswerRobots is for a program, or a library in it, that requests robots.txt itself. If
	// AnswerRobots is true, the Transport responds to such a GET from its own copy. If it has no
	// copy, it fetches one. Nothing more is sent, so the GET costs no delay and no page of the
	// budget. The response has the status and the text of the copy. AnswerRobots sets
	// Robots.KeepText. If the robots.txt of an origin can't be fetched, the request is sent. The
	// default is false, so that each such GET is an ordinary request.
	AnswerRobots bool

	// Hosts configures the limiter that New makes. It sets slots, delays and blocks of hosts, and
	// the longest wait of a request. The default is 2 concurrent requests per host, 200 to 500 ms
	// apart.
	Hosts hostlimit.Config

	// Limiter decides when a request may start. If Limiter is nil, New makes one from Hosts. Set it
	// to share one limiter between Transports, or between processes. Hosts then has no effect. If
	// Transports of one process share a Limiter that is a pointer, each obeys the crawl-delays that
	// the others have read. If their Robots and the product tokens of their UserAgents are equal
	// too, they fetch each robots.txt once.
	Limiter hostlimit.Limiter

	// Spend limits the pages, bytes and time of the crawl. New makes a budget from it. The default
	// is unlimited.
	Spend budget.Limits

	// Budget counts the pages and bytes that are spent. If Budget is nil, New makes one from Spend.
	// Set it to share one budget between Transports or processes, or to read the amounts spent.
	// Spend then has no effect.
	Budget budget.Budget

	// Timeouts sets from when http.Client.Timeout counts. The default is FromStart. It counts from
	// the start of each request, so that a wait for the host doesn't use the time up.
	Timeouts Timeouts

	// Retry repeats requests that failed. The default is none.
	Retry Retry

	// Response refuses responses that are too large or of the wrong type. The default is none.
	Response ResponseLimits

	// Upgrades is for a proxy or a browser. A crawler can leave it alone. It bounds the connections
	// of a host that were switched to another protocol (101), as to WebSocket. They occupy no slot,
	// since they stay open for as long as a user looks at them. A request for a further connection
	// is refused with ErrBusy. If several requests ask at the same time and too many are switched,
	// the surplus connections occupy slots. The default is 16. If Upgrades is negative, each such
	// connection occupies a slot.
	Upgrades int

	// Streams bounds the streams of a host that occupy no slot once their headers have come. Such a
	// stream has events (text/event-stream) or pictures (multipart/x-mixed-replace). Set Streams in a
	// program whose users leave such a page open. A further stream occupies its slot until the stream
	// ends. The default is 0, so that each stream occupies a slot.
	Streams int

	// Evidence receives every decision. If Evidence is nil, no decision is recorded.
	Evidence evidence.Evidence

	// Purposes are the purposes for which pages are fetched. If a site says that its pages must not
	// be used for one of them, it reserves the purpose, and you get ErrReserved. If robots.txt
	// reserves the purpose, the error comes before the fetch. If a header reserves it, the error
	// comes with the headers, and the body isn't read. If a <meta> element reserves it, the error
	// comes while you read the body. The default is nil, so that nothing is enforced. Preferences
	// of robots.txt and the headers are still recorded.
	Purposes []robots.Purpose

	// HostKey returns the key by which slots, delays and blocks of a request are counted. It is
	// also called for fetches of robots.txt. The default is ByHost, the host of the URL in one
	// spelling, with a port that isn't 80 or 443. BySite groups by registrable domain.
	HostKey func(*http.Request) string

	// Refuse is for your own rules. If it returns an error, the request ends before any wait. It is
	// called again after a wait, because the rules may have changed. It sees every request that
	// would be sent, also fetches of robots.txt and their redirects. If it returns an error for a
	// fetch of robots.txt, robots.txt can't be fetched (ErrUnreachable). Transport.Next calls
	// Refuse with a GET request without headers. If Refuse returns an error for a page, package
	// crawl sets the URL aside, and asks again later. The default is no rule. Anonymous,
	// RefusePaths and RefuseHosts are ready-made rules. RefuseAny joins several.
	Refuse func(*http.Request) error

	// IsRefusal detects refusals that no status shows, such as a challenge with status 200. If it
	// returns an error, the host is blocked as by a 429, for Retry-After or Hosts.Backoff. The error
	// is recorded as the reason. It is called for each response to a page, and must not read the body.
	// You still get the response. The Transport's Retry looks at the status alone, so it doesn't
	// repeat such a request with status 200. Package crawl asks for the page again. The default is
	// nil, so that status and headers decide. See Challenged.
	IsRefusal func(*http.Response) error

	// DangerouslyIgnoreRobots fetches pages even if robots.txt disallows them, and doesn't fetch
	// robots.txt. It is for your own sites. Delays and blocks still apply.
	DangerouslyIgnoreRobots bool

	// StateWait is how long New waits while another process uses the state (WithState, or a
	// hostlimit.Dir in Hosts.Store). If the state is still in use after StateWait, New returns an
	// error that matches ErrStateHeld. If StateWait is negative, New doesn't wait. Set it to -1 for a
	// program that is started by a timer and must not run twice. Two processes with one state share
	// the blocks of hosts, but not the delays. The default is 0. With 0 New doesn't wait and doesn't
	// fail, and both processes use the state. Evidence records state_shared, and EvidenceErr reports
	// it. The state is in use from New until the process ends, even by kill -9. Transports of one
	// process share the state. Only one process holds the lock of the state. If that process ends, the
	// other process takes the lock with its next request. So a third process that starts later still
	// finds the state in use. On AIX, Solaris, Plan 9 and WebAssembly other processes aren't noticed.
	StateWait time.Duration

	state string // directory of WithState
}

// A Transport is a polite http.RoundTripper. Make it with New. It is safe for concurrent use, owns
// no goroutines and needs no Close.
type Transport struct {
	// cfg has Limiter, HostKey and Retry.Backoff set, and Budget if anything is limited.
	cfg Config

	firstDefault http.RoundTripper // http.DefaultTransport at New

	userAgent []string                  // as a header value, shared by all requests
	from      []string                  // as a header value; nil: none is added
	product   string                    // token of the User-Agent by which robots.txt addresses the crawler
	maxWait   time.Duration             // longest wait for a turn
	robots    *robotscache.Cache        // nil: robots.txt is ignored
	kin       *kin                      // of the Transports with the same limiter; nil: not known
	self      weak.Pointer[Transport]   // for the notes about hosts, see rivals.go
	recorder  *recorder.Recorder        // nil: nothing is recorded
	trips     atomic.Uint64             // number of the last trip
	budgetEnd atomic.Pointer[time.Time] // end of the budget's time; nil until it is known
	tally     tally.Tally
	slow      alarm.Clock
	open      openBodies
	hasLogged atomic.Bool // a refusal, see logOnce
	deadEnds  *deadEnds
	stays     staysOpen
	crawls    crawls
	shared    *sharedState // nil: no other process used the state at New
}

// New checks cfg and makes a Transport that keeps to it. The error joins all problems, one a line,
// each naming its field.
func New(cfg Config) (*Transport, error) {
	found := problems.List{Prefix: "politeness: Config."}
	// A nil pointer in an interface isn't nil, and would panic at the first request.
	cfg.Base = problems.OrNil("Base", cfg.Base, &found)
	cfg.RobotsBase = problems.OrNil("RobotsBase", cfg.RobotsBase, &found)
	cfg.Limiter = problems.OrNil("Limiter", cfg.Limiter, &found)
	cfg.Budget = problems.OrNil("Budget", cfg.Budget, &found)
	cfg.Evidence = problems.OrNil("Evidence", cfg.Evidence, &found)

	t := &Transport{
		cfg:       cfg,
		userAgent: []string{cfg.UserAgent},
		product:   robots.ProductToken(cfg.UserAgent),
		slow:      alarm.Clock{After: time.Second},
		deadEnds:  newDeadEnds(),
	}
	// Defaults go into t.cfg: the policy on record names the user's own settings, from cfg.
	t.setDefaults()
	t.validate(&found)
	t.equip(&cfg, &found)
	if err := found.Err(); err != nil {
		return nil, err
	}

	// Another limiter than ours may have left its defaults out.
	t.maxWait = t.cfg.Limiter.Config().WithDefaults().MaxWait
	state, err := t.holdState()
	if err != nil {
		return nil, err
	}
	if cfg.Evidence != nil {
		t.recorder = t.newRecorder(&cfg, state.id)
	}
	t.receiveActs()
	t.share(state)
	t.kin = kinOf(t.cfg.Limiter)
	t.self = weak.Make(t)
	if cfg.DangerouslyIgnoreRobots {
		return t, nil
	}
	cache, err := t.newCache()
	if err != nil {
		return nil, fmt.Errorf("politeness: %w", err)
	}
	t.robots = cache
	return t, nil
}

// setDefaults sets the fields of t.cfg for which nil has a meaning that never fails.
func (t *Transport) setDefaults() {
	cfg := &t.cfg
	t.firstDefault = http.DefaultTransport
	if cfg.AnswerRobots {
		cfg.Robots.KeepText = true
	}
	cfg.Purposes = slices.Clone(cfg.Purposes) // the caller may change its own
	if cfg.From != "" {
		t.from = []string{cfg.From}
	}
	cfg.Upgrades = max(cmp.Or(cfg.Upgrades, defaultUpgrades), 0)
	if cfg.HostKey == nil {
		cfg.HostKey = ByHost
	}
	if cfg.Retry.Backoff == nil {
		cfg.Retry.Backoff = func() cenkalti.BackOff { return backoff.Fibonacci{}.BackOff() }
	}
}

// validate adds the problems of the fields from which nothing is made here.
func (t *Transport) validate(found *problems.List) {
	cfg := &t.cfg
	found.Add("UserAgent", useragent.Check(cfg.UserAgent, t.product, cfg.From, cfg.StrictUserAgent))
	found.Add("From", useragent.CheckFrom(cfg.From))
	found.Add("Base", checkBase(baseOf(t, nil)))
	found.Add("RobotsBase", checkBase(cfg.RobotsBase))
	found.Add("Robots", cfg.Robots.Validate())
	found.Add("Timeouts", cfg.Timeouts.validate())
	found.Add("Retry", cfg.Retry.validate())
	if cfg.Streams < 0 {
		found.Add("Streams", fmt.Errorf("is negative: %d", cfg.Streams))
	}
	found.Add("Purposes", checkPurposes(cfg.Purposes))
}

// equip makes the limiter and the budget, unless cfg has them, and sets the limits of responses.
func (t *Transport) equip(cfg *Config, found *problems.List) {
	var err error
	t.cfg.Response, err = cfg.Response.compile()
	found.Add("Response", err)
	if cfg.Limiter == nil {
		t.cfg.Limiter, err = memory.New(cfg.Hosts)
		found.Add("Hosts", cmp.Or(errors.Unwrap(err), err)) // without the prefix before the joined problems
	}
	found.Add("Hosts.Store", cfg.checkStore())
	found.Add("WithState", statedir.Check(cfg.state, "hosts", "robots", "budget"))
	if cfg.Budget != nil { // Spend has no effect then
		found.Add("Budget", cfg.Budget.Limits().Validate())
		return
	}
	found.Add("Spend", cfg.Spend.Validate())
	// A request that costs nothing is spared the calls of a budget.
	if cfg.Spend != (budget.Limits{}) {
		t.cfg.Budget = cfg.newBudget()
	}
}

// newRecorder returns a recorder for cfg.Evidence, which begins with the policy. state is the id of
// the kept state.
func (t *Transport) newRecorder(cfg *Config, state string) *recorder.Recorder {
	var spend budget.Limits
	if t.cfg.Budget != nil {
		spend = t.cfg.Budget.Limits()
	}
	policy := policyOf(cfg, t.product, t.cfg.Limiter.Config(), spend)
	policy.State = state
	policy.Kept = cfg.keepsBudget()
	return recorder.New(cfg.Evidence, policy, t.cfg.Limiter.ID)
}

// RoundTrip sends req if robots.txt, the budget and the user's own rules allow it. Otherwise it
// returns an error. Before it sends req, it waits until the host's slot, delay and block let req
// start. Redirects need no care. http.Client calls RoundTrip for each hop, so each hop is checked
// and paced for its own host. The request occupies a slot of the host until the response's body is
// read to its end or closed. req is never changed. Robots.txt, slots and delays go by req.URL. If
// req.Host differs from req.URL.Host, it is sent as the Host header, and has no other effect. An
// error of Base is returned unchanged. Every refusal is an *Error. If the context comes from
// hostlimit.WithPriority, req goes before waiting requests of its host with a lower priority.
//
// A request also ends with an error if its path is hidden in a URL.Opaque, such as "//host/path" or
// the target of a CONNECT, since robots.txt can't be checked for it.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.roundTrip(req, nil)
}

// roundTrip is RoundTrip, by the base of over unless that is nil.
func (t *Transport) roundTrip(req *http.Request, over *over) (*http.Response, error) {
	if t.isReturning(req, over) {
		return t.firstDefault.RoundTrip(req)
	}
	t.takeShared()
	trip := t.begin(req, kindPage, over)
	defer trip.end() // gives back all that is still held, on every path

	// 1. Which host is asked, in whose name, and do the user's own rules let it?
	if err := trip.identify(); err != nil {
		return nil, err
	}
	// 2. Is there anything left to spend?
	if err := trip.charge.afford(); err != nil {
		return nil, err
	}
	for {
		for {
			// 3. May this URL be fetched at all?
			if err := trip.ask(); err != nil {
				return nil, err
			}
			if resp := trip.keptRobots(); resp != nil {
				return resp, nil
			}
			// 4. Wait for our turn: a page of the budget, a free slot, the delay, any block.
			if err := trip.waitTurn(); err != nil {
				return nil, err
			}
			if !trip.overtaken() {
				break
			}
		}
		// 5. Send. From here on the base transport closes the request's body.
		if err := trip.turn.begin(); err != nil {
			return nil, trip.noTurn(StageTurn, err)
		}
		result, err := trip.send()
		if err != nil {
			return nil, err
		}
		// 6. Learn: the host's answer moves the next turn of all requests.
		trip.learn(result)
		// 7. Retry if the next answer may differ. Each try takes its own turn.
		again, err := trip.retry(result)
		if err != nil {
			return nil, err
		}
		if !again {
			// 8. Hand over: the slot stays taken until the body ends; guards watch it.
			return trip.handOver(result)
		}
	}
}

// Limiter returns the limiter that decides when a request may start. It is Config.Limiter, or the
// one made from Config.Hosts. An operator controls the crawl by it, and another Transport can share
// it:
//
//	key, err := t.HostKey("https://example.com/") // "example.com"
//	err = t.Limiter().Block(ctx, key, time.Now().Add(24*time.Hour), "the owner has called")
func (t *Transport) Limiter() hostlimit.Limiter { return t.cfg.Limiter }

// EvidenceErr reports whether records of Config.Evidence or state (Config.WithState) were lost. It
// returns nil if neither was lost. The error counts the records that a Log couldn't write, and the
// records that a panicking sink has lost. It also says why state couldn't be read or kept, or that
// another process uses the state. It does so even if Config.Evidence is nil. The crawl continues.
// Check the error if you need proof. The status page shows it.
func (t *Transport) EvidenceErr() error { return errors.Join(t.recorder.Err(), t.tally.StateErr()) }

// CloseIdleConnections closes the idle connections of Base and RobotsBase, if they have a method of
// that name. http.Client.CloseIdleConnections calls it. Call it at the end of a crawl.
func (t *Transport) CloseIdleConnections() {
	closeIdle(baseOf(t, nil))
	closeIdle(t.cfg.RobotsBase)
}
