package politeness

import (
	"net/http"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// warnAt is the share of a limit at which SiteAudit warns, and a Spend that the environment sets.
const warnAt = 0.8

// SiteAudit is the policy of a site audit with proof: 200 pages and 60 minutes with warnings at 80
// %, 2 requests at once per host, 200 to 500 ms apart or crawl-delay where that is longer, and
// longer still where the host refuses (hostlimit.Learned), 10 s for a slot, slots taken back after
// 300 s. Where robots.txt can't be had the audit goes on, and its evidence says confidence "low".
// A group of robots.txt that names it only in part holds as well (robots.Options.LenientAgents).
// Set Evidence; WithEnv lets MAX_PAGES, MAX_SCAN_TIME_MINUTES and USER_AGENT change it.
func SiteAudit(userAgent string) Config {
	return Config{
		UserAgent: userAgent,
		Robots:    robotscache.Config{OnUnreachable: robotscache.Allow, LenientAgents: true},
		Hosts: hostlimit.Config{
			Concurrency: 2,
			Delay: hostlimit.Delay{
				Min:      200 * time.Millisecond,
				Max:      500 * time.Millisecond,
				Adaptive: hostlimit.Learned,
			},
			SlotTimeout: 10 * time.Second,
			LeaseTTL:    300 * time.Second,
		},
		Spend: budget.Limits{Pages: 200, Duration: time.Hour, WarnAt: warnAt},
	}
}

// Conservative is the policy of a research crawler: one request at a time per host, 3 s (or
// crawl-delay, where that is longer) from the end of one to the start of the next; 403 and 429
// slow a host down for 15 minutes, doubling on repeats to 24 h, with 10 to 20 % jitter, or for as
// long as the host asks by Retry-After where that is longer; robots.txt is kept for 1 h, and
// nothing is fetched for 5 minutes while it can't be had. The User-Agent must hold product,
// version and a mail address: New refuses any other. Public pages only, see Anonymous. WithEnv
// reads the ROBOTS_ variables. To cache pages, put an RFC 9111 cache around the Transport. A
// cached page costs no turn and no page of the budget.
func Conservative(userAgent string) Config {
	return Config{
		UserAgent: userAgent,
		Robots:    robotscache.Config{TTL: time.Hour, DenyTTL: 5 * time.Minute},
		Hosts: hostlimit.Config{
			Concurrency: 1,
			Delay: hostlimit.Delay{
				Min:      3 * time.Second,
				Max:      3 * time.Second,
				Adaptive: hostlimit.Fixed,
				FromEnd:  true,
			},
			Backoff: backoff.Refusals{
				Policy: backoff.Doubling{
					Start:  15 * time.Minute,
					Cap:    24 * time.Hour,
					Jitter: [2]float64{0.10, 0.20},
				},
				Statuses: []int{http.StatusForbidden},
				AtLeast:  true,
				Forgive:  24 * time.Hour, // a refusal hours later is a repeat, too
			},
		},
		Refuse:          Anonymous,
		StrictUserAgent: true,
	}
}

// Bulk is the policy of a crawler of many sites: 2 requests at once per host and 64 in all, at
// crawl-delay or 200 ms apart, slower as the host gets slower than usual (hostlimit.Slower: half
// the way to its response time at each answer) and where it refuses (hostlimit.Learned); a request
// that would wait for longer than 30 s is refused, with Error.RetryAt; 429 holds a host for
// Retry-After, else for a Fibonacci time of at most 600 s, and success clears it; 5 retries on 429,
// 5xx and network errors; bodies of at most 10 MiB; noindex and nofollow are looked for. Set
// Response.Accept and Reject for the types that the crawl wants.
func Bulk(userAgent string) Config {
	return Config{
		UserAgent: userAgent,
		Hosts: hostlimit.Config{
			Concurrency: 2,
			MaxInFlight: 64,
			Delay: hostlimit.Delay{
				Min:      200 * time.Millisecond,
				Max:      200 * time.Millisecond,
				Adaptive: hostlimit.Longest(hostlimit.Learned, hostlimit.Slower(1)),
			},
			MaxWait: 30 * time.Second,
			Backoff: backoff.Fibonacci{Unit: time.Second, Cap: 10 * time.Minute},
		},
		Retry:    Retry{Max: 5},
		Response: ResponseLimits{MaxBytes: 10 << 20, CheckIndexing: true},
	}
}

// Responsive is the policy of a crawler that follows the host's own pace: one request at a time per
// host, apart (from the end of one to the start of the next) by
//
//	max(0.5 to 1.5 s at random, crawl-delay, t², delay learned from refusals)
//
// where t is the last response time in seconds, of a failed exchange too, and t² is at most a day:
// after a page that took 20 s the host is left alone for 400 s, that is 6 min 40 s. Where
// robots.txt can't be had, nothing is fetched for 5 minutes. WithEnv lets
// ROBOTS_DEFAULT_DELAY_SECONDS change the mean of the random delay, which is 1 s. See
// hostlimit.Squared and hostlimit.Learned.
func Responsive(userAgent string) Config {
	return Config{
		UserAgent: userAgent,
		Hosts: hostlimit.Config{
			Concurrency: 1,
			Delay: hostlimit.Delay{
				Min:      500 * time.Millisecond,
				Max:      1500 * time.Millisecond,
				Adaptive: hostlimit.Longest(hostlimit.Squared, hostlimit.Learned),
				Ceiling:  24 * time.Hour,
				FromEnd:  true,
			},
			Backoff: backoff.Fibonacci{Unit: time.Second, Cap: 10 * time.Minute},
		},
	}
}
