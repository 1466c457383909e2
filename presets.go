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

// SiteAudit is the policy of a site audit with proof. Use it to check one site whose owner wants to
// see what was done. Its budget is 200 pages and 60 minutes, with warnings at 80 %. A host gets 2
// concurrent requests, 200 to 500 ms apart, or a crawl-delay if that is longer. The delay grows if
// the host refuses (hostlimit.Learned). A request waits at most 10 s for a slot. A slot that isn't
// used for 300 s is taken back. If robots.txt can't be fetched, the audit continues, and its
// evidence has confidence "low". A group of robots.txt applies also if its name is only a part of
// the crawler's product token, or contains the token (robots.Options.LenientAgents). Set Evidence.
// WithEnv lets the operator change the policy. Useful here are MAX_PAGES, MAX_SCAN_TIME_MINUTES and
// USER_AGENT.
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

// Conservative is the policy of a research crawler. Use it if no host may complain, and time
// doesn't matter. A host gets one request at a time. The next one starts 3 s after the end of the
// last, or a crawl-delay if that is longer. A 403 or 429 blocks the host for 15 minutes, doubling
// on repeats to 24 h, with 10 to 20 % jitter. A longer Retry-After applies instead. A copy of
// robots.txt is kept for 1 h. If robots.txt can't be fetched, no page is fetched for 5 minutes. The
// User-Agent must contain product, version and a mail address. Otherwise New returns an error.
// Config.Refuse is Anonymous, so a request with credentials, or with a method other than GET and
// HEAD, ends with an error. WithEnv lets the operator change the policy. Useful here are the
// ROBOTS_ variables. To cache pages, put an RFC 9111 cache around the Transport. A cached page
// costs no delay and no page of the budget.
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

// Bulk is the policy of a crawler of many sites. Use it to fetch much from many hosts. All hosts
// together get 64 concurrent requests, and a host gets 2. Requests to a host are a crawl-delay or
// 200 ms apart. The delay grows if the host refuses (hostlimit.Learned). It grows too if the host
// gets slower than usual (hostlimit.Slower). Each slow response then moves the delay at most half
// the way to its response time. A request doesn't wait longer than 30 s. Instead you get an error
// with Error.RetryAt. A 429 blocks the host for Retry-After. Without Retry-After the blocks grow as
// the Fibonacci numbers do (1, 1, 2, 3, 5 s and so on), to at most 600 s. If the host still refuses
// after two blocks of 600 s, each further block is twice as long as the one before, to at most 4 h.
// A success ends the block. A request has up to 5 retries after 429, 5xx and network errors. Bodies
// have at most 10 MiB. Directives noindex and nofollow are read. Set Response.Accept and Reject for
// the types that the crawl wants.
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

// Responsive is the policy of a crawler that follows the host's own pace. Use it for small or slow
// servers. A host gets one request at a time. The time from the end of one to the start of the next
// is
//
//	max(0.5 to 1.5 s at random, crawl-delay, t², delay learned from refusals)
//
// Here t is the last response time in seconds. A 5xx, or no response, counts only from the second
// failure in a row on (hostlimit.Adaptive). The square t² is at most a day. For example, after a
// page that took 20 s the delay is 400 s. If robots.txt can't be fetched, nothing is fetched for 5
// minutes. WithEnv lets ROBOTS_DEFAULT_DELAY_SECONDS change the mean of the random delay, which is
// 1 s. See hostlimit.Squared and hostlimit.Learned.
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
