package politeness

import (
	"net/http"
	"strings"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

// outcome reads what an answer says of its host, and in which words: a status, a challenge, quota
// fields with nothing left, or what the user's own eye sees.
func (trip *trip) outcome(resp *http.Response) hostlimit.Outcome {
	o := hostlimit.Outcome{Status: resp.StatusCode, RetryAfter: retryAfter(resp), Reset: reset(resp)}
	if mitigated := first(resp.Header, "Cf-Mitigated"); strings.EqualFold(mitigated, "challenge") {
		o.Refused = "cf-mitigated: challenge"
	}
	if refused := trip.t.refused; refused != nil && trip.kind == kindPage {
		if err := refused(resp); err != nil {
			o.Refused = err.Error()
		}
	}
	return o
}

// retryAfter reads the response's Retry-After (RFC 9110, section 10.2.3).
func retryAfter(resp *http.Response) time.Duration {
	_, d := longestRetryAfter(resp.Header)
	return d
}

// longestRetryAfter returns the Retry-After that counts, and how long it asks to stay away. There
// should be one; of several, as of a server and a gateway before it, that is the one that asks for
// most, and where none can be read the first.
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

// rateLimit returns the field that reset reads, or its older forms as "remaining=0, reset=30".
func rateLimit(h http.Header) string {
	if values := h["Ratelimit"]; len(values) > 0 {
		return strings.Join(values, ", ")
	}
	for _, prefix := range []string{"X-Ratelimit-", "Ratelimit-"} {
		if remaining := first(h, prefix+"Remaining"); remaining != "" {
			return "remaining=" + remaining + ", reset=" + first(h, prefix+"Reset")
		}
	}
	return ""
}

// reset returns how long it takes until a quota with nothing left is reset, by RateLimit or its
// older forms; 0 if something is left or nothing is said.
func reset(resp *http.Response) time.Duration {
	h := resp.Header
	if values := h["Ratelimit"]; len(values) > 0 {
		d, _ := backoff.RateLimit(strings.Join(values, ", "))
		return d
	}
	for _, prefix := range []string{"X-Ratelimit-", "Ratelimit-"} {
		if remaining := first(h, prefix+"Remaining"); remaining != "" {
			d, _ := backoff.XRateLimit(remaining, first(h, prefix+"Reset"), first(h, "Date"), time.Now())
			return d
		}
	}
	return 0
}
