package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// MarshalJSON returns d as one JSON object; see [Decision.AppendJSON].
func (d Decision) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil), nil }

// AppendJSON appends d to b as one JSON object on one line, in the order and by
// the names of the fields' comments, and returns the extended buffer. It
// allocates nothing if b has room.
//
// Zero fields are absent, except "allowed". Times are in UTC. Durations are exact
// to the nanosecond. A byte that isn't UTF-8, as robots.txt files hold them, is
// written as the lone surrogate \udc80 to \udcff: any JSON reader gets a
// replacement character there, UnmarshalJSON gets the byte back. Userinfo is cut
// out of URLs.
func (d Decision) AppendJSON(b []byte) []byte {
	b = append(d.appendFields(append(b, '{')), '}')
	return b
}

// appendFields appends the members of d's object, without the braces.
func (d *Decision) appendFields(b []byte) []byte {
	b = appendString(b, "type", string(d.Type))
	b = appendTime(b, "timestamp", d.Time)

	b = appendUint(b, "trip", d.Trip)
	b = appendInt(b, "attempt", int64(d.Attempt))
	b = appendString(b, "method", d.Method)
	b = appendString(b, "url", RedactURL(d.URL))
	b = appendString(b, "host", d.Host)
	b = appendString(b, "agent", d.Agent)

	b = appendTrue(b, "robotsTxt", d.RobotsTxt)

	b = append(appendName(b, "allowed"), strconv.FormatBool(d.Allowed)...)
	b = appendString(b, "matchedRule", d.MatchedRule)
	b = appendInt(b, "line", int64(d.Line))
	b = appendString(b, "group", d.Group)
	b = appendSeconds(b, "crawlDelay", d.CrawlDelay)
	b = appendString(b, "confidence", d.Confidence)
	b = appendString(b, "reason", RedactURL(d.Reason))
	b = appendTime(b, "retryAt", d.RetryAt)

	b = appendUint(b, "seq", d.Seq)
	b = appendTime(b, "start", d.Start)
	b = appendSeconds(b, "waitSlot", d.WaitSlot)
	b = appendSeconds(b, "waitDelay", d.WaitDelay)
	b = appendSeconds(b, "waitBlock", d.WaitBlock)
	b = appendSeconds(b, "delay", d.Delay)
	b = appendInt(b, "slot", int64(d.Slot))
	b = appendInt(b, "slots", int64(d.Slots))
	b = appendTrue(b, "probe", d.Probe)

	b = appendInt(b, "status", int64(d.Status))
	b = appendInt(b, "bytes", d.Bytes)
	b = appendSeconds(b, "latency", d.Latency)
	b = appendSeconds(b, "duration", d.Duration)
	b = appendString(b, "contentType", d.ContentType)
	b = appendString(b, "etag", d.ETag)
	b = appendString(b, "lastModified", d.LastModified)
	b = appendString(b, "serverDate", d.ServerDate)
	b = appendString(b, "location", RedactURL(d.Location))
	b = appendInt(b, "redirects", int64(d.Redirects))
	b = appendString(b, "error", RedactURL(d.Err))

	b = appendTime(b, "until", d.Until)
	b = appendInt(b, "refusals", int64(d.Refusals))

	b = appendString(b, "sha256", d.SHA256)
	b = appendSeconds(b, "ttl", d.TTL)
	b = appendInt(b, "hops", int64(d.Hops))
	b = appendString(b, "text", d.Text)

	b = appendString(b, "limit", d.Limit)
	b = appendInt(b, "used", d.Used)
	b = appendInt(b, "max", d.Max)

	return appendString(b, "directives", d.Directives)
}

