package robots

import (
	"strings"
	"time"
)

// Rules are a file's rules for one crawler, compiled. They are immutable and
// safe for concurrent use, and hold nothing of the File or the body that it was parsed from.
type Rules struct {
	compiled
	group string
	exact bool
}

// Test answers whether target may be fetched: path and query as they are sent, what
// URL.RequestURI returns (EscapedPath loses escapes). A fragment isn't looked at. What doesn't begin with
// a slash is taken for a URL and cut as by the function Target.
func (r *Rules) Test(target string) Verdict {
	if target == "" || target[0] != '/' {
		target = Target(target)
	}
	v := Verdict{Allowed: true, Group: r.group}
	var buf [512]byte
	path := target
	if n := plainPrefix(target, r.exact); n < len(target) {
		path = cut(target)
		if !r.exact {
			path = string(appendNormal(buf[:0], path))
		}
	}
	if path == robotsPath && !r.exact {
		return v
	}
	best := r.match(path)
	if best == none {
		return v
	}
	decided := &r.rules[best]
	v.Allowed = decided.rank.allows()
	v.Matched = decided.rank > 1
	v.Rule = r.text[decided.off:][:decided.len]
	v.Line = int(decided.line)
	return v
}

// robotsPath is what every crawler may fetch (RFC 9309 section 2.2.2).
const robotsPath = "/robots.txt"

// cut returns what Google's matcher sees of a target: up to a fragment or a NUL.
func cut(s string) string {
	if i := strings.IndexByte(s, '#'); i >= 0 {
		s = s[:i]
	}
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	return s
}

func plainPrefix(s string, exact bool) int {
	for i := range len(s) {
		switch c := s[i]; {
		case c == 0, c == '#':
			return i
		case exact:
		case c == '%', c == '*', c == '$', c >= 0x80:
			return i
		}
	}
	return len(s)
}

func (r *Rules) CrawlDelay() (time.Duration, bool) { return 0, false }

// Floor reports the gap between two starts that the file asks for at time t: the longer of
// crawl-delay and request-rate in force; 0 for none.
func (r *Rules) Floor(t time.Time) time.Duration { return 0 }
