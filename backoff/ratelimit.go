package backoff

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/internal/sfv"
)

// RateLimit reads a RateLimit header field: `"default";r=0;t=30`
// (draft-ietf-httpapi-ratelimit-headers-11, a List of RFC 9651). It returns how long the host asks
// to be left alone, which it does where a quota has nothing left (r=0): until that quota is reset
// (t, in seconds), the last of several. ok is false where something is left of every quota, where
// nothing is said of the reset, and for a malformed field, which is to be ignored as a whole; an
// item that isn't a string is ignored, too. Several lines of the field are joined by commas before.
// Nothing is concluded from a quota that isn't used up: neither r nor t promises anything.
func RateLimit(value string) (d time.Duration, ok bool) {
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
			d = max(d, seconds(reset))
			ok = true
		}
	}
	return d, ok
}

// XRateLimit reads the older pair of fields that came before RateLimit: how many requests are left
// (X-RateLimit-Remaining, RateLimit-Remaining) and when the quota is reset (X-RateLimit-Reset,
// RateLimit-Reset), which is a number of seconds below 1e9, and a Unix time from there on. date is
// the response's Date header, by which a Unix time is read; where it isn't one, now is. It returns
// how long the host asks to be left alone, and whether it does: nothing is left, and the reset is
// yet to come.
func XRateLimit(remaining, reset, date string, now time.Time) (d time.Duration, ok bool) {
	left, ok := decimal(remaining)
	if !ok || left > 0 {
		return 0, false
	}
	at, ok := decimal(reset)
	if !ok || at == 0 {
		return 0, false
	}
	if at < leastUnix { // a number of seconds from now
		return time.Duration(at * float64(time.Second)), true
	}
	if at >= leastMillis {
		at /= 1000
	}
	// The host's clock may be wrong, but the two times are of the same one.
	if sent, ok := httpDate(strings.Trim(date, " \t"), now); ok {
		now = sent
	}
	wait := at - float64(now.UnixNano())/1e9
	if wait <= 0 {
		return 0, false
	}
	return seconds(int64(min(wait, longestReset))), true
}

// decimal reads digits, with a fraction perhaps.
func decimal(s string) (float64, bool) {
	s = strings.Trim(s, " \t")
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil && strings.Trim(s, "0123456789.") == ""
}

// seconds returns n seconds, at most longestReset.
func seconds(n int64) time.Duration { return time.Duration(min(n, longestReset)) * time.Second }

const (
	longestReset = 1e9  // seconds: some thirty years
	leastUnix    = 1e9  // a reset from here on is a Unix time: September 2001 and later
	leastMillis  = 1e12 // one from here on is a Unix time in milliseconds
)