// field returns a pointer to the field of d that is called name in JSON, nil if
// there is none, and a bit of its own.
func (d *Decision) field(name []byte) (to any, bit uint64) {
	switch string(name) {
	case "type":
		return (*string)(&d.Type), 1 << 0
	case "timestamp":
		return &d.Time, 1 << 1
	case "trip":
		return &d.Trip, 1 << 2
	case "attempt":
		return &d.Attempt, 1 << 3
	case "method":
		return &d.Method, 1 << 4
	case "url":
		return &d.URL, 1 << 5
	case "host":
		return &d.Host, 1 << 6
	case "agent":
		return &d.Agent, 1 << 7
	case "robotsTxt":
		return &d.RobotsTxt, 1 << 8
	case "allowed":
		return &d.Allowed, 1 << 9
	case "matchedRule":
		return &d.MatchedRule, 1 << 10
	case "line":
		return &d.Line, 1 << 11
	case "group":
		return &d.Group, 1 << 12
	case "crawlDelay":
		return &d.CrawlDelay, 1 << 13
	case "confidence":
		return &d.Confidence, 1 << 14
	case "reason":
		return &d.Reason, 1 << 15
	case "retryAt":
		return &d.RetryAt, 1 << 16
	case "seq":
		return &d.Seq, 1 << 17
	case "start":
		return &d.Start, 1 << 18
	case "waitSlot":
		return &d.WaitSlot, 1 << 19
	case "waitDelay":
		return &d.WaitDelay, 1 << 20
	case "waitBlock":
		return &d.WaitBlock, 1 << 21
	case "delay":
		return &d.Delay, 1 << 22
	case "slot":
		return &d.Slot, 1 << 23
	case "slots":
		return &d.Slots, 1 << 24
	case "probe":
		return &d.Probe, 1 << 25
	case "status":
		return &d.Status, 1 << 26
	case "bytes":
		return &d.Bytes, 1 << 27
	case "latency":
		return &d.Latency, 1 << 28
	case "duration":
		return &d.Duration, 1 << 29
	case "contentType":
		return &d.ContentType, 1 << 30
	case "etag":
		return &d.ETag, 1 << 31
	case "lastModified":
		return &d.LastModified, 1 << 32
	case "serverDate":
		return &d.ServerDate, 1 << 33
	case "location":
		return &d.Location, 1 << 34
	case "redirects":
		return &d.Redirects, 1 << 35
	case "error":
		return &d.Err, 1 << 36
	case "until":
		return &d.Until, 1 << 37
	case "refusals":
		return &d.Refusals, 1 << 38
	case "sha256":
		return &d.SHA256, 1 << 39
	case "ttl":
		return &d.TTL, 1 << 40
	case "hops":
		return &d.Hops, 1 << 41
	case "text":
		return &d.Text, 1 << 42
	case "limit":
		return &d.Limit, 1 << 43
	case "used":
		return &d.Used, 1 << 44
	case "max":
		return &d.Max, 1 << 45
	case "directives":
		return &d.Directives, 1 << 46
	}
	return nil, 0
}

func appendName(b []byte, name string) []byte {
	if n := len(b); n > 0 && b[n-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, `":`...)
}

func appendTrue(b []byte, name string, v bool) []byte {
	if !v {
		return b
	}
	return append(appendName(b, name), "true"...)
}

func appendInt(b []byte, name string, v int64) []byte {
	if v == 0 {
		return b
	}
	return strconv.AppendInt(appendName(b, name), v, 10)
}

func appendUint(b []byte, name string, v uint64) []byte {
	if v == 0 {
		return b
	}
	return strconv.AppendUint(appendName(b, name), v, 10)
}

// lastTime is the last instant that RFC 3339 can write.
var lastTime = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)

func appendTime(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	t = t.UTC()
	switch y := t.Year(); {
	case y > 9999:
		t = lastTime
	case y < 0:
		t = time.Time{}
	}
	b = append(appendName(b, name), '"')
	return append(t.AppendFormat(b, time.RFC3339Nano), '"')
}

// appendSeconds writes v as decimal seconds without going through a float,
// which would lose nanoseconds.
func appendSeconds(b []byte, name string, v time.Duration) []byte {
	if v == 0 {
		return b
	}
	b = appendName(b, name)
	u := uint64(v)
	if v < 0 {
		b = append(b, '-')
		u = -u // right for the smallest Duration too
	}
	b = strconv.AppendUint(b, u/1e9, 10)
	nanos := u % 1e9
	if nanos == 0 {
		return b
	}
	b = append(b, '.')
	for unit := uint64(1e8); nanos > 0; unit /= 10 {
		b = append(b, byte('0'+nanos/unit))
		nanos %= unit
	}
	return b
}

const hexDigits = "0123456789abcdef"

func appendString(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendQuoted(appendName(b, name), s)
}

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	plain := 0 // s[plain:i] needs no escape
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
			// U+2028 and U+2029 end lines for some readers of lines.
			if size > 1 && r != '\u2028' && r != '\u2029' {
				i += size
				continue
			}
			if size == 1 {
				r = 0xDC00 | rune(c)
			}
		}
		b = append(b, s[plain:i]...)
		switch r {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
		}
		i += size
		plain = i
	}
	return append(append(b, s[plain:]...), '"')
}

