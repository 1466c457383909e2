// Package evidence records the decisions and the actions of a crawler, so that its owner can prove
// them. Keep a log during the crawl:
//
//	log, err := evidence.OpenFile("crawl.jsonl", evidence.LogConfig{Chained: true})
//	transport, err := politeness.New(politeness.Config{UserAgent: ..., Evidence: log})
//	...
//	err = log.Close() // an error says how many records were lost
//
// Afterwards the command "politeness audit crawl.jsonl", or package evidence/audit, checks the log.
// LogConfig.Signed makes a log that a stranger can check.
//
// Other values of Config.Evidence:
//
//	Console(os.Stderr)              lines for a terminal
//	Multi(log, Console(os.Stderr))  both
//	Slog(logger)                    records in the log of the program
//	Func(f)                         a function of yours
//	&Recorder{}                     records in memory, for a test
//	Redact(log, "token")            a log without the values of these parameters
//
// Each [Decision] is one record. The first record of a Transport is its [Policy]. The comment of
// [Type] lists the records of a request in their order. The file schema.json describes their JSON.
package evidence

import (
	"context"
	"time"
)

// Evidence receives every decision of a crawl. Record is called synchronously and concurrently from
// many goroutines, never under a lock of the caller's. You may keep d, which has no pointers into
// the request or the response.
//
// The crawl waits for Record, so keep it short. A slow Record delays only the request that the
// record is about. Record must not send requests through the Transport that calls it, because each
// of them would call Record again. To act on a record, pass it to another goroutine with another
// client.
type Evidence interface {
	Record(ctx context.Context, d Decision)
}

// A Type is the kind of a Decision. The records of one request have the same Transport and Trip.
// They come in this order:
//
//	robots_allowed  the verdict. If the URL isn't fetched, the record is blocked_by_robots,
//	                blocked_by_rule or reserved instead.
//	waiting         the wait for a turn is known to be longer than a second.
//	started         the request was sent. Otherwise the record is slot_timeout or
//	                budget_exceeded, or failed if the caller left.
//	host_blocked    the response blocks the host. If it ends a block, the record is host_cleared.
//	stays_open      the response continues without a slot, as a switched connection or a stream.
//	fetched         the end of the exchange. Without a response the record is failed.
//	retried         another try follows. Its records begin with waiting or started again.
//
// A fetch of robots.txt has its own Trip, and its records have RobotsTxt set. After fetched or
// failed follows robots_fetched, robots_revalidated or robots_unreachable.
//
// The first record of a Transport is policy. Each record of the Transport has the beginning of
// Policy.ID in the field Transport. The starts on one host are numbered by Seq, over all trips.
type Type string

// The types of decisions.
const (
	PolicyStated      Type = "policy" // from here on, these limits apply to the Transport, or to Host alone
	RobotsAllowed     Type = "robots_allowed"
	BlockedByRobots   Type = "blocked_by_robots"
	RobotsFetched     Type = "robots_fetched"
	RobotsRevalidated Type = "robots_revalidated"
	RobotsUnreachable Type = "robots_unreachable"
	BlockedByRule     Type = "blocked_by_rule"
	BudgetWarning     Type = "budget_warning"
	BudgetExceeded    Type = "budget_exceeded"
	Waiting           Type = "waiting"      // a wait has begun that is longer than a second
	SlotTimeout       Type = "slot_timeout" // it couldn't start within SlotTimeout, MaxWait or the deadline
	Resent            Type = "resent"       // sent again at Start, after a lost connection or with another signature
	Started           Type = "started"      // the request was sent at Start, recorded afterwards
	Fetched           Type = "fetched"      // the exchange ended, as its body was read to the end or closed
	StaysOpen         Type = "stays_open"   // a switched connection (101), or a stream, continues without a slot
	Failed            Type = "failed"       // the exchange got no response, or its caller left before the start
	Retried           Type = "retried"      // the request will be tried again
	HostBlocked       Type = "host_blocked"
	HostCleared       Type = "host_cleared"
	LeaseExpired      Type = "lease_expired" // a body was never closed, and its slot was taken back
	ResponseRejected  Type = "response_rejected"
	Reserved          Type = "reserved" // the site reserves the purpose: not fetched, or not handed over
	NoIndex           Type = "noindex"
	StateLost         Type = "state_lost"     // kept state can't be read or written, and the crawl continues
	StateShared       Type = "state_shared"   // another process uses the state too, and shares blocks, but not delays
	LimitersApart     Type = "limiters_apart" // another limiter of the process uses the host too, and both rates add up
	Drained           Type = "drained"        // an operator has ended the work, and no request starts any more
	LogClosed         Type = "log_closed"     // the seal of a chained or signed log, so its end wasn't cut off
	Checkpoint        Type = "checkpoint"     // of a signed log, with the signed note in Text
)

