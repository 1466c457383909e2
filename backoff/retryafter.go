package backoff

import (
	"strings"
	"time"
)

// RetryAfter reads a Retry-After header field (RFC 9110, section 10.2.3) and returns how long the
// host asks to be left alone, counted from now. The parameter value is the value of the field. The
// parameter date is the value of the response's Date field, or empty if there is none. RetryAfter
// reports false if value can't be read.
//
// Beyond the two forms of the RFC, it reads other values that hosts send, such as fractions,
// rounded up to whole seconds (`7.978`), units (`60s`, `5 minutes`, `500ms`), `00:01:30`, a Unix
// time in seconds or milliseconds, dates with another zone or without one, dates of ISO 8601 and of
// JavaScript, and lists, of which the longest time counts. A negative number can't be read, nor can
// a word such as `soon`.
//
// A date is measured against the response's own Date, so that a host whose clock is wrong is still
// left alone for as long as it meant. Without a readable Date it is measured against now. A date in
// the past is 0. If a count is too large for a time.Duration, the result is the largest Duration.
// So cap the result before you add to it, as Refusals.MaxRetryAfter does.
func RetryAfter(value, date string, now time.Time) (time.Duration, bool) {
	return asked(value, sentAt(date, now))
}

// sentAt returns the time of a response by the host's own clock, which its Date field has, and now
// if that can't be read.
func sentAt(date string, now time.Time) time.Time {
	sent, ok := moment(strings.Trim(date, " \t"), now)
	if !ok {
		return now
	}
	return sent
}