// UnmarshalJSON reads what MarshalJSON wrote. Unknown members are passed over,
// so that a newer log can be read; a member that occurs twice is an error,
// because two readers could then disagree about what the record says.
func (d *Decision) UnmarshalJSON(b []byte) error {
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		return nil // the convention of encoding/json
	}
	var l line
	if err := l.parse(b); err != nil {
		return err
	}
	*d = l.Decision
	return nil
}

// A line is a Decision with what a Log adds to it.
type line struct {
	Decision
	n    uint64 // "n": number of the record in its log, from 1
	hash string // "hash": of this line and all before it, hex
}

func (l *line) field(name []byte) (to any, bit uint64) {
	switch string(name) {
	case "n":
		return &l.n, 1 << 63
	case "hash":
		return &l.hash, 1 << 62
	}
	return l.Decision.field(name)
}

// parse reads one JSON object into l.
func (l *line) parse(b []byte) error {
	*l = line{}
	p := parser{b: b}
	if err := p.object(l); err != nil {
		return fmt.Errorf("evidence: not a record, column %d: %w", p.i+1, err)
	}
	return nil
}

var (
	errSyntax = errors.New("malformed JSON")
	errTwice  = errors.New("member occurs twice")
	errDepth  = errors.New("nested too deeply")
)

// A parser reads the JSON of records: flat objects, where they are known.
type parser struct {
	b       []byte
	i       int
	scratch []byte
}

func (p *parser) space() {
	for p.i < len(p.b) && (p.b[p.i] == ' ' || p.b[p.i] == '\t' || p.b[p.i] == '\n' || p.b[p.i] == '\r') {
		p.i++
	}
}

// next consumes c after white space and reports whether it was there.
func (p *parser) next(c byte) bool {
	p.space()
	if p.i < len(p.b) && p.b[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *parser) literal(s string) bool {
	if bytes.HasPrefix(p.b[p.i:], []byte(s)) {
		p.i += len(s)
		return true
	}
	return false
}

func (p *parser) object(l *line) error {
	if !p.next('{') {
		return errSyntax
	}
	var seen uint64 // bits of the members so far
	for first := true; ; first = false {
		if p.next('}') {
			if p.space(); p.i < len(p.b) {
				return errSyntax
			}
			return nil
		}
		if !first && !p.next(',') {
			return errSyntax
		}
		p.space()
		name, err := p.quoted()
		if err != nil {
			return err
		}
		field, bit := l.field(name)
		if seen&bit != 0 {
			return errTwice
		}
		seen |= bit
		if !p.next(':') {
			return errSyntax
		}
		p.space()
		if field == nil {
			err = p.skip(0)
		} else if !p.literal("null") {
			err = p.value(field)
		}
		if err != nil {
			return err
		}
	}
}

func set[T any](to *T, v T, err error) error {
	*to = v
	return err
}

func (p *parser) value(field any) error {
	switch to := field.(type) {
	case *string:
		v, err := p.quoted()
		return set(to, string(v), err)
	case *bool:
		if *to = p.literal("true"); !*to && !p.literal("false") {
			return errors.New("true or false expected")
		}
		return nil
	case *int:
		v, err := strconv.Atoi(string(p.number()))
		return set(to, v, err)
	case *int64:
		v, err := strconv.ParseInt(string(p.number()), 10, 64)
		return set(to, v, err)
	case *uint64:
		v, err := strconv.ParseUint(string(p.number()), 10, 64)
		return set(to, v, err)
	case *time.Duration:
		v, err := parseSeconds(string(p.number()))
		return set(to, v, err)
	case *time.Time:
		s, err := p.quoted()
		if err != nil {
			return err
		}
		v, err := time.Parse(time.RFC3339Nano, string(s))
		return set(to, v.UTC(), err)
	}
	panic("evidence: field of unknown kind")
}

// number returns the characters of the number at p (RFC 8259, section 6), none if it
// isn't one. What goes on behind it, as digits after a leading zero, nothing takes.
func (p *parser) number() []byte {
	from := p.i
	if p.peek() == '-' {
		p.i++
	}
	if p.peek() == '0' {
		p.i++
	} else if !p.digits() {
		return nil
	}
	if p.peek() == '.' {
		if p.i++; !p.digits() {
			return nil
		}
	}
	if p.peek()|0x20 == 'e' {
		if p.i++; p.peek() == '+' || p.peek() == '-' {
			p.i++
		}
		if !p.digits() {
			return nil
		}
	}
	return p.b[from:p.i]
}

// digits consumes digits and reports whether there were any.
func (p *parser) digits() bool {
	from := p.i
	for p.i < len(p.b) && '0' <= p.b[p.i] && p.b[p.i] <= '9' {
		p.i++
	}
	return p.i > from
}

// peek returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.i < len(p.b) {
		return p.b[p.i]
	}
	return 0
}

