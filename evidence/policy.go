package evidence

import (
	"time"
	"unsafe"
)

// A Policy is the promise of a Transport when its log began, with every default filled in. An
// auditor compares the Transport's records with it. It names no secret.
//
// If a policy record has a Host, it applies to that host alone. Such a record is written when
// hostlimit.Config.Override changes the limits of the host. The request with the number Seq is the
// first to which the new limits apply. If Seq is 0, they apply to everything after this record. In
// such a record, only Slots, DelayMin, DelayMax, Adaptive, Ceiling and FromEnd are set.
type Policy struct {
	// ID of the Transport, 64 random bits.
	ID string `json:"id,omitzero" most:"16"`
	// User-Agent header, as sent.
	UserAgent string `json:"userAgent,omitzero" most:"512"`
	// From header.
	From string `json:"from,omitzero" most:"128"`
	// Token of UserAgent by which robots.txt addresses the crawler.
	Product string `json:"product,omitzero" most:"128"`
	// ID of the limiter, which counts slots, delays and blocks. All Transports that share the
	// limiter have the same.
	Limiter string `json:"limiter,omitzero" most:"16"`
	// ID of the process that numbers the starts, if several processes share the limiter. Empty if
	// the Limiter numbers them.
	Process string `json:"process,omitzero" most:"16"`
	// ID of the state that outlives the process (hostlimit.Store). All runs and processes that
	// share the state have the same. Empty if nothing is kept.
	State string `json:"state,omitzero" most:"16"`

	// Requests in flight on a host at most.
	Slots int `json:"slots"`
	// Shortest random delay.
	DelayMin time.Duration `json:"delayMin,omitzero"`
	// Longest random delay.
	DelayMax time.Duration `json:"delayMax,omitzero"`
	// Rule that changes a delay, such as "Learned" or "Longest(Learned, Proportional(1))".
	Adaptive string `json:"adaptive,omitzero" most:"96"`
	// Longest adaptive delay.
	Ceiling time.Duration `json:"ceiling,omitzero"`
	// Whether delays count from the end of the exchange before.
	FromEnd bool `json:"fromEnd,omitzero"`
	// Whether single hosts may have separate limits.
	Overrides bool `json:"overrides,omitzero"`
	// Requests in flight over all hosts at most.
	MaxInFlight int `json:"maxInFlight,omitzero"`
	// Largest number of requests in flight over all ports and names of a site. A site is a registrable
	// domain or an address. Each Process counts only its own requests. 0 if no bound is promised.
	PerSite int `json:"perSite,omitzero"`
	// Revision of the public suffix list, which decides which names belong to one site.
	SiteList string `json:"siteList,omitzero" most:"16"`
	// Longest wait for a slot.
	SlotTimeout time.Duration `json:"slotTimeout,omitzero"`
	// Time after which a body that isn't read loses its slot.
	LeaseTTL time.Duration `json:"leaseTTL,omitzero"`
	// Largest number of connections of a host that were switched to another protocol and occupy no
	// slot.
	Upgrades int `json:"upgrades,omitzero"`
	// Largest number of event streams of a host that occupy no slot.
	Streams int `json:"streams,omitzero"`
	// Longest wait of a request for its start.
	MaxWait time.Duration `json:"maxWait,omitzero"`
	// Rule by which Decision.Host is made from a URL, which is "host", "site", or "own" for a user's
	// function.
	HostKey string `json:"hostKey,omitzero" most:"8"`

	// Policy of the blocks after refusals, which is "fibonacci", "doubling", or "own" for the
	// user's.
	Backoff string `json:"backoff,omitzero" most:"16"`
	// First step of Backoff.
	BackoffStep time.Duration `json:"backoffStep,omitzero"`
	// Longest step of Backoff.
	BackoffCap time.Duration `json:"backoffCap,omitzero"`
	// Least share of a step that is added at random.
	JitterMin float64 `json:"jitterMin,omitzero"`
	// Largest share of a step that is added at random.
	JitterMax float64 `json:"jitterMax,omitzero"`
	// Statuses that block immediately beside 429, such as "403,503,520-530".
	Statuses string `json:"statuses,omitzero" most:"256"`
	// Whether a request without a response blocks immediately.
	Network bool `json:"network,omitzero"`
	// Number of responses such as 403 in a row. After this number, a further such response is a ban.
	InARow int `json:"inARow,omitzero"`
	// Longest block that a host may ask for.
	MaxRetryAfter time.Duration `json:"maxRetryAfter,omitzero"`
	// Whether the step of Backoff applies if Retry-After is shorter.
	AtLeast bool `json:"atLeast,omitzero"`
	// Time without a refusal, after a block, that sets the count of refusals in a row to 0.
	Forgive time.Duration `json:"forgive,omitzero"`
	// Whether a function of the user's finds further refusals.
	OwnRefused bool `json:"ownRefused,omitzero"`

	// Use of robots.txt, which is "obeyed" or "ignored".
	Robots string `json:"robots,omitzero" most:"8"`
	// Time for which a robots.txt is used.
	RobotsTTL time.Duration `json:"robotsTTL,omitzero"`
	// Time after which a robots.txt that is unreachable is asked for again.
	DenyTTL time.Duration `json:"denyTTL,omitzero"`
	// Verdict while robots.txt is unreachable, which is "deny" or "allow".
	Unreachable string `json:"unreachable,omitzero" most:"8"`
	// Whether the last good copy decides then.
	ServeStale bool `json:"serveStale,omitzero"`
	// Whether robots.Options.LenientAgents is set, so that groups of similar names count as well.
	Lenient bool `json:"lenient,omitzero"`
	// Whether robots.Options.AgentPatterns is set, so that a group such as foo* counts for FooBot.
	Patterns bool `json:"patterns,omitzero"`
	// Whether the text of robots.txt is recorded.
	RobotsText bool `json:"robotsText,omitzero"`
	// Whether rules of the user's refuse requests.
	OwnRules bool `json:"ownRules,omitzero"`
	// Purposes of the crawl. If a site reserves one of them for a page, the page isn't fetched, or its
	// response isn't given to the program.
	Purposes string `json:"purposes,omitzero" most:"32"`

	// Budget of the crawl, 0 if unlimited.
	Pages        int64         `json:"pages,omitzero"`
	PagesPerHost int64         `json:"pagesPerHost,omitzero"`
	Bytes        int64         `json:"bytes,omitzero"`
	MaxTime      time.Duration `json:"maxTime,omitzero"`
	// Length of the windows in which the budget is renewed, 0 if it isn't.
	Every time.Duration `json:"every,omitzero"`
	// Whether all runs and processes with the same State spend one budget together.
	Kept bool `json:"kept,omitzero"`
	// Further tries of a request at most.
	Retries int `json:"retries,omitzero"`
}

// MarshalJSON returns p as the JSON of a record has it.
func (p *Policy) MarshalJSON() ([]byte, error) {
	return appendObject(nil, unsafe.Pointer(p), ofPolicy), nil
}
