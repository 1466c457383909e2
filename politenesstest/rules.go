package politenesstest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Rules define what is polite. The zero value asks for what the sites themselves have asked for.
// That is their robots.txt with its crawl-delay, their Retry-After, and a pause after failures and
// bans, see Rest.
type Rules struct {
	// Delay is the shortest gap between two starts on a host, those of robots.txt included. The
	// default is only the delay of robots.txt.
	Delay time.Duration
	// Concurrency is the largest number of requests in flight on a host, from the start to the end
	// of the body. The default is any number.
	Concurrency int
	// PerSite is the largest number of requests in flight over all ports and names of a registrable
	// domain, by the public suffix list with its private part, or of an address. The Transport
	// keeps 16 unless hostlimit.Config.PerSite is set. The default is any number.
	PerSite int
	// Agent is the product token, or the User-Agent, whose group of robots.txt applies. The default
	// is each request's own User-Agent header.
	Agent string
	// Refusals are the statuses whose Retry-After closes the host to every request that starts
	// later. The default is all from 400 on. A refusal without a Retry-After names no time and
	// closes nothing. Refusals are 429, a challenge by its header, and the statuses of this list.
	Refusals []int
	// Rest is the least time that a host rests after a bare 503, another 5xx, 408, 425 or no
	// response. The default is a second. If it is negative, there is none, not even after responses
	// in a row such as 403.
	Rest time.Duration
	// HostKey groups requests for gaps, concurrency and blocks, as that of politeness.Config does.
	// The default is the host, in one spelling, with a port that isn't 80 or 443. Robots.txt always
	// applies to its origin.
	HostKey func(*http.Request) string
	// Slack is the time by which a gap or a block may be too short. The default is nothing, which
	// is right inside a synctest bubble. In real time a start is recorded some time after it was
	// decided on, more or less of it each time, and a few milliseconds are in order.
	Slack time.Duration
	// RobotsMaxAge is how long a fetched robots.txt applies. The default is 24 h (RFC 9309, section
	// 2.4). A later start is measured by the present robots.txt, unless the site has become
	// unreachable.
	RobotsMaxAge time.Duration
	// AllowUnreachable tolerates fetches from sites whose robots.txt was unreachable (429, 5xx, a
	// network error), for crawlers that fail open. The default is false, so that nothing may be
	// fetched, except by a copy of less than 30 days that the crawler had.
	AllowUnreachable bool
	// IgnoreRobots checks nothing of robots.txt, for crawlers of your own sites.
	IgnoreRobots bool
}

func (r Rules) refusal(status int) bool {
	if r.Refusals == nil {
		return status == http.StatusTooManyRequests
	}
	return slices.Contains(r.Refusals, status)
}

// hostKey returns the host key of x, by what x's request was when it was sent.
func (r Rules) hostKey(x *exchange) string {
	if r.HostKey == nil {
		return machineOf(x.url)
	}
	req := &http.Request{Method: x.record.Method, URL: x.url, Header: x.record.Header.Clone(), Host: x.host}
	return r.HostKey(req.WithContext(x.req.Context()))
}

// maxShown is how many violations Check reports; more of them rarely say more.
const maxShown = 10

// Check fails t if there are [Web.Violations], with one message that lists the first of them, each
// in a line.
func (w *Web) Check(t testing.TB, r Rules) {
	t.Helper()
	violations := w.Violations(r)
	if len(violations) == 0 {
		return
	}
	var message strings.Builder
	fmt.Fprintf(&message, "%d requests, %d violations:", len(w.Requests()), len(violations))
	for _, v := range violations[:min(len(violations), maxShown)] {
		fmt.Fprintf(&message, "\n\t%v", v)
	}
	more := len(violations) - maxShown
	if more > 0 {
		fmt.Fprintf(&message, "\n\tand %d more", more)
	}
	t.Errorf("%s", message.String())
}
