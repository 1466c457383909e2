package robots

import (
	"strings"
	"time"
)

// Rules are a file's rules for one crawler, compiled. They are immutable and
// safe for concurrent use, and hold nothing of the File or the body that it was parsed from.
type Rules struct {
	compiled
	group  string
	exact  bool
	extras *extras // nil: all zero
}

// Test answers whether target may be fetched: path and query as they are sent, what
// URL.RequestURI returns (EscapedPath loses escapes). A fragment isn't looked at. What doesn't begin with
// a slash is taken for a URL and cut as by the function Target.
func (r *Rules) Test(target string) Verdict {
	v := Verdict{Allowed: true, Group: r.group}
	var buf [512]byte
	path := r.normal(target, buf[:0])
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

// normal returns the path that target is compared as; buf may serve to hold it.
func (r *Rules) normal(target string, buf []byte) string {
	if target == "" || target[0] != '/' {
		target = Target(target)
	}
	n := plainPrefix(target, r.exact)
	if n == len(target) {
		return target
	}
	target = cut(target)
	if r.exact {
		return target
	}
	return string(appendNormal(buf, target))
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

// extras are what groups say beside rules. Most say little, so Rules keep a pointer.
type extras struct {
	delay    time.Duration
	hasDelay bool
	rates    []Rate
	visits   []Window
	signal   Signal
	usages   []usage
	licenses []string
}

// extra returns r.extras, or that of a crawler that is told nothing.
func (r *Rules) extra() *extras {
	if r.extras == nil {
		return &noExtras
	}
	return r.extras
}

var noExtras extras

// keep returns x for Rules: nil if there is nothing in it.
func (x extras) keep() *extras {
	if !x.hasDelay && x.rates == nil && x.visits == nil && x.signal.Line == 0 && x.usages == nil && x.licenses == nil {
		return nil
	}
	return &x
}

// add takes in a line of a group of the crawler's that is no rule.
func (x *extras) add(l *line, exact bool) {
	switch fieldOf(l.key) {
	case fieldCrawlDelay:
		if d, ok := parseSeconds(l.value); ok {
			x.delay, x.hasDelay = max(x.delay, d), true
		}
	case fieldRequestRate:
		if rate, ok := parseRate(l.value); ok {
			rate.Line = l.num
			x.rates = append(x.rates, rate)
		}
	case fieldVisitTime:
		if w, ok := parseWindow(l.value); ok {
			x.visits = append(x.visits, w)
		}
	case fieldContentSignal:
		x.signal.add(l.value, l.num)
	case fieldContentUsage:
		x.usages = append(x.usages, parseUsage(l, exact))
	case fieldLicense:
		x.licenses = append(x.licenses, strings.Clone(l.value))
	}
}
