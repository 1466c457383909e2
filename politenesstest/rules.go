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
	// Delay is the shortest gap between two starts on a host. Fetches of robots.txt are starts too.
	// The default is only the delay of robots.txt.
	Delay time.Duration
	// Concurrency is the largest number of requests in flight on a host, from the start to the end
	// of the body. The default is any number.
	Concurrency int
	// PerSite is the largest number of requests in flight to a site. A site is all ports and names
	// of a registrable domain, by the public suffix list with its private part. An address with its
	// ports is a site too. The default is any number. To test a Transport with the default
	// hostlimit.Config.PerSite, set 16.
	PerSite int
	// Agent is the product token, or the User-Agent, whose group of robots.txt applies. The default
	// is each request's own User-Agent header.
	Agent string
	// Refusals are the statuses whose Retry-After blocks the host. Until that time is over, no later
	// request may start. If a 429, a challenge by its header or a status of this list has no
	// Retry-After, it blocks nothing. The default is all statuses from 400 on.
	Refusals []int
	// Rest is the least pause of a host after a 503 without Retry-After, another 5xx, 408, 425 or no
	// response. The default is a second. If Rest is negative, no pause is needed, not even after a row
	// of responses such as 403.
	Rest time.Duration
	// HostKey groups requests for gaps, concurrency and blocks, as that of politeness.Config does.
	// The default is the host, in one spelling, with a port that isn't 80 or 443. Robots.txt always
	// applies to its origin.
	HostKey func(*http.Request) string
	// Slack is the time by which a gap or a block may be too short. The default is nothing, which is
	// right inside a synctest bubble. In real time, a start is recorded a little later than it was
	// decided. This delay varies, so set a few milliseconds.
	Slack time.Duration
	// RobotsMaxAge is how long a fetched robots.txt applies. The default is 24 h (RFC 9309, section
	// 2.4). A start after that time is measured by the robots.txt that the site has at that start.
	// If the last fetch found robots.txt unreachable, RobotsMaxAge doesn't apply.
	RobotsMaxAge time.Duration
	// AllowUnreachable allows fetches from sites whose robots.txt was unreachable (429, 5xx, a network
	// error). Set it for crawlers that fetch pages in that case. The default is false. Then nothing
	// may be fetched, unless the crawler had a copy of robots.txt of less than 30 days that allows it.
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
