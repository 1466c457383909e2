package hints

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/backoff"
)

// longestOther caps the wait of a field that isn't Retry-After itself: no standard says what such a
// field means, or in which unit.
const longestOther = time.Hour

// RetryAfter returns the Retry-After (RFC 9110, section 10.2.3) that counts, and the wait that it
// asks for. A response should have one. If it has several, as of a server and of a gateway before
// the server, the longest wait counts. If none can be read, value is the first one and wait is 0.
//
// Fields with the same meaning count as well, at most an hour. They are Retry-After-Ms,
// Retry-After-short for the limit of that name, and X-Retry-In. If one of these fields asks for the
// longest wait, value is the value of that field with its unit, or "3600" if that is more than an
// hour.
func RetryAfter(h http.Header) (value string, wait time.Duration) {
	retries, _ := others(h)
	return retryAfter(h, retries)
}

// retryAfter returns the Retry-After that counts. others are the names of the fields that mean
// Retry-After but have another name.
func retryAfter(h http.Header, others []string) (value string, wait time.Duration) {
	if len(h["Retry-After"]) == 0 && len(others) == 0 { // nearly always
		return "", 0
	}
	now := time.Now()
	date := h.Get("Date")
	for i, line := range h["Retry-After"] {
		asked, _ := backoff.RetryAfter(line, date, now)
		if i == 0 || asked > wait {
			value = line
			wait = asked
		}
	}
	for _, name := range others {
		line := valueOf(h, name)
		asked, _ := backoff.RetryAfter(line, date, now)
		if asked > longestOther {
			asked = longestOther
			line = "3600"
		}
		if asked > wait {
			value = line
			wait = asked
		}
	}
	return value, wait
}

// others returns the names of the fields that mean Retry-After but have another name, and of those
// by which a rate limit may be used up, each in order.
func others(h http.Header) (retries, remainders []string) {
	for name, lines := range h { // nearly always in vain, so the quickest test comes first
		switch {
		case strings.Contains(name, "etry") && isRetry(name):
			retries = append(retries, name)
		case strings.Contains(name, "emaining") && slices.ContainsFunc(lines, mayBeZero) && isRemaining(name):
			remainders = append(remainders, name)
		}
	}
	slices.Sort(retries)
	slices.Sort(remainders)
	return retries, remainders
}

// isRetry reports whether a field means Retry-After but has another name, such as Retry-After-Ms.
func isRetry(name string) bool {
	plain := plainName(name)
	return name != "Retry-After" && (strings.Contains(plain, "retryafter") || strings.Contains(plain, "retryin"))
}

// isRemaining reports whether a field has the number of requests that a rate limit leaves. Examples
// are X-RateLimit-Remaining, Rate-Limit-Remaining and X-RateLimit-Remaining-short.
func isRemaining(name string) bool {
	plain := plainName(name)
	return strings.Contains(plain, "ratelimit") && strings.Contains(plain, "remaining")
}

// mayBeZero reports whether a line begins with a 0, or is a list.
func mayBeZero(line string) bool {
	return strings.HasPrefix(strings.TrimSpace(line), "0") || strings.Contains(line, ",")
}

// valueOf returns the lines of a field as a list, with the unit that its name has.
func valueOf(h http.Header, name string) string {
	line := strings.Join(h[name], ", ")
	if !inMilliseconds(name) {
		return line
	}
	line = strings.ReplaceAll(line+",", ",", "ms,")
	return strings.TrimSuffix(line, ",")
}

// inMilliseconds reports whether a field's name says that its value is in milliseconds.
func inMilliseconds(name string) bool {
	plain := plainName(name)
	return strings.HasSuffix(plain, "ms") || strings.HasSuffix(plain, "millis") ||
		strings.HasSuffix(plain, "milliseconds")
}

// rateLimit returns the fields of a rate limit that is used up, and the time until it is reset. It
// writes older forms as "remaining=0, reset=30". remainders are the names of the fields of older
// forms. Both results are zero if something is left, or if no field can be read.
func rateLimit(h http.Header, remainders []string) (string, time.Duration) {
	// If a server sends the newer form, its older ones don't count.
	if values := h["Ratelimit"]; len(values) != 0 {
		fields := strings.Join(values, ", ")
		reset, _ := backoff.RateLimit(fields)
		if reset == 0 {
			return "", 0
		}
		return fields, reset
	}
	text := ""
	longest := time.Duration(0)
	for _, name := range remainders {
		remaining := strings.Join(h[name], ", ")
		at := resetOf(h, name)
		reset, ok := backoff.XRateLimit(remaining, at, h.Get("Date"), time.Now())
		if ok && reset > longest {
			text = "remaining=" + remaining + ", reset=" + at
			longest = reset
		}
	}
	return text, longest
}

