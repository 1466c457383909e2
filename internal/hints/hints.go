// Package hints reads the header fields of a response that concern its host.
package hints

import (
	"net/http"
	"strings"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

// Hints are the values of such fields, as records have them; each is empty if there is none.
type Hints struct {
	RetryAfter string // the Retry-After that counts
	RateLimit  string // fields of a rate limit of which nothing is left
	Refused    string // why the response is a refusal, whatever its status
}

// Read returns the hints in the header of resp, as text and as an Outcome, which has the status
// too.
func Read(resp *http.Response) (Hints, hostlimit.Outcome) {
	var h Hints
	o := hostlimit.Outcome{Status: resp.StatusCode}
	h.RetryAfter, o.RetryAfter = LongestRetryAfter(resp.Header)
	h.RateLimit, o.Reset = quota(resp.Header)
	if strings.EqualFold(First(resp.Header, "Cf-Mitigated"), "challenge") {
		o.Refused = "cf-mitigated: challenge"
	}
	h.Refused = o.Refused
	return h, o
}

// LongestRetryAfter returns the Retry-After (RFC 9110, section 10.2.3) that counts, and how long it
// asks to stay away. There should be one; of several, as of a server and a gateway before it, that
// is the one that asks for most, and where none can be read the first.
func LongestRetryAfter(h http.Header) (string, time.Duration) {
	values := h["Retry-After"]
	if len(values) == 0 {
		return "", 0
	}
	counts := values[0]
	longest := time.Duration(0)
	now := time.Now()
	date := First(h, "Date")
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
		remaining := First(h, names.remaining)
		if remaining == "" {
			continue
		}
		at := First(h, names.reset)
		if reset, ok := backoff.XRateLimit(remaining, at, First(h, "Date"), time.Now()); ok {
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

// First is Header.Get for a name that is canonical already.
func First(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}
