package robotscache

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	minTTL   = 5 * time.Minute     // whatever a server asks for
	maxTTL   = 24 * time.Hour      // RFC 9309, section 2.4
	maxStale = 30 * 24 * time.Hour // RFC 9309, section 2.3.1.4
)

// lifetime returns how long an answer with header h may be used: max-age less Age (RFC 9111,
// sections 4.2.1 and 4.2.3), within [5 min, 24 h]; ok is false if the server doesn't say. no-cache
// and no-store are a max-age of 0; of several the shortest counts; malformed ones are ignored.
// s-maxage is for shared caches, and this is a private one.
func lifetime(h http.Header) (d time.Duration, ok bool) {
	seconds, ok := maxAge(h.Values("Cache-Control"))
	if !ok {
		return 0, false
	}
	age, _ := deltaSeconds(h.Get("Age"))
	// Both are at most longestDelta, so nothing overflows here. Without minTTL a slow host with a
	// lifetime of seconds would get a request of robots.txt for each page.
	return min(max(time.Duration(seconds-age)*time.Second, minTTL), maxTTL), true
}

// maxAge returns the shortest max-age of Cache-Control header lines; ok is false if there is none.
func maxAge(lines []string) (seconds int64, ok bool) {
	seconds = longestDelta
	for _, line := range lines {
		for line != "" {
			var directive string
			directive, line = cutDirective(line)
			name, value, _ := strings.Cut(directive, "=")
			var s int64
			var valid bool
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "no-cache", "no-store":
				// no-cache="field" is about single fields (RFC 9111, section 5.2.2.4).
				valid = value == ""
			case "max-age":
				s, valid = deltaSeconds(strings.Trim(strings.TrimSpace(value), `"`))
			}
			if valid {
				seconds = min(seconds, s)
				ok = true
			}
		}
	}
	return seconds, ok
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

// longestDelta is the most seconds that a value counts as (RFC 9111, section 1.2.2).
const longestDelta = 1 << 31

// deltaSeconds parses digits. Anything else is 0.
func deltaSeconds(s string) (seconds int64, ok bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 64)
	// A number beyond 64 bits is n's largest value, which means a very long time as well.
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return int64(min(n, longestDelta)), true
}
