package evidence

import (
	"time"
	"unsafe"
)

// A Policy is what a Transport has promised when its log began, with every default filled in: what
// a judge holds its records against. It names no secret. The record of a policy that names a Host
// holds for that host alone, from the start Seq on (from the record on where there is no Seq), and
// says only what Slots, DelayMin, DelayMax, Adaptive, Ceiling and FromEnd are there: it is written
// where hostlimit.Config.Override gives a host other limits than the start before had.
type Policy struct {
	ID        string `json:"id,omitzero" most:"16"`         // of the Transport: 64 random bits
	UserAgent string `json:"userAgent,omitzero" most:"512"` // as sent
	From      string `json:"from,omitzero" most:"128"`      // the From header
	Product   string `json:"product,omitzero" most:"128"`   // token of UserAgent by which robots.txt addresses the crawler
	Limiter   string `json:"limiter,omitzero" most:"16"`    // of what counts slots, delays and blocks: the same for all Transports that share it
	Process   string `json:"process,omitzero" most:"16"`    // of the part of a limiter, shared by several processes, that numbers this one's starts; empty: Limiter does

	// Turns on hosts.
	Slots       int           `json:"slots"`                       // requests in flight on a host at most
	DelayMin    time.Duration `json:"delayMin,omitzero"`           // random delay, at least
	DelayMax    time.Duration `json:"delayMax,omitzero"`           // random delay, at most
	Adaptive    string        `json:"adaptive,omitzero" most:"96"` // what moves a delay: "Learned", "Longest(Learned, Proportional(1))"
	Ceiling     time.Duration `json:"ceiling,omitzero"`            // longest adaptive delay
	FromEnd     bool          `json:"fromEnd,omitzero"`            // delays count from the end of the exchange before
	Overrides   bool          `json:"overrides,omitzero"`          // single hosts may have limits of their own
	MaxInFlight int           `json:"maxInFlight,omitzero"`        // requests in flight over all hosts at most
	SlotTimeout time.Duration `json:"slotTimeout,omitzero"`        // longest wait for a slot
	LeaseTTL    time.Duration `json:"leaseTTL,omitzero"`           // a slot is taken back from a body that wasn't read for so long
	MaxWait     time.Duration `json:"maxWait,omitzero"`            // longest wait for a turn
	HostKey     string        `json:"hostKey,omitzero" most:"8"`   // how Host is made of a URL: "host", "site", or "own" for a function of the user's

	// Refusals.
	Backoff       string        `json:"backoff,omitzero" most:"16"`   // "fibonacci", "doubling", or "own" for a policy of the user's
	BackoffStep   time.Duration `json:"backoffStep,omitzero"`         // its first step
	BackoffCap    time.Duration `json:"backoffCap,omitzero"`          // its longest step
	JitterMin     float64       `json:"jitterMin,omitzero"`           // share of a step that is added at random, at least
	JitterMax     float64       `json:"jitterMax,omitzero"`           // the same, at most
	Statuses      string        `json:"statuses,omitzero" most:"256"` // those that block at once beside 429: "403,503,520-530"
	Network       bool          `json:"network,omitzero"`             // no answer blocks at once
	InARow        int           `json:"inARow,omitzero"`              // answers such as 403 in a row after which one more is a ban
	MaxRetryAfter time.Duration `json:"maxRetryAfter,omitzero"`       // longest block that a host may ask for
	AtLeast       bool          `json:"atLeast,omitzero"`             // a Retry-After shorter than the policy's step doesn't count
	Forgive       time.Duration `json:"forgive,omitzero"`             // quiet time after a block that resets the count
	OwnRefused    bool          `json:"ownRefused,omitzero"`          // an eye of the user's own says what else is a refusal

	// robots.txt.
	Robots      string        `json:"robots,omitzero" most:"8"`      // "obeyed", or "ignored"
	RobotsTTL   time.Duration `json:"robotsTTL,omitzero"`            // how long it is used
	DenyTTL     time.Duration `json:"denyTTL,omitzero"`              // how long one that can't be had isn't asked for again
	Unreachable string        `json:"unreachable,omitzero" most:"8"` // what holds then: "deny", or "allow"
	ServeStale  bool          `json:"serveStale,omitzero"`           // the last good copy holds then
	Lenient     bool          `json:"lenient,omitzero"`              // groups of other names count as well
	Patterns    bool          `json:"patterns,omitzero"`             // of these, those of patterns that match the crawler's name
	RobotsText  bool          `json:"robotsText,omitzero"`           // its text is recorded
	OwnRules    bool          `json:"ownRules,omitzero"`             // the user's own rules refuse requests
	Purposes    string        `json:"purposes,omitzero" most:"32"`   // what the pages are for, so that those that reserve it are refused

	// The budget, 0 where it is unlimited, and retries.
	Pages        int64         `json:"pages,omitzero"`
	PagesPerHost int64         `json:"pagesPerHost,omitzero"`
	Bytes        int64         `json:"bytes,omitzero"`
	MaxTime      time.Duration `json:"maxTime,omitzero"`
	Every        time.Duration `json:"every,omitzero"`   // length of the windows in which the budget is renewed
	Retries      int           `json:"retries,omitzero"` // further tries of a request at most
}

// MarshalJSON returns p as it stands in a record.
func (p *Policy) MarshalJSON() ([]byte, error) {
	return appendObject(nil, unsafe.Pointer(p), ofPolicy), nil
}
