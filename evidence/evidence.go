// Package evidence records what a crawler decided and did, so that its owner
// can prove it: the [Evidence] interface, the [Decision] record, sinks for it,
// and [Audit], which re-proves a log.
//
// Keep a log, and prove it afterwards:
//
//	log := evidence.JSONLines(file, evidence.Chained())
//	transport, err := politeness.New(politeness.Config{UserAgent: ..., Evidence: log})
//	...
//	err = log.Close()
//	report, err := evidence.Audit(file)
//
// The records of one request are joined by Trip, in this order: a verdict
// (robots_allowed, blocked_by_robots, blocked_by_rule); for each try started, then
// host_blocked or host_cleared if the answer moved the host's state, then fetched or
// failed, then retried if there is to be another try. A request that gets no turn
// has slot_timeout or budget_exceeded instead of started, or failed if its
// caller left. Fetches of robots.txt are trips of their own, marked RobotsTxt, with
// robots_fetched, robots_revalidated or robots_unreachable after them. The starts
// on one host are numbered by Seq, over all trips.
//
// The JSON of a record is described by schema.json beside this file.
package evidence

import (
	"context"
	"time"
)

// Evidence receives every decision of a crawl. Record is called synchronously
// and from many goroutines at once, never under a lock of the caller's; d holds
// no pointers into the request or the response and may be kept.
//
// The crawl waits for Record, so keep it short: a slow Record delays the request
// that the record is about, and no other. Record doesn't send requests through the
// Transport that calls it, which would call it again for each of them: to act on a
// record, hand it to a goroutine of your own that has another client.
type Evidence interface {
	Record(ctx context.Context, d Decision)
}

// A Type names what a Decision is about.
type Type string

// The types of decisions.
const (
	RobotsAllowed     Type = "robots_allowed"
	BlockedByRobots   Type = "blocked_by_robots"
	RobotsFetched     Type = "robots_fetched"
	RobotsRevalidated Type = "robots_revalidated"
	RobotsUnreachable Type = "robots_unreachable"
	BlockedByRule     Type = "blocked_by_rule"
	BudgetWarning     Type = "budget_warning"
	BudgetExceeded    Type = "budget_exceeded"
	SlotTimeout       Type = "slot_timeout" // no turn within SlotTimeout, MaxWait or the deadline
	Started           Type = "started"      // a turn was had, and the request went out at Start; recorded once it has
	Fetched           Type = "fetched"      // the exchange ended: body at its end or closed
	Failed            Type = "failed"       // the exchange ended without a response, or the caller left before the start
	Retried           Type = "retried"      // the request will be tried again
	HostBlocked       Type = "host_blocked"
	HostCleared       Type = "host_cleared"
	LeaseExpired      Type = "lease_expired" // a body was never closed; its slot was taken back
	ResponseRejected  Type = "response_rejected"
	NoIndex           Type = "noindex"
	LogClosed         Type = "log_closed" // the seal of a chained log: nothing was cut off its end
)

// A Decision is one record: flat, and complete by itself. Fields that don't
// apply to its Type are zero and absent from its JSON.
type Decision struct {
	Type Type      // JSON "type"
	Time time.Time // "timestamp", RFC 3339 with nanoseconds: when it was decided

	// What it is about.
	Trip    uint64 // "trip": joins the records of one RoundTrip, unique within a Transport; 0: none
	Attempt int    // "attempt": try of this RoundTrip, from 1
	Method  string // "method"
	URL     string // "url", userinfo removed
	Host    string // "host": the key that slots, delays and blocks are counted by
	Agent   string // "agent": the crawler's product token

	RobotsTxt bool // "robotsTxt": the exchange fetches robots.txt; it costs no page and needs no verdict

	// What was decided, by which rule.
	Allowed     bool          // "allowed", always present
	MatchedRule string        // "matchedRule", as written: "Disallow: /private"
	Line        int           // "line" of that rule in robots.txt
	Group       string        // "group": the user-agent whose group decided
	CrawlDelay  time.Duration // "crawlDelay", seconds as a JSON number
	Confidence  string        // "confidence": "low" where robots.txt could not be read and the crawl went on
	Reason      string        // "reason": why, for people
	RetryAt     time.Time     // "retryAt": when to come back

	// The turn. Waits and delays are seconds as JSON numbers.
	Seq       uint64        // "seq": number of this start on its Host, from 1
	Start     time.Time     // "start": when the request was let go
	WaitSlot  time.Duration // "waitSlot"
	WaitDelay time.Duration // "waitDelay"
	WaitBlock time.Duration // "waitBlock"
	Delay     time.Duration // "delay" in force after this start
	Slot      int           // "slot" of ...
	Slots     int           // "slots"
	Probe     bool          // "probe": first request after a block

	// The exchange.
	Status       int           // "status"
	Bytes        int64         // "bytes" of the body, as read
	Latency      time.Duration // "latency": start to headers
	Duration     time.Duration // "duration": start to the end of the body
	ContentType  string        // "contentType"
	ETag         string        // "etag"
	LastModified string        // "lastModified"
	ServerDate   string        // "serverDate": the Date header
	Location     string        // "location": where a redirect points
	Redirects    int           // "redirects": hops before this request
	Err          string        // "error"

	// The block.
	Until    time.Time // "until": end of the block
	Refusals int       // "refusals" in a row

	// robots.txt.
	SHA256 string        // "sha256" of its body, hex
	TTL    time.Duration // "ttl", seconds
	Hops   int           // "hops": redirects followed
	Text   string        // "text": robots.txt itself, where the user asked for it

	// The budget.
	Limit string // "limit": "pages", "pages_per_host", "bytes" or "time"
	Used  int64  // "used"; time in whole seconds
	Max   int64  // "max"; time in whole seconds

	// Page directives, such as "noindex, nofollow".
	Directives string // "directives"
}
