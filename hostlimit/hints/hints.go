// Package hints reads the status and the header fields of a response into an Outcome. Use it when
// you call a limiter of package hostlimit without a politeness.Transport:
//
//	effect := lease.Observe(hints.Outcome(resp))
package hints

import (
	"net/http"
	"strings"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

// Outcome returns what resp says about its host: its status, Retry-After, the rate limit of which
// nothing is left, and whether it is a challenge. Set Latency and Resource before you call Observe:
// the response doesn't have them. For an attempt without a response use
// hostlimit.Outcome{Err: err}.
func Outcome(resp *http.Response) hostlimit.Outcome {
	_, o := Read(resp)
	return o
}

// Hints are the values of the header fields that make an Outcome, as text for a log. Each is empty
// if there is none.
type Hints struct {
	RetryAfter string // the Retry-After that counts
	RateLimit  string // fields of a rate limit of which nothing is left
	Refused    string // why the response is a refusal, whatever its status
}

// Read returns the Outcome of resp as function Outcome does, and the fields that it was read from.
func Read(resp *http.Response) (Hints, hostlimit.Outcome) {
	var h Hints
	o := hostlimit.Outcome{Status: resp.StatusCode}
	h.RetryAfter, o.RetryAfter = RetryAfter(resp.Header)
	h.RateLimit, o.Reset = quota(resp.Header)
	if strings.EqualFold(resp.Header.Get("Cf-Mitigated"), "challenge") {
		o.Refused = "cf-mitigated: challenge"
	}
	h.Refused = o.Refused
	return h, o
}

// RetryAfter returns the Retry-After (RFC 9110, section 10.2.3) that counts, and the wait that it
// asks for. A response should have one. If it has several, as of a server and of a gateway before
// the server, the longest wait counts. If none can be read, value is the first one and wait is 0.
func RetryAfter(h http.Header) (value string, wait time.Duration) {
	values := h["Retry-After"]
	if len(values) == 0 {
		return "", 0
	}
	counts := values[0]
	longest := time.Duration(0)
	now := time.Now()
	date := h.Get("Date")
	for _, value := range values {
		asked, ok := backoff.RetryAfter(value, date, now)
		if ok && asked > longest {
			counts = value
			longest = asked
		}
	}
	return counts, longest
}

// quota returns the fields of a rate limit of which nothing is left, its older forms as
// "remaining=0, reset=30", and the time until it is reset. Both are zero where something is left,
// or no field can be read.
func quota(h http.Header) (string, time.Duration) {
	// A server that sends the newer form has its say there, whatever older ones it sends beside.
	if values := h["Ratelimit"]; len(values) != 0 {
		fields := strings.Join(values, ", ")
		reset, _ := backoff.RateLimit(fields)
		if reset == 0 {
			return "", 0
		}
		return fields, reset
	}
	for _, names := range olderQuotas {
		remaining := h.Get(names.remaining)
		if remaining == "" {
			continue
		}
		at := h.Get(names.reset)
		if reset, ok := backoff.XRateLimit(remaining, at, h.Get("Date"), time.Now()); ok {
			return "remaining=" + remaining + ", reset=" + at, reset
		}
	}
	return "", 0
}

// olderQuotas are the names of the older forms, the commoner one first.
var olderQuotas = []struct{ remaining, reset string }{
	{"X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	{"Ratelimit-Remaining", "Ratelimit-Reset"},
}
