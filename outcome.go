package politeness

import (
	"net/http"
	"strings"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

// outcome reads what an answer says of its host: a status, a challenge, quota fields with nothing
// left, or what the user's own eye sees. In which words goes to trip.told.
func (trip *trip) outcome(resp *http.Response) hostlimit.Outcome {
	o := hostlimit.Outcome{Status: resp.StatusCode}
	trip.told.retryAfter, o.RetryAfter = longestRetryAfter(resp.Header)
	trip.told.rateLimit, o.Reset = quota(resp.Header)
	if mitigated := first(resp.Header, "Cf-Mitigated"); strings.EqualFold(mitigated, "challenge") {
		o.Refused = "cf-mitigated: challenge"
	}
	if refused := trip.t.refused; refused != nil && trip.kind == kindPage {
		if err := refused(resp); err != nil {
			o.Refused = err.Error()
		}
	}
	trip.told.refused = o.Refused
	return o
}

// longestRetryAfter returns the Retry-After (RFC 9110, section 10.2.3) that counts, and how long it
// asks to stay away. There should be one; of several, as of a server and a gateway before it, that is
// the one that asks for most, and where none can be read the first.
func longestRetryAfter(h http.Header) (value string, d time.Duration) {
	values := h["Retry-After"]
	if len(values) == 0 {
		return "", 0
	}
	value = values[0]
	now, date := time.Now(), first(h, "Date")
	for _, v := range values {
		if asked, ok := backoff.RetryAfter(v, date, now); ok && asked > d {
			value, d = v, asked
		}
	}
	return value, d
}

// quota returns the fields of a rate limit of which nothing is left, its older forms as
// "remaining=0, reset=30", and how long it takes until it is reset. Both are zero where something is
// left, nothing is said, or it can't be read.
func quota(h http.Header) (fields string, reset time.Duration) {
	if values := h["Ratelimit"]; len(values) != 0 {
		fields = strings.Join(values, ", ")
		if reset, _ = backoff.RateLimit(fields); reset == 0 {
			return "", 0
		}
		return fields, reset
	}
	for _, prefix := range []string{"X-Ratelimit-", "Ratelimit-"} {
		if remaining := first(h, prefix+"Remaining"); remaining != "" {
			at := first(h, prefix+"Reset")
			if reset, ok := backoff.XRateLimit(remaining, at, first(h, "Date"), time.Now()); ok {
				return "remaining=" + remaining + ", reset=" + at, reset
			}
		}
	}
	return "", 0
}