// resetOf returns the lines of the field with the reset of a rate limit. remaining is the name of
// the field with its remaining requests. The result is empty if there is no such field.
func resetOf(h http.Header, remaining string) string {
	quota := plainName(remaining)
	before, after, _ := strings.Cut(quota, "remaining")
	exact := fieldsOf(h, func(plain string) bool { return isResetOf(plain, quota) })
	if len(exact) == 0 && after == "" { // such as X-RateLimit-Reset-Ts
		exact = fieldsOf(h, func(plain string) bool { return strings.HasPrefix(plain, before+"reset") })
	}
	return strings.Join(exact, ", ")
}

// isResetOf reports whether a plain name is that of the reset of a quota, whose plain name has
// another word in its place.
func isResetOf(plain, quota string) bool {
	before, after, _ := strings.Cut(quota, "remaining")
	word, hasBefore := strings.CutPrefix(plain, before)
	word, hasAfter := strings.CutSuffix(word, after)
	return hasBefore && hasAfter && slices.Contains(resetWords, word)
}

// fieldsOf returns the values of the fields whose plain names are of the given kind, in order.
func fieldsOf(h http.Header, isOfKind func(plain string) bool) []string {
	var values []string
	for name := range h {
		if isOfKind(plainName(name)) {
			values = append(values, valueOf(h, name))
		}
	}
	slices.Sort(values)
	return values
}

// resetWords are the words for the reset of a rate limit in names of fields.
var resetWords = []string{"resetafter", "resettime", "resetat", "resetin", "reset"}

// bareReset returns the reset of a rate limit, whose field doesn't tell how much is left of it. It
// is for a 429, which tells that nothing is. The reset of a quota with something left isn't meant.
func bareReset(h http.Header, remainders []string) (string, time.Duration) {
	var full []string // plain names of quotas with something left
	for name, lines := range h {
		isMore := slices.ContainsFunc(lines, func(n string) bool { return !strings.HasPrefix(n, "-") })
		if isMore && isRemaining(name) && !slices.Contains(remainders, name) {
			full = append(full, plainName(name))
		}
	}
	isLeft := len(remainders) == 0 && len(full) > 0
	if len(h["Ratelimit"]) > 0 || isLeft {
		return "", 0
	}
	resets := fieldsOf(h, func(plain string) bool {
		isOfFull := slices.ContainsFunc(full, func(quota string) bool { return isResetOf(plain, quota) })
		return strings.Contains(plain, "ratelimitreset") && !isOfFull
	})
	at := strings.Join(resets, ", ")
	if at == "" {
		at = windowOf(remainders)
	}
	reset, _ := backoff.XRateLimit("0", at, h.Get("Date"), time.Now())
	if reset == 0 {
		return "", 0
	}
	return "remaining=, reset=" + at, reset
}

// windowOf returns the length of the longest window that the names of empty quotas state, in
// seconds, such as 60 for X-RateLimit-Remaining-Minute. It is empty if there is none.
func windowOf(remainders []string) string {
	longest := time.Duration(0)
	for _, name := range remainders {
		_, unit, _ := strings.Cut(plainName(name), "remaining")
		length, _ := backoff.RetryAfter("1 "+unit, "", time.Now())
		if unit != "" {
			longest = max(longest, length)
		}
	}
	if longest == 0 {
		return ""
	}
	return strconv.Itoa(int(longest.Seconds()))
}

// usedUp returns the field that says that nothing is left of a rate limit, as text for people. It
// is empty if there is none.
func usedUp(h http.Header, remainders []string) string {
	for _, name := range remainders {
		remaining := strings.Join(h[name], ", ")
		if _, isUp := backoff.XRateLimit(remaining, "1", "", time.Time{}); isUp {
			return strings.ToLower(name) + ": " + remaining
		}
	}
	return ""
}

// hyphens are what separates the words of names, which differ in it.
var hyphens = strings.NewReplacer("-", "", "_", "")

// plainName returns a field's name in lower case, without hyphens.
func plainName(name string) string { return strings.ToLower(hyphens.Replace(name)) }
