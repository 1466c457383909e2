// Package hints reads the status and the header fields of a response into an Outcome. Use it when
// you call a limiter of package hostlimit without a politeness.Transport:
//
//	effect := lease.Observe(hints.Outcome(resp))
package hints

import (
	"net/http"

	"github.com/go-politeness/politeness/hostlimit"
)

// Outcome returns the hostlimit.Outcome of resp. It has the status, Retry-After, an exhausted rate
// limit, and whether resp is a challenge. Set Latency and Resource before you call Observe, because
// the response doesn't have them. For an attempt without a response use hostlimit.Outcome{Err:
// err}.
func Outcome(resp *http.Response) hostlimit.Outcome {
	_, o := Read(resp)
	return o
}

// Hints are the values of the header fields that make an Outcome, as text for a log. Each is empty
// if there is none.
type Hints struct {
	RetryAfter string // the Retry-After that counts, or another field's value in its place
	RateLimit  string // fields of a rate limit of which nothing is left
	Refused    string // why the response is a refusal, for any status
}

// Read returns the Outcome of resp as function Outcome does, and the fields that it was read from.
func Read(resp *http.Response) (Hints, hostlimit.Outcome) {
	var h Hints
	o := hostlimit.Outcome{Status: resp.StatusCode}
	retries, remainders := others(resp.Header)
	h.RetryAfter, o.RetryAfter = retryAfter(resp.Header, retries)
	h.RateLimit, o.Reset = rateLimit(resp.Header, remainders)
	if resp.StatusCode == http.StatusTooManyRequests && o.Reset == 0 {
		h.RateLimit, o.Reset = bareReset(resp.Header, remainders)
	}
	o.Refused = Challenge(resp)
	// A 5xx may be the page's own. One of a host with nothing left, which names no time, is the
	// host's.
	isFailure := resp.StatusCode/100 == 5 && o.Refused == ""
	if isFailure && o.Reset == 0 && o.RetryAfter == 0 {
		o.Refused = usedUp(resp.Header, remainders)
	}
	h.Refused = o.Refused
	return h, o
}
