// Package evidence records what a crawler decided and did, so that its owner can prove it.
//
// Keep a log during the crawl, and have it judged afterwards by package evidence/audit:
//
//	log, err := evidence.OpenFile("crawl.jsonl", evidence.LogConfig{Chained: true})
//	transport, err := politeness.New(politeness.Config{UserAgent: ..., Evidence: log})
//	...
//	err = log.Close() // an error says how many records were lost
//
//	politeness audit crawl.jsonl
//
// What else to give Config.Evidence:
//
//	to watch a crawl                     Console(os.Stderr)
//	both                                 Multi(log, Console(os.Stderr))
//	to log with the rest of a program    Slog(logger)
//	a function of one's own              Func
//	to look at records in a test         a *Recorder
//	to keep tokens in URLs out of a log  Redact(log, "token", "session")
//	to let a stranger check the log      OpenFile with LogConfig.Signed
//
// # Records
//
// Each [Decision] is one record. A Transport's records begin with its policy: what it has promised,
// and the random id by which all its records name it. The records of one request are joined by
// Transport and Trip, in this order:
//
//	robots_allowed, blocked_by_robots,  the verdict
//	blocked_by_rule or reserved
//	waiting                             a wait for a turn of over a second, when that is known
//	started                             for each try; without a turn slot_timeout or budget_exceeded,
//	                                    or failed if the caller left
//	host_blocked or host_cleared        if the answer changed the host's state
//	fetched or failed                   the end of the try
//	retried                             if there is to be another try
//
// A fetch of robots.txt is a trip of its own, marked RobotsTxt, with robots_fetched,
// robots_revalidated or robots_unreachable after it. The starts on one host are numbered by Seq,
// over all trips.
//
// The JSON of a record is described by schema.json beside this file.
package evidence

import (
	"context"
	"time"
)

// Evidence receives every decision of a crawl. Record is called synchronously and from many
// goroutines at once, never under a lock of the caller's; d holds no pointers into the request or
// the response and may be kept.
//
// The crawl waits for Record, so keep it short: a slow Record delays the request that the record is
// about, and no other. Record doesn't send requests through the Transport that calls it, which
// would call it again for each of them: to act on a record, hand it to a goroutine of your own that
// has another client.
type Evidence interface {
	Record(ctx context.Context, d Decision)
}

// A Type names what a Decision is about.
type Type string

// The types of decisions.
const (
	PolicyStated      Type = "policy" // what holds from here on: for its Transport, or in place of that for Host
	RobotsAllowed     Type = "robots_allowed"
	BlockedByRobots   Type = "blocked_by_robots"
	RobotsFetched     Type = "robots_fetched"
	RobotsRevalidated Type = "robots_revalidated"
	RobotsUnreachable Type = "robots_unreachable"
	BlockedByRule     Type = "blocked_by_rule"
	BudgetWarning     Type = "budget_warning"
	BudgetExceeded    Type = "budget_exceeded"
	Waiting           Type = "waiting"      // a wait has begun that is longer than a second
	SlotTimeout       Type = "slot_timeout" // no turn came within SlotTimeout, MaxWait or the deadline
	Resent            Type = "resent"       // the transport sent the request once more at Start: the connection was lost, or another signature asked for
	Started           Type = "started"      // the request went out at Start; recorded once it has
	Fetched           Type = "fetched"      // the exchange ended: its body was read to the end or closed
	Failed            Type = "failed"       // the exchange got no response, or its caller left before the start
	Retried           Type = "retried"      // the request will be tried again
	HostBlocked       Type = "host_blocked"
	HostCleared       Type = "host_cleared"
	LeaseExpired      Type = "lease_expired" // a body was never closed; its slot was taken back
	ResponseRejected  Type = "response_rejected"
	Reserved          Type = "reserved" // the site reserves what the page is for: not fetched, or not handed over
	NoIndex           Type = "noindex"
	StateLost         Type = "state_lost" // what is to outlive the process can't be read or kept; the crawl goes on
	LogClosed         Type = "log_closed" // the seal of a chained or signed log: its end wasn't cut off
	Checkpoint        Type = "checkpoint" // of a signed log: Text is the signed note
)