// A Decision is one record. It is flat, and complete by itself. Fields that don't apply to its Type
// are zero. JSON and slog attributes are made from the struct, in the order of the fields, under
// the names of their tags. Zero fields are left out if their tag has omitzero. In JSON, durations
// are seconds, and times are RFC 3339 with nanoseconds. For a string field, the tag "most" is its
// largest length in JSON, in bytes. A longer string is cut, and ends with [Clipped]. So a record
// without Text is at most 8 KB long, however long a server's texts are. A sink gets a Decision by
// Evidence.Record.
type Decision struct {
	Type Type `json:"type,omitzero" most:"64"`
	// When it was decided.
	Time time.Time `json:"timestamp,omitzero"`
	// Transport that decided, by the beginning of its random Policy.ID.
	Transport string `json:"by,omitzero" most:"64"`

	// Number that joins the records of a RoundTrip, unique in its Transport. 0 if there is none.
	Trip uint64 `json:"trip,omitzero"`
	// Number of the try within this RoundTrip, from 1.
	Attempt int `json:"attempt,omitzero"`
	// HTTP method of the request.
	Method string `json:"method,omitzero" most:"64"`
	// URL of the request, without userinfo.
	URL string `json:"url,omitzero" most:"1936"`
	// Key by which slots, delays and blocks are counted. A name of the DNS is never clipped.
	Host string `json:"host,omitzero" most:"1600"`
	// Product token of the crawler. It is set only if the Transport's policy record has none.
	Agent string `json:"agent,omitzero" most:"128"`
	// Whether it is a fetch of robots.txt, which costs no page and needs no verdict.
	RobotsTxt bool `json:"robotsTxt,omitzero"`
	// Trip of the same Transport whose redirect led here. 0 if there is none.
	From uint64 `json:"from,omitzero"`

	// Whether the crawl may go on with what the record is about, such as a request. Always present.
	// It is false in records of a refusal, a block or a failure.
	Allowed bool `json:"allowed"`
	// Rule of robots.txt that decided, as written.
	MatchedRule string `json:"matchedRule,omitzero" most:"320"`
	// Line of that rule in robots.txt.
	Line int `json:"line,omitzero"`
	// User-agent of the group that decided.
	Group string `json:"group,omitzero" most:"128"`
	// Crawl-delay of robots.txt.
	CrawlDelay time.Duration `json:"crawlDelay,omitzero"`
	// "low" if the crawl continues without robots.txt.
	Confidence string `json:"confidence,omitzero" most:"48"`
	// Reason of the decision, for people.
	Reason string `json:"reason,omitzero" most:"256"`
	// Time at which to come back.
	RetryAt time.Time `json:"retryAt,omitzero"`
	// First 8 hex characters of the SHA256 of the robots.txt that decided.
	Copy string `json:"copy,omitzero" most:"48"`

	// Number of this start on its Host, from 1. A start is the sending of a request. If
	// Policy.Process is set, each process numbers its own starts. Otherwise the limiter numbers
	// them.
	Seq uint64 `json:"seq,omitzero"`
	// Number of an earlier start that was granted but given up, so that nothing was sent for it.
	// This start replaces it. 0 if there is none.
	Instead uint64 `json:"instead,omitzero"`
	// Time of the start that has the number Instead. It is by the same clock as Prev, see At.
	InsteadAt time.Time `json:"insteadAt,omitzero"`
	// Time at which the request was sent. If the transport reports when the request got its
	// connection, it is that time.
	Start time.Time `json:"start,omitzero"`
	// Time of the latest earlier start on Host whose request has ended, in any process. Zero if none
	// is known.
	Prev time.Time `json:"prev,omitzero"`
	// Earliest time for this request. The code that repeats the request, such as package revisit or
	// crawl, has remembered it. Zero at the first request for the page, or if no code remembers the
	// page.
	Due time.Time `json:"due,omitzero"`
	// Whether this request only tests if Host, which has refused, serves again. The page was served
	// before.
	Proof bool `json:"proof,omitzero"`
	// The time of Start on the clock of a limiter that several processes share. Prev and
	// BlockedUntil are by the same clock then. If At is zero, they are by the clock of the process.
	At time.Time `json:"at,omitzero"`
	// End of the last block of Host that the limiter knew at Start, whoever set the block. Zero if
	// there is none.
	BlockedUntil time.Time `json:"blockedUntil,omitzero"`
	// Wait for one of the host's slots.
	WaitSlot time.Duration `json:"waitSlot,omitzero"`
	// Wait for the delay that follows the previous start on Host.
	WaitDelay time.Duration `json:"waitDelay,omitzero"`
	// Wait for the end of a block.
	WaitBlock time.Duration `json:"waitBlock,omitzero"`
	// Wait for a connection, after the wait for the host.
	WaitConnect time.Duration `json:"waitConnect,omitzero"`
	// Least time from this start to the next one on the host.
	Delay time.Duration `json:"delay,omitzero"`
	// Origin of Delay, which is "random", "crawl-delay", "adaptive", "learned", or "kept" from
	// before a restart.
	DelaySource string `json:"delaySource,omitzero" most:"48"`
	// Slots of the host in use, this one included.
	Slot int `json:"slot,omitzero"`
	// Slots that the host has.
	Slots int `json:"slots,omitzero"`
	// Whether it is the first request after a block.
	Probe bool `json:"probe,omitzero"`
	// What a request waits for, or has waited for in vain. "slot" is a slot of Host. "place" is a
	// place of Policy.MaxInFlight, and "site" one of Policy.PerSite. "delay" and "block" are times
	// that must pass. "probe" is the response to the first request after a block. "visit-time" are
	// the hours in robots.txt, and "robots.txt" is the file itself. "answer" is a response that the
	// server hasn't begun to send.
	Hold string `json:"hold,omitzero" most:"48"`

	// Status of the response.
	Status int `json:"status,omitzero"`
	// Length of the body, as read. If net/http has unpacked the body, it is the unpacked length.
	Bytes int64 `json:"bytes,omitzero"`
	// Time from the start to the headers.
	Latency time.Duration `json:"latency,omitzero"`
	// Time from the start to the end of the body.
	Duration time.Duration `json:"duration,omitzero"`
	// Headers of the response.
	ContentType  string `json:"contentType,omitzero" most:"96"`
	ETag         string `json:"etag,omitzero" most:"128"`
	LastModified string `json:"lastModified,omitzero" most:"64"`
	// Time for which the response may be used again, from max-age or Expires less Age, at most 30
	// days. Zero if the response doesn't allow that.
	Fresh time.Duration `json:"fresh,omitzero"`
	// Date header.
	ServerDate string `json:"serverDate,omitzero" most:"64"`
	// Whether the response had no Date header.
	NoDate bool `json:"noDate,omitzero"`
	// Retry-After header.
	RetryAfter string `json:"retryAfter,omitzero" most:"64"`
	// RateLimit header, if nothing of the limit is left. Older headers are written as "remaining=0,
	// reset=30".
	RateLimit string `json:"rateLimit,omitzero" most:"64"`
	// Time until an exhausted rate limit is reset, as the crawl read it. Zero if there is none.
	Quota time.Duration `json:"quota,omitzero"`
	// Reason for which the response is a refusal, regardless of its status.
	Refused string `json:"refused,omitzero" most:"96"`
	// Whether the refusal was found late, in the body. The headers of the response had counted
	// before, for example as a success. Refused has the reason.
	Late bool `json:"late,omitzero"`
	// In started and resent, whether the request had If-None-Match or If-Modified-Since. In the
	// records of a 4xx, whether it had any condition or a range.
	Conditional bool `json:"conditional,omitzero"`
	// In the records of a 4xx, whether the program finds out bans by itself, as package crawl does
	// (politeness.Call.Judges). Then 400, 405 and 409 to a GET may be a ban.
	Page bool `json:"page,omitzero"`
	// Whether the caller gave up the request. Such a failure doesn't count against the host.
	Left bool `json:"left,omitzero"`
	// Number of connections that the try opened, if more than one. Otherwise it is zero.
	Connections int `json:"connections,omitzero"`
	// Target of a redirect.
	Location string `json:"location,omitzero" most:"312"`
	// Number of hops before this request.
	Redirects int `json:"redirects,omitzero"`
	// Error of the exchange, of its body, or of the log.
	Err string `json:"error,omitzero" most:"288"`

	// End of the block, or of a wait as far as that is known.
	Until time.Time `json:"until,omitzero"`
	// What set the block. "refused" is a refusal such as 429. "unsure" is an unclear response, such
	// as a 503, whose block is also called a pause. "ban" is a ban. Empty if no refusal was counted.
	Kind string `json:"kind,omitzero" most:"48"`
	// How many responses of this Kind have come in a row.
	Refusals int `json:"refusals,omitzero"`
	// Whether an earlier process, or another one, set the block.
	Restored bool `json:"restored,omitzero"`
	// Whether an operator set or lifted the block, through a hostlimit.Controller.
	Hand bool `json:"hand,omitzero"`
	// In lease_expired, the start that lost its slot, as "ID/SEQ" with the ID of its
	// Policy.Process, or else Policy.Limiter.
	Of string `json:"of,omitzero" most:"48"`

	// SHA256 of the robots.txt in hex. Records that have Preferences of robots.txt have it too.
	SHA256 string `json:"sha256,omitzero" most:"64"`
	// Time for which the robots.txt is used.
	TTL time.Duration `json:"ttl,omitzero"`
	// Number of redirects that led to it.
	Hops int `json:"hops,omitzero"`
	// Text of the file, if the user asked for it, or the note of a checkpoint.
	Text string `json:"text,omitzero"`

	// Limit of the budget, which is "pages", "pages_per_host", "bytes" or "time".
	Limit string `json:"limit,omitzero" most:"48"`
	// How much of the limit is spent. For the limit "time", the unit is seconds.
	Used int64 `json:"used,omitzero"`
	// Size of the limit. For the limit "time", the unit is seconds.
	Max int64 `json:"max,omitzero"`
	// Length of the window that Max is for. Zero stands for the whole crawl.
	Every time.Duration `json:"every,omitzero"`
	// Beginning of that window. Zero if there are no windows.
	Window time.Time `json:"window,omitzero"`

	// Directives of the page, such as "noindex, nofollow".
	Directives string `json:"directives,omitzero" most:"192"`
	// Purposes that the page is fetched for, such as "train, ground".
	Purposes string `json:"purposes,omitzero" most:"48"`
	// Statement of the site about the page's use, such as "train refused (Content-Signal, line 2)".
	// The field SHA256 then has the hash of the robots.txt.
	Preferences string `json:"preferences,omitzero" most:"176"`

	// ID of the key that the request was signed with (Web Bot Auth).
	Signed string `json:"signed,omitzero" most:"48"`

	// Promises of a policy record, nil in all others. It is never changed.
	Policy *Policy `json:"policy,omitzero"`
}

// A LogLine is one line of a log. It has a Decision and the fields that the [Log] added. Decode the
// lines of a log into LogLines with encoding/json to show or search them. To prove them, use
// package evidence/audit.
type LogLine struct {
	Decision
	// Number of the record in its log, from 1.
	N uint64 `json:"n,omitzero"`

	// How far the wall clock has jumped forward since the previous record, because it was set or
	// the computer slept. Limiters and budgets in memory use a monotonic clock, which doesn't jump.
	Jumped time.Duration `json:"jumped,omitzero"`

	// In a signed log, 64 random bits.
	Salt string `json:"salt,omitzero"`
	// In a checkpoint, hashes of the largest complete subtrees, base64.
	Edge string `json:"edge,omitzero"`
	// In the first line of a chained log, last hash of the log before it in the file.
	After string `json:"after,omitzero"`
	// In some lines of a chained log, SHA-256 of the previous hash, of the lines since and of this
	// line, base64url. So it depends on all lines before.
	Hash string `json:"hash,omitzero"`
}
