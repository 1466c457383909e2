// Package caching reads for how long an answer may be used again, as its server says (RFC 9111,
// section 4.2, for a private cache). It guesses nothing where the server says nothing.
package caching

import (
	"net/http"
	"strings"
	"time"
)

// longest is the most seconds that a value counts as (RFC 9111, section 1.2.2).
const longest = 1 << 31

// Lifetime returns for how long an answer with the header h may be used from now on: by max-age, or
// else until Expires by the clock of its server, less the Age that it has already. It is never
// below zero. ok is false if the server doesn't say. Lifetime allocates nothing.
func Lifetime(h http.Header) (d time.Duration, ok bool) {
	d, ok = MaxAge(h)
	if ok {
		return d, true
	}
	return untilExpires(h)
}

// MaxAge is Lifetime by Cache-Control alone. no-cache and no-store are a max-age of 0. Of several
// values the shortest counts, and malformed ones are ignored. s-maxage is for shared caches.
func MaxAge(h http.Header) (d time.Duration, ok bool) {
	seconds, ok := maxAge(h["Cache-Control"])
	if !ok {
		return 0, false
	}
	// Both are at most longest, so nothing overflows here.
	return time.Duration(max(seconds-age(h), 0)) * time.Second, true
}

// age returns the seconds that the response has been kept by caches; 0: not known.
func age(h http.Header) int64 {
	// Of a list the first value counts (RFC 9111, section 5.1).
	value, _, _ := strings.Cut(first(h, "Age"), ",")
	seconds, _ := deltaSeconds(value)
	return seconds
}

// untilExpires returns the lifetime by Expires. ok is false if there is none.
func untilExpires(h http.Header) (d time.Duration, ok bool) {
	values := h["Expires"]
	if len(values) == 0 {
		return 0, false
	}
	expires, ok := parseTime(values[0])
	// A server that means "now" sends 0 or -1 (RFC 9111, section 5.3), and two values contradict each
	// other.
	if !ok || len(values) > 1 {
		return 0, true
	}
	// Its own clock may be wrong, so both times are the server's. A recipient dates an answer that
	// has no Date (RFC 9110, section 6.6.1).
	date, ok := parseTime(first(h, "Date"))
	if !ok {
		date = time.Now()
	}
	d = expires.Sub(date) - time.Duration(age(h))*time.Second
	return min(max(d, 0), longest*time.Second), true
}

// first is Header.Get for a name that is canonical already.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// maxAge returns the shortest max-age of Cache-Control header lines; ok is false if there is none.
func maxAge(lines []string) (seconds int64, ok bool) {
	seconds = longest
	for _, line := range lines {
		for line != "" {
			var directive string
			directive, line = cutDirective(line)
			s, valid := directiveAge(directive)
			if valid {
				seconds = min(seconds, s)
				ok = true
			}
		}
	}
	return seconds, ok
}

// directiveAge returns the seconds that a directive of Cache-Control allows; ok is false if it is
// about something else, or malformed.
func directiveAge(directive string) (seconds int64, ok bool) {
	name, value, _ := strings.Cut(directive, "=")
	name = strings.TrimSpace(name)
	switch {
	case strings.EqualFold(name, "no-cache"), strings.EqualFold(name, "no-store"):
		// no-cache="field" is about single fields (RFC 9111, section 5.2.2.4).
		return 0, value == ""
	case strings.EqualFold(name, "max-age"):
		return deltaSeconds(strings.Trim(strings.TrimSpace(value), `"`))
	}
	return 0, false
}

// cutDirective cuts line at its first comma outside a quoted string.
func cutDirective(line string) (directive, rest string) {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '"':
			quoted = !quoted
		case '\\':
			if quoted {
				i++ // the character behind it stands for itself
			}
		case ',':
			if !quoted {
				return line[:i], line[i+1:]
			}
		}
	}
	return line, ""
}

// deltaSeconds parses digits; ok is false for anything else.
func deltaSeconds(s string) (seconds int64, ok bool) {
	s = strings.TrimSpace(s)
	for i := range len(s) {
		digit := s[i] - '0'
		if digit > 9 {
			return 0, false
		}
		seconds = min(10*seconds+int64(digit), longest)
	}
	return seconds, s != ""
}

// parseTime parses an HTTP date in any of its three forms (RFC 9110, section 5.6.7). It tries the
// one form that s may have, since an error of time.Parse is an allocation.
func parseTime(s string) (t time.Time, ok bool) {
	s = strings.TrimSpace(s)
	layout := http.TimeFormat
	switch comma := strings.IndexByte(s, ','); {
	case len(s) < len(time.ANSIC):
		return time.Time{}, false
	case comma < 0:
		layout = time.ANSIC
	case comma > 3:
		layout = "Monday, 02-Jan-06 15:04:05 GMT" // time.RFC850 makes a zone of any other word
	}
	t, err := time.Parse(layout, s)
	if err != nil {
		return time.Time{}, false
	}
	// Parse takes further spaces, and an hour of one digit: such a text is no date.
	var written [len("Wednesday, 02-Jan-06 15:04:05 GMT")]byte
	return t, len(t.AppendFormat(written[:0], layout)) == len(s)
}