// parseSeconds reads decimal seconds, exactly if they have at most nine
// decimals and no exponent, as appendSeconds writes them.
func parseSeconds(s string) (time.Duration, error) {
	digits, neg := s, false
	if len(digits) > 0 && digits[0] == '-' {
		digits, neg = digits[1:], true
	}
	var u uint64
	decimals := -1 // none yet, no point
	for i := range len(digits) {
		c := digits[i]
		if c == '.' && decimals < 0 && i > 0 {
			decimals = 0
			continue
		}
		if c < '0' || c > '9' || u > (math.MaxUint64-9)/10 {
			return parseFloatSeconds(s)
		}
		u = u*10 + uint64(c-'0')
		if decimals >= 0 {
			decimals++
		}
	}
	if digits == "" || decimals == 0 || decimals > 9 {
		return parseFloatSeconds(s)
	}
	for range 9 - max(decimals, 0) {
		if u > math.MaxUint64/10 {
			return 0, errRange
		}
		u *= 10
	}
	switch {
	case neg && u <= 1<<63:
		return time.Duration(-u), nil
	case !neg && u < 1<<63:
		return time.Duration(u), nil
	}
	return 0, errRange
}

var errRange = errors.New("duration out of range")

func parseFloatSeconds(s string) (time.Duration, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, err
	}
	f = math.Round(f * 1e9)
	if math.IsNaN(f) || f < math.MinInt64 || f >= math.MaxInt64 {
		return 0, errRange
	}
	return time.Duration(f), nil
}

// quoted reads a string. The result is valid until the next call.
func (p *parser) quoted() ([]byte, error) {
	if p.i >= len(p.b) || p.b[p.i] != '"' {
		return nil, errors.New("string expected")
	}
	p.i++
	from := p.i
	for p.i < len(p.b) && p.b[p.i] != '"' && p.b[p.i] != '\\' && p.b[p.i] >= ' ' {
		p.i++
	}
	if p.i < len(p.b) && p.b[p.i] == '"' { // no escape
		p.i++
		return p.b[from : p.i-1], nil
	}
	out := append(p.scratch[:0], p.b[from:p.i]...)
	for p.i < len(p.b) {
		c := p.b[p.i]
		p.i++
		switch {
		case c == '"':
			p.scratch = out
			return out, nil
		case c < ' ':
			return nil, errors.New("control character in a string")
		case c != '\\':
			out = append(out, c)
			continue
		}
		if p.i >= len(p.b) {
			return nil, errSyntax
		}
		c = p.b[p.i]
		p.i++
		switch c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, ok := p.hex4()
			if !ok {
				return nil, errSyntax
			}
			switch {
			case 0xDC80 <= r && r <= 0xDCFF: // a byte that wasn't UTF-8
				out = append(out, byte(r))
				continue
			case utf16.IsSurrogate(r) && p.literal(`\u`):
				low, ok := p.hex4()
				if !ok {
					return nil, errSyntax
				}
				if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
					p.i -= len(`\u0000`) // no pair: the second stands for itself
				}
			}
			out = utf8.AppendRune(out, r)
		default:
			return nil, errSyntax
		}
	}
	return nil, errSyntax
}

func (p *parser) hex4() (rune, bool) {
	if len(p.b)-p.i < 4 {
		return 0, false
	}
	v, err := strconv.ParseUint(string(p.b[p.i:p.i+4]), 16, 16)
	p.i += 4
	return rune(v), err == nil
}

// skip passes over one value of any kind.
func (p *parser) skip(depth int) error {
	if depth > 100 {
		return errDepth
	}
	p.space()
	if p.i >= len(p.b) {
		return errSyntax
	}
	switch c := p.b[p.i]; c {
	case '"':
		_, err := p.quoted()
		return err
	case '{', '[':
		p.i++
		end := c + 2 // ASCII: '{' + 2 is '}', '[' + 2 is ']'
		for first := true; !p.next(end); first = false {
			if !first && !p.next(',') {
				return errSyntax
			}
			if c == '{' {
				p.space()
				if _, err := p.quoted(); err != nil {
					return err
				}
				if !p.next(':') {
					return errSyntax
				}
			}
			if err := p.skip(depth + 1); err != nil {
				return err
			}
		}
		return nil
	}
	if p.literal("true") || p.literal("false") || p.literal("null") {
		return nil
	}
	if p.number() == nil {
		return errSyntax
	}
	return nil
}
