package backoff

import (
	"math"
	"strings"
	"time"
)

// RetryAfter reads a Retry-After header field (RFC 9110, section 10.2.3) and
// returns how long the host asks to be left alone, counted from now. value is
// the field's value, date that of the response's Date field, empty if it had
// none. It reports false when value is neither a count of seconds nor one of
// the three forms of an HTTP date; `1.5`, `-1` and `soon` are neither.
//
// A date is measured against the response's own Date, so a host whose clock is
// wrong is still left alone for as long as it meant; without a readable Date it
// is measured against now. A date in the past is 0. A count that is too large
// for a time.Duration is its largest value: cap the result (as
// Refusals.MaxRetryAfter does) before adding to it.
func RetryAfter(value, date string, now time.Time) (time.Duration, bool) {
	value = strings.Trim(value, " \t")
	if d, ok := deltaSeconds(value); ok {
		return d, true
	}
	until, ok := httpDate(value, now)
	if !ok {
		return 0, false
	}
	if sent, ok := httpDate(strings.Trim(date, " \t"), now); ok {
		now = sent
	}
	return max(0, until.Sub(now)), true
}

// deltaSeconds reads 1*DIGIT, capped before it is multiplied.
func deltaSeconds(s string) (time.Duration, bool) {
	const most = math.MaxInt64 / int64(time.Second)
	var n int64
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n <= most {
			n = n*10 + int64(c-'0') // at most 10*most+9, which fits
		}
	}
	if n > most {
		return math.MaxInt64, true
	}
	return time.Duration(n) * time.Second, s != ""
}

// httpDate reads the three forms of RFC 9110, section 5.6.7. They allow a second 60,
// which package time doesn't know: it is the second after 59.
func httpDate(s string, now time.Time) (time.Time, bool) {
	if len(s) > len("Wednesday, 02-Jan-2006 15:04:05 GMT") {
		return time.Time{}, false // a server may send megabytes, which errors would quote
	}
	if i := strings.LastIndexByte(s, ':'); i >= 0 && strings.HasPrefix(s[i:], ":60") {
		t, ok := httpDate(s[:i]+":59"+s[i+3:], now)
		return t.Add(time.Second), ok
	}
	if t, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", s); err == nil {
		return t, true
	}
	if t, err := time.Parse("Monday, 02-Jan-06 15:04:05 GMT", s); err == nil {
		// Two digits of a year are those of the latest date that is at most 50 years ahead.
		years := 2000
		for t.AddDate(years, 0, 0).After(now.AddDate(50, 0, 0)) {
			years -= 100
		}
		return t.AddDate(years, 0, 0), true
	}
	t, err := time.Parse(time.ANSIC, s)
	return t, err == nil
}
