package backoff

import (
	"strings"
	"time"

	"github.com/go-politeness/politeness/internal/sfv"
)

// RateLimit reads a RateLimit header field: `"default";r=0;t=30`
// (draft-ietf-httpapi-ratelimit-headers-11, a List of RFC 9651), or the form of its drafts 6 and 7,
// `limit=60, remaining=0, reset=30`. If a quota has nothing left (r=0), RateLimit returns the time
// until that quota is reset (t, in seconds), at most an hour. If several quotas have nothing left,
// the latest reset counts. The result ok is false in three cases. Something is left of every quota,
// or the reset is missing, or the field is malformed. An item that isn't a string is ignored. If
// the field has several lines, join them with commas before you call RateLimit. Nothing is
// concluded from a quota that isn't used up, because neither r nor t promises anything.
func RateLimit(value string) (d time.Duration, ok bool) {
	if d, ok := dictionary(value); ok {
		return d, true
	}
	if !strings.Contains(value, "r=0") && !strings.Contains(value, "r=-0") {
		return 0, false // nearly always, so the field is parsed only where it matters
	}
	quotas, err := sfv.ParseList(value)
	if err != nil {
		return 0, false
	}
	for _, quota := range quotas {
		if _, named := quota.Value.(string); !named {
			continue
		}
		r, _ := quota.Params.Get("r")
		t, _ := quota.Params.Get("t")
		reset, isWhole := t.Value.(int64)
		usedUp := r.Value == int64(0)
		if usedUp && isWhole && reset >= 0 {
			d = max(d, min(seconds(float64(reset)), longestReset))
			ok = true
		}
	}
	return d, ok
}

// XRateLimit reads the older pair of fields that came before RateLimit. They are how many requests
// are left (X-RateLimit-Remaining, RateLimit-Remaining) and when the quota is reset
// (X-RateLimit-Reset, RateLimit-Reset). The reset may have any form that RetryAfter reads. If the
// reset is a point in time, it is compared with date, the response's Date header, or with now if
// the date can't be read. If there is no reset, the window of the quota counts. The field remaining
// may have it, as in `0;w=60`. It returns how long the host asks to be left alone, at most an hour.
// The result ok is true if nothing is left, and the reset is yet to come.
func XRateLimit(remaining, reset, date string, now time.Time) (d time.Duration, ok bool) {
	if !isUsedUp(remaining) {
		return 0, false
	}
	d, ok = asked(reset, sentAt(date, now))
	if !ok {
		d = window(remaining)
	}
	return min(d, longestReset), d > 0
}

// isUsedUp reports whether a number of requests that are left is 0. Of a list, one 0 is enough.
// Each number may have parameters.
func isUsedUp(remaining string) bool {
	if len(remaining) > longestField {
		return false
	}
	for quota := range strings.SplitSeq(remaining, ",") {
		number, _, _ := strings.Cut(quota, ";")
		left, ok := decimal(number)
		if ok && left == 0 {
			return true
		}
	}
	return false
}

// window returns the longest window of the quotas of a field, in which it is a parameter w of
// seconds, and 0 if there is none.
func window(remaining string) time.Duration {
	longest := time.Duration(0)
	for parameter := range strings.FieldsFuncSeq(remaining, isSeparator) {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		length, ok := decimal(value)
		if ok && strings.EqualFold(name, "w") {
			longest = max(longest, seconds(length))
		}
	}
	return longest
}

// dictionary reads the form of drafts 6 and 7, `limit=60, remaining=0, reset=30`.
func dictionary(field string) (time.Duration, bool) {
	if len(field) > longestField {
		return 0, false
	}
	usedUp := false
	d := time.Duration(0)
	for member := range strings.FieldsFuncSeq(field, isSeparator) {
		name, value, _ := strings.Cut(strings.TrimSpace(member), "=")
		n, ok := decimal(value)
		switch {
		case !ok:
		case strings.EqualFold(name, "remaining") && n == 0:
			usedUp = true
		case strings.EqualFold(name, "reset"):
			d = max(d, seconds(n))
		}
	}
	return min(d, longestReset), usedUp && d > 0
}

func isSeparator(c rune) bool { return c == ',' || c == ';' }

// longestReset caps the reset of a quota. A host that wants to be left alone for longer says so in
// Retry-After, and a reset in milliseconds looks like days.
const longestReset = time.Hour
