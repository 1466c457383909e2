package backoff

import (
	"strconv"
	"strings"
	"time"
)

// RateLimit reads a RateLimit header field: `"default";r=0;t=30` (draft-ietf-httpapi-ratelimit-headers-11, a List of RFC 9651). It returns how long the host
// asks to be left alone, which it does where a quota has nothing left (r=0): until that quota is
// reset (t, in seconds), the last of several. ok is false where something is left of every quota,
// where nothing is said of the reset, and for a malformed field, which is to be ignored as a whole.
// Several lines of the field are joined by commas before. Nothing is concluded from a quota that
// isn't used up: neither r nor t promises anything.
func RateLimit(value string) (d time.Duration, ok bool) {
	p := fieldParser{rest: value}
	p.skip(" ")
	for {
		r, t := int64(-1), int64(-1)
		p.member(func(key string, n int64) {
			switch key {
			case "r":
				r = n
			case "t":
				t = n
			}
		})
		if r == 0 && t >= 0 {
			d, ok = max(d, seconds(t)), true
		}
		p.skip(" \t")
		switch {
		case p.bad:
			return 0, false
		case p.rest == "":
			return d, ok
		case !p.take(","):
			return 0, false
		}
		if p.skip(" \t"); p.rest == "" { // a comma needs something behind it
			return 0, false
		}
	}
}

// XRateLimit reads the older pair of fields that came before RateLimit: how many requests are left
// (X-RateLimit-Remaining, RateLimit-Remaining) and when the quota is reset (X-RateLimit-Reset,
// RateLimit-Reset), which is a number of seconds below 1e9, and a Unix time from there on. date is
// the response's Date header, by which a Unix time is read; where it isn't one, now is. It returns
// how long the host asks to be left alone, and whether it does: nothing is left, and the reset is
// yet to come.
func XRateLimit(remaining, reset, date string, now time.Time) (d time.Duration, ok bool) {
	if left, ok := decimal(remaining); !ok || left > 0 {
		return 0, false
	}
	at, ok := decimal(reset)
	if !ok || at == 0 {
		return 0, false
	}
	if at < 1e9 {
		return time.Duration(at * float64(time.Second)), true
	}
	if at >= 1e12 { // in milliseconds
		at /= 1000
	}
	if sent, ok := httpDate(strings.Trim(date, " \t"), now); ok {
		now = sent
	}
	if at -= float64(now.UnixNano()) / 1e9; at <= 0 {
		return 0, false
	}
	return seconds(int64(min(at, 1e9))), true
}

// decimal reads digits, with a fraction perhaps.
func decimal(s string) (float64, bool) {
	s = strings.Trim(s, " \t")
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil && strings.Trim(s, "0123456789.") == ""
}

// seconds is n seconds, at most some thirty years.
func seconds(n int64) time.Duration { return time.Duration(min(n, 1e9)) * time.Second }

// A fieldParser reads a structured field (RFC 9651, section 4.2) from its beginning.
type fieldParser struct {
	rest string
	bad  bool
}

func (p *fieldParser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

func (p *fieldParser) skip(chars string) { p.rest = strings.TrimLeft(p.rest, chars) }

// while takes the characters at the beginning that belong.
func (p *fieldParser) while(belongs func(byte) bool) string {
	i := 0
	for i < len(p.rest) && belongs(p.rest[i]) {
		i++
	}
	taken := p.rest[:i]
	p.rest = p.rest[i:]
	return taken
}

// member reads an item of a list with its parameters, and reports those that are integers.
func (p *fieldParser) member(param func(key string, n int64)) {
	if p.take("(") {
		for p.skip(" "); !p.take(")"); p.skip(" ") {
			if p.item(); p.bad {
				return
			}
			p.params(func(string, int64) {})
			if p.bad || p.rest == "" || p.rest[0] != ' ' && p.rest[0] != ')' {
				p.bad = true
				return
			}
		}
	} else {
		p.item()
	}
	p.params(param)
}

func (p *fieldParser) params(param func(key string, n int64)) {
	for !p.bad && p.take(";") {
		p.skip(" ")
		key := p.while(func(c byte) bool {
			return 'a' <= c && c <= 'z' || isDigit(c) || strings.IndexByte("_-.*", c) >= 0
		})
		if key == "" || key[0] != '*' && (key[0] < 'a' || key[0] > 'z') {
			p.bad = true
			return
		}
		if !p.take("=") {
			continue // true
		}
		if n, ok := p.item(); ok {
			param(key, n)
		}
	}
}

// item reads a bare item, and returns it if it is an integer.
func (p *fieldParser) item() (n int64, isInteger bool) {
	if p.bad || p.rest == "" {
		p.bad = true
		return 0, false
	}
	switch c := p.rest[0]; {
	case c == '-' || isDigit(c):
		return p.number()
	case c == '"':
		p.rest = p.rest[1:]
		p.quoted()
	case c == '%':
		if p.bad = !p.take(`%"`); !p.bad {
			p.quoted()
		}
	case c == ':':
		p.rest = p.rest[1:]
		p.while(func(c byte) bool { return isLetter(c) || isDigit(c) || strings.IndexByte("+/=", c) >= 0 })
		p.bad = !p.take(":")
	case c == '?':
		p.bad = !p.take("?0") && !p.take("?1")
	case c == '@':
		p.rest = p.rest[1:]
		_, whole := p.number()
		p.bad = p.bad || !whole
	case c == '*' || isLetter(c):
		p.while(func(c byte) bool {
			return isLetter(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
		})
	default:
		p.bad = true
	}
	return 0, false
}

// number reads an integer of at most 15 digits, or a decimal of at most 12 and 3.
func (p *fieldParser) number() (n int64, isInteger bool) {
	negative := p.take("-")
	whole := p.while(isDigit)
	if whole == "" || len(whole) > 15 {
		p.bad = true
		return 0, false
	}
	if p.take(".") {
		fraction := p.while(isDigit)
		p.bad = len(whole) > 12 || fraction == "" || len(fraction) > 3
		return 0, false
	}
	n, _ = strconv.ParseInt(whole, 10, 64) // 15 digits always fit
	if negative {
		n = -n
	}
	return n, true
}

// quoted reads the rest of a string behind its first quote.
func (p *fieldParser) quoted() {
	for i := 0; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			p.rest = p.rest[i+1:]
			return
		case c == '\\':
			if i++; i == len(p.rest) || p.rest[i] != '"' && p.rest[i] != '\\' {
				p.bad = true
				return
			}
		case c < ' ' || c > '~':
			p.bad = true
			return
		}
	}
	p.bad = true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