// A Decision is one record: flat, and complete by itself. Fields that don't apply to its Type are
// zero. The struct is also the table that JSON and slog attributes are made by: in the order of the
// fields, under the names of their tags, without the zero ones that a tag lets be omitted.
// Durations are seconds in JSON, times RFC 3339 with nanoseconds. Strings are clipped to the bytes
// of JSON that a tag says, with [Clipped] at their end, so that a record without Text is at most 8
// KB long, whatever a server sends.
type Decision struct {
	Type      Type      `json:"type,omitzero" most:"64"`
	Time      time.Time `json:"timestamp,omitzero"`    // when it was decided
	Transport string    `json:"by,omitzero" most:"64"` // Transport that decided: the beginning of its random Policy.ID

	// What it is about.
	Trip      uint64 `json:"trip,omitzero"`             // joins the records of a RoundTrip, unique in its Transport; 0: none
	Attempt   int    `json:"attempt,omitzero"`          // number of the try within this RoundTrip, from 1
	Method    string `json:"method,omitzero" most:"64"` // HTTP method of the request
	URL       string `json:"url,omitzero" most:"1936"`  // without userinfo
	Host      string `json:"host,omitzero" most:"1600"` // key that slots, delays and blocks are counted by; a name of the DNS is never clipped
	Agent     string `json:"agent,omitzero" most:"128"` // product token of the crawler, where the Transport's policy record doesn't say it
	RobotsTxt bool   `json:"robotsTxt,omitzero"`        // a fetch of robots.txt, which costs no page and needs no verdict
	From      uint64 `json:"from,omitzero"`             // trip of the same Transport whose redirect led here; 0: none

	// What was decided, by which rule.
	Allowed     bool          `json:"allowed"`                         // whether the crawl goes on with it
	MatchedRule string        `json:"matchedRule,omitzero" most:"320"` // as written: "Disallow: /private"
	Line        int           `json:"line,omitzero"`                   // line of that rule in robots.txt
	Group       string        `json:"group,omitzero" most:"128"`       // user-agent of the group that decided
	CrawlDelay  time.Duration `json:"crawlDelay,omitzero"`             // what robots.txt asks for
	Confidence  string        `json:"confidence,omitzero" most:"48"`   // "low" where the crawl goes on without robots.txt
	Reason      string        `json:"reason,omitzero" most:"256"`      // why, for people
	RetryAt     time.Time     `json:"retryAt,omitzero"`                // when to come back
	Copy        string        `json:"copy,omitzero" most:"48"`         // first 8 hex characters of SHA256 of the robots.txt that decided

	// The turn.
	Seq          uint64        `json:"seq,omitzero"`                   // number of this start on its Host, from 1, by Policy.Process or else Policy.Limiter
	Instead      uint64        `json:"instead,omitzero"`               // number of the start that was given up for it before anything was sent
	InsteadAt    time.Time     `json:"insteadAt,omitzero"`             // stamp of that start, as Prev would name it
	Start        time.Time     `json:"start,omitzero"`                 // when the request was let go: on its connection, as far as the transport tells
	Prev         time.Time     `json:"prev,omitzero"`                  // stamp of the latest start on Host that had ended by then, as the limiter has it, whichever process made that; zero: it knows none
	At           time.Time     `json:"at,omitzero"`                    // Start by the clock of a limiter that several processes share, as Prev and BlockedUntil are then; zero: by the process's own
	BlockedUntil time.Time     `json:"blockedUntil,omitzero"`          // end of the last block of Host that the limiter knew at Start, whoever set it; zero: none
	WaitSlot     time.Duration `json:"waitSlot,omitzero"`              // wait for one of the host's slots
	WaitDelay    time.Duration `json:"waitDelay,omitzero"`             // wait for the delay after the start before
	WaitBlock    time.Duration `json:"waitBlock,omitzero"`             // wait for the end of a block
	WaitConnect  time.Duration `json:"waitConnect,omitzero"`           // wait for a connection, after the turn
	Delay        time.Duration `json:"delay,omitzero"`                 // from this start to the next one on the host, at least
	DelaySource  string        `json:"delaySource,omitzero" most:"48"` // what decided Delay: "random", "crawl-delay", "adaptive", "learned", or "kept" from before a restart
	Slot         int           `json:"slot,omitzero"`                  // slots of the host in use, this one included
	Slots        int           `json:"slots,omitzero"`                 // slots that the host has
	Probe        bool          `json:"probe,omitzero"`                 // first request after a block
	Hold         string        `json:"hold,omitzero" most:"48"`        // what a request waits for: "slot", "place", "delay", "block", "probe", "visit-time" or "answer"

	// The exchange.
	Status       int           `json:"status,omitzero"`   // of the response
	Bytes        int64         `json:"bytes,omitzero"`    // of the body, as read
	Latency      time.Duration `json:"latency,omitzero"`  // from the start to the headers
	Duration     time.Duration `json:"duration,omitzero"` // from the start to the end of the body
	ContentType  string        `json:"contentType,omitzero" most:"128"`
	ETag         string        `json:"etag,omitzero" most:"128"`
	LastModified string        `json:"lastModified,omitzero" most:"64"`
	ServerDate   string        `json:"serverDate,omitzero" most:"64"` // the Date header
	NoDate       bool          `json:"noDate,omitzero"`               // the response had no Date header
	RetryAfter   string        `json:"retryAfter,omitzero" most:"64"` // the Retry-After header
	RateLimit    string        `json:"rateLimit,omitzero" most:"64"`  // the RateLimit header, or its older forms as "remaining=0, reset=30", where nothing is left
	Quota        time.Duration `json:"quota,omitzero"`                // time until the rate limit that has nothing left is reset, as the crawl read it; zero: none counts
	Refused      string        `json:"refused,omitzero" most:"96"`    // why the answer is a refusal whatever its status is
	Left         bool          `json:"left,omitzero"`                 // the caller gave it up, which says nothing about the host
	Connections  int           `json:"connections,omitzero"`          // connections that the try has opened; zero: at most one
	Location     string        `json:"location,omitzero" most:"376"`  // where a redirect points
	Redirects    int           `json:"redirects,omitzero"`            // number of hops before this request
	Err          string        `json:"error,omitzero" most:"320"`     // what went wrong

	// The block.
	Until    time.Time `json:"until,omitzero"`          // end of the block, or of a wait so far as it is known
	Kind     string    `json:"kind,omitzero" most:"48"` // what the answer that set it was counted as: "refused", "unsure" or "ban"; empty: it wasn't counted
	Refusals int       `json:"refusals,omitzero"`       // number of the Kind in a row
	Restored bool      `json:"restored,omitzero"`       // it was left by an earlier process, or by another one
	Hand     bool      `json:"hand,omitzero"`           // a person did it, through a hostlimit.Controller
	Of       string    `json:"of,omitzero" most:"48"`   // of lease_expired: whose start lost its slot, as "ID/SEQ" with the ID of its Policy.Process, or else Policy.Limiter

	// robots.txt.
	SHA256 string        `json:"sha256,omitzero" most:"64"` // of its body, hex; also beside Preferences
	TTL    time.Duration `json:"ttl,omitzero"`              // how long it is used
	Hops   int           `json:"hops,omitzero"`             // number of redirects followed
	Text   string        `json:"text,omitzero"`             // the file itself, where the user asked for it; the note of a checkpoint

	// The budget.
	Limit  string        `json:"limit,omitzero" most:"48"` // "pages", "pages_per_host", "bytes" or "time"
	Used   int64         `json:"used,omitzero"`            // how much of it; time in whole seconds
	Max    int64         `json:"max,omitzero"`             // how much there is; time in whole seconds
	Every  time.Duration `json:"every,omitzero"`           // length of the window that Max is for; zero: the whole crawl
	Window time.Time     `json:"window,omitzero"`          // when that window began; zero: there are none

	// What the page itself asks for, and what the site states about its use.
	Directives  string `json:"directives,omitzero" most:"192"`  // such as "noindex, nofollow"
	Purposes    string `json:"purposes,omitzero" most:"48"`     // what the page is for: "train, ground"
	Preferences string `json:"preferences,omitzero" most:"176"` // "train refused (Content-Signal, line 2)"; SHA256 is that of the robots.txt

	// Who asked.
	Signed string `json:"signed,omitzero" most:"48"` // id of the key that the request was signed with (Web Bot Auth)

	// Policy is what a policy record states; nil in all others. Nobody changes it.
	Policy *Policy `json:"policy,omitzero"`
}

// A LogLine is one line of a log: a Decision and the fields that the [Log] added. Decode the lines
// of a log into LogLines with encoding/json to show or search them; to have them proved, give the
// log to package evidence/audit.
type LogLine struct {
	Decision
	N uint64 `json:"n,omitzero"` // number of the record in its log, from 1

	// Jumped is how far the wall clock has jumped ahead since the record before: it was set, or the
	// computer slept. The crawl's own clock, by which its limits go, stood still meanwhile.
	Jumped time.Duration `json:"jumped,omitzero"`

	Salt  string `json:"salt,omitzero"`  // in a signed log: 64 random bits
	Edge  string `json:"edge,omitzero"`  // of a checkpoint: hashes of the largest complete subtrees, base64
	After string `json:"after,omitzero"` // in the first line of a chained log: last hash of the log before it in the file
	Hash  string `json:"hash,omitzero"`  // in some lines of a chained log: SHA-256 of this line and all before it, base64url
}
