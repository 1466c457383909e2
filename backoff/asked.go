package backoff

import (
	"iter"
	"math"
	"strconv"
	"strings"
	"time"
)

// Hosts state a wait in many forms: a number, a number with a unit, a Unix time, a date with any
// zone, or several of them. These functions read a form that no RFC has as well, because a wait
// that is read too long costs the crawl some time, and one that isn't read costs the host a
// request.

// longestField bounds the length of a field that is more than digits. A host may send megabytes.
const longestField = 256

// asked returns for how long a field asks to be left alone, counted from sent. Of several values
// the longest counts. A fraction of a second is rounded up, and a time that has passed is 0. The
// result is false if no value can be read.
func asked(field string, sent time.Time) (time.Duration, bool) {
	field = strings.Trim(field, " \t")
	if isDigits(field) { // of any length
		return fromNumber(field, sent)
	}
	if len(field) > longestField {
		return 0, false
	}
	longest := time.Duration(0)
	found := false
	for value := range values(field) {
		wait, ok := fromValue(value, sent)
		if ok {
			longest = max(longest, wait)
			found = true
		}
	}
	return longest, found
}

// values returns the values of a list that is separated by commas or semicolons. The comma behind a
// weekday, as in "Sun, 06 Nov 1994", separates none.
func values(list string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start := 0
		for i, c := range list {
			if c != ',' && c != ';' || isWeekday(strings.TrimSpace(list[start:i])) {
				continue
			}
			if !yield(list[start:i]) {
				return
			}
			start = i + 1
		}
		yield(list[start:])
	}
}

// fromValue returns the wait that one value states.
func fromValue(value string, sent time.Time) (time.Duration, bool) {
	value, _, _ = strings.Cut(value, "(") // a comment, such as the name of a zone
	value = strings.Trim(value, " \t\"'")
	if wait, ok := fromNumber(value, sent); ok {
		return wait, true
	}
	if wait, ok := fromUnits(value); ok {
		return wait, true
	}
	if wait, ok := fromClock(value); ok {
		return wait, true
	}
	until, ok := moment(value, sent)
	if !ok {
		return 0, false
	}
	return max(0, until.Sub(sent)), true
}

// A number from leastUnix on is a Unix time, one from leastMillis on is in milliseconds, and one
// from endOfMillis on is a count of seconds again, longer than any policy grants.
const (
	leastUnix   = 1e9  // September 2001
	leastMillis = 1e12 // the same, in milliseconds
	endOfMillis = 1e15 // the year 33658
)

// fromNumber reads digits, perhaps with a fraction: a count of seconds or a Unix time.
func fromNumber(value string, sent time.Time) (time.Duration, bool) {
	n, ok := decimal(value)
	switch {
	case !ok:
		return 0, false
	case n < leastUnix:
		return seconds(n), true
	case n >= endOfMillis:
		return math.MaxInt64, true
	case n >= leastMillis:
		n /= 1000
	}
	whole := math.Floor(n)
	at := time.Unix(int64(whole), int64((n-whole)*1e9))
	return roundUp(at.Sub(sent)), true
}

// decimal reads digits, perhaps with a fraction.
func decimal(s string) (float64, bool) {
	s = strings.Trim(s, " \t")
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	tooLarge := math.IsInf(n, 0) // which ParseFloat returns with an error
	return n, err == nil || tooLarge
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// seconds returns n seconds, rounded up to whole ones. It is capped before it is multiplied.
func seconds(n float64) time.Duration {
	const most = math.MaxInt64 / int64(time.Second)
	n = math.Ceil(n)
	if n >= float64(most) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Second
}

// roundUp returns d in whole seconds, and 0 for a time that has passed.
func roundUp(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	whole := d.Truncate(time.Second)
	if whole == d || whole > math.MaxInt64-time.Second {
		return d
	}
	return whole + time.Second
}

// units are the units of time by their names, to which a plural's "s" may be added.
var units = map[string]time.Duration{
	"ms": time.Millisecond, "msec": time.Millisecond, "milli": time.Millisecond, "millisecond": time.Millisecond,
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour,
}

// fromUnits reads numbers with units: "60s", "5 minutes", "1h30m", and "PT1H30M" of ISO 8601.
func fromUnits(value string) (time.Duration, bool) {
	rest := strings.ToLower(value)
	if period, ok := strings.CutPrefix(rest, "p"); ok {
		rest = strings.Replace(period, "t", "", 1)
	}
	sum := 0.0 // of seconds
	for rest != "" {
		number := leading(rest, "0123456789.")
		rest = strings.TrimLeft(rest[len(number):], " \t")
		name := leading(rest, "abcdefghijklmnopqrstuvwxyz")
		rest = strings.TrimLeft(rest[len(name):], " \t")
		n, ok := decimal(number)
		unit := units[name]
		if unit == 0 {
			unit = units[strings.TrimSuffix(name, "s")]
		}
		if !ok || unit == 0 {
			return 0, false
		}
		sum += n * unit.Seconds()
	}
	return seconds(sum), value != ""
}

// fromClock reads hours, minutes and seconds, as .NET writes a length of time: "00:01:30".
func fromClock(value string) (time.Duration, bool) {
	parts := strings.Split(value, ":")
	if len(parts) != 3 {
		return 0, false
	}
	sum := 0.0
	for _, part := range parts {
		n, ok := decimal(part)
		if !ok {
			return 0, false
		}
		sum = 60*sum + n
	}
	return seconds(sum), true
}

// leading returns the longest beginning of s that has no other character than those of set.
func leading(s, set string) string { return s[:len(s)-len(strings.TrimLeft(s, set))] }
