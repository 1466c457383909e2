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
	"unsafe"
)

// MarshalJSON returns d as one JSON object; see [Decision.AppendJSON].
func (d Decision) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil), nil }

// AppendJSON appends d to b as one JSON object on one line and returns the extended buffer. It
// allocates nothing if b has room.
//
// What a reader can tell from the rest is left out, and UnmarshalJSON fills it in: the method GET
// of a URL; the attempt 1 of a trip; of started and resent a start that is the timestamp, and the
// source "random" of the delay; of fetched and failed a duration that is the latency, and a start
// that is the timestamp less the duration; the retryAt of host_blocked and robots_unreachable that
// is until.
//
// Times are in UTC. Durations are exact to the nanosecond. A byte that isn't UTF-8, as robots.txt
// files hold them, is written as the lone surrogate \udc80 to \udcff: any JSON reader gets a
// replacement character there, and UnmarshalJSON gets the byte back. Userinfo is cut out of URLs.
func (d Decision) AppendJSON(b []byte) []byte {
	d.sanitize()
	d.shorten()
	return append(appendMembers(b, unsafe.Pointer(&d), ofDecision), '}')
}

// MarshalJSON returns e as one JSON object, as a line of a log has it.
func (e Entry) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// AppendJSON appends e to b as one JSON object on one line and returns the extended buffer.
func (e Entry) AppendJSON(b []byte) []byte {
	e.sanitize()
	e.shorten()
	return append(appendMembers(b, unsafe.Pointer(&e), ofEntry), '}')
}

// appendMembers appends the object of the struct d, as far as its closing brace.
func appendMembers(b []byte, d unsafe.Pointer, table []member) []byte {
	from := len(b)
	for i := range table {
		switch m := &table[i]; m.kind {
		case aString:
			if v := *in[string](d, m); v != "" {
				b = appendQuoted(append(b, m.key...), v)
			}
		case aBool:
			if v := *in[bool](d, m); v || m.always {
				b = strconv.AppendBool(append(b, m.key...), v)
			}
		case anInt:
			if v := *in[int](d, m); v != 0 || m.always {
				b = strconv.AppendInt(append(b, m.key...), int64(v), 10)
			}
		case anInt64:
			if v := *in[int64](d, m); v != 0 {
				b = strconv.AppendInt(append(b, m.key...), v, 10)
			}
		case aUint64:
			if v := *in[uint64](d, m); v != 0 {
				b = strconv.AppendUint(append(b, m.key...), v, 10)
			}
		case aDuration:
			if v := *in[time.Duration](d, m); v != 0 {
				b = appendSeconds(append(b, m.key...), v)
			}
		case aTime:
			if v := in[time.Time](d, m); !v.IsZero() {
				b = appendTime(append(b, m.key...), *v)
			}
		case aFloat:
			if v := *in[float64](d, m); v != 0 {
				b = strconv.AppendFloat(append(b, m.key...), v, 'g', -1, 64)
			}
		case aPolicy:
			if v := *in[*Policy](d, m); v != nil {
				b = append(appendMembers(append(b, m.key...), unsafe.Pointer(v), ofPolicy), '}')
			}
		}
	}
	b[from] = '{' // instead of the first comma: each table has a member that is always there
	return b
}

// shorten leaves out what a line needn't say, because expand can tell it from the rest: the usual
// method, the first attempt, the usual source of a delay, and times that equal others.
func (d *Decision) shorten() {
	if d.Method == usualMethod && d.URL != "" {
		d.Method = ""
	}
	if d.Attempt == 1 && d.Trip != 0 {
		d.Attempt = 0
	}
	switch d.Type {
	case Started, Resent:
		if d.Start.Equal(d.Time) {
			d.Start = time.Time{}
		}
		if d.DelaySource == usualSource {
			d.DelaySource = ""
		}
	case Fetched, Failed:
		if (d.Type == Fetched || d.Seq != 0) && d.Time.Add(-d.Duration).Equal(d.Start) {
			d.Start = time.Time{}
		}
		if d.Duration == d.Latency {
			d.Duration = 0
		}
	case HostBlocked, RobotsUnreachable:
		if d.RetryAt.Equal(d.Until) {
			d.RetryAt = time.Time{}
		}
	}
}

const (
	usualMethod = "GET"
	usualSource = "random"
)

// expand fills in what shorten has left out.
func (d *Decision) expand() {
	if d.Method == "" && d.URL != "" {
		d.Method = usualMethod
	}
	if d.Attempt == 0 && d.Trip != 0 {
		d.Attempt = 1
	}
	switch d.Type {
	case Started, Resent:
		if d.Start.IsZero() {
			d.Start = d.Time
		}
		if d.DelaySource == "" {
			d.DelaySource = usualSource
		}
	case Fetched, Failed:
		if d.Duration == 0 {
			d.Duration = d.Latency
		}
		if (d.Type == Fetched || d.Seq != 0) && d.Start.IsZero() && !d.Time.IsZero() {
			d.Start = d.Time.Add(-d.Duration)
		}
	case HostBlocked, RobotsUnreachable:
		if d.RetryAt.IsZero() {
			d.RetryAt = d.Until
		}
	}
}

// lastTime is the last instant that RFC 3339 can write.
var lastTime = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)

func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	switch y := t.Year(); {
	case y > 9999:
		t = lastTime
	case y < 0:
		t = time.Time{}
	}
	b = append(b, '"')
	return append(t.AppendFormat(b, time.RFC3339Nano), '"')
}

// appendSeconds appends v as decimal seconds. It avoids floats, which would lose nanoseconds.
func appendSeconds(b []byte, v time.Duration) []byte {
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

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	plain := 0 // s[plain:i] needs no escape
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
			// What doesn't simply show could end a line for some readers of lines, or deceive
			// a person who reads the log on a terminal.
			if size > 1 && strconv.IsPrint(r) {
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
			if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
				b = appendEscape(b, high)
				r = low
			}
			b = appendEscape(b, r)
		}
		i += size
		plain = i
	}
	return append(append(b, s[plain:]...), '"')
}

func appendEscape(b []byte, unit rune) []byte {
	return append(b, '\\', 'u', hexDigits[unit>>12&15], hexDigits[unit>>8&15], hexDigits[unit>>4&15], hexDigits[unit&15])
}

// UnmarshalJSON reads what MarshalJSON wrote, and the lines of a log. It passes over unknown
// members, so that a newer log can be read, unless they hold what is nested more than 100 deep; a
// member that occurs twice is an error, because two readers could then disagree about what the
// record says.
func (d *Decision) UnmarshalJSON(b []byte) error {
	e := Entry{Decision: *d}
	if err := e.UnmarshalJSON(b); err != nil {
		return err
	}
	*d = e.Decision
	return nil
}

// UnmarshalJSON reads a line of a log, as [Decision.UnmarshalJSON] does. After an error e holds
// what was read before it.
func (e *Entry) UnmarshalJSON(b []byte) error {
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		return nil // the convention of encoding/json
	}
	*e = Entry{}
	p := parser{b: b}
	err := p.object(unsafe.Pointer(e), ofEntry)
	if err == nil && p.i < len(p.b) {
		err = errSyntax
	}
	if err != nil {
		return fmt.Errorf("evidence: not a record, column %d: %w", p.i+1, err)
	}
	e.expand()
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

// object reads an object into the struct d that the table is of, and the white space after it.
func (p *parser) object(d unsafe.Pointer, table []member) error {
	if !p.next('{') {
		return errSyntax
	}
	var seen [2]uint64 // a bit for each member so far
	next := 0          // the member that probably comes next: ours are written in order
	for first := true; ; first = false {
		if p.next('}') {
			p.space()
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
		i := find(table, name, next)
		if i >= 0 && seen[i>>6]&(1<<(i&63)) != 0 {
			return errTwice
		}
		if !p.next(':') {
			return errSyntax
		}
		p.space()
		if i < 0 {
			err = p.skip(0)
		} else {
			next = i + 1
			seen[i>>6] |= 1 << (i & 63)
			if !p.literal("null") {
				err = p.value(d, &table[i])
			}
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

// value reads the value of m into its field.
func (p *parser) value(d unsafe.Pointer, m *member) error {
	switch m.kind {
	case aString:
		v, err := p.quoted()
		return set(in[string](d, m), string(v), err)
	case aBool:
		v := p.literal("true")
		if !v && !p.literal("false") {
			return errors.New("true or false expected")
		}
		return set(in[bool](d, m), v, nil)
	case anInt:
		v, err := strconv.Atoi(string(p.number()))
		return set(in[int](d, m), v, err)
	case anInt64:
		v, err := strconv.ParseInt(string(p.number()), 10, 64)
		return set(in[int64](d, m), v, err)
	case aUint64:
		v, err := strconv.ParseUint(string(p.number()), 10, 64)
		return set(in[uint64](d, m), v, err)
	case aDuration:
		v, err := parseSeconds(string(p.number()))
		return set(in[time.Duration](d, m), v, err)
	case aFloat:
		v, err := strconv.ParseFloat(string(p.number()), 64)
		return set(in[float64](d, m), v, err)
	case aPolicy:
		v := new(Policy)
		*in[*Policy](d, m) = v
		return p.object(unsafe.Pointer(v), ofPolicy)
	default: // aTime
		s, err := p.quoted()
		if err != nil {
			return err
		}
		v, err := time.Parse(time.RFC3339Nano, string(s))
		return set(in[time.Time](d, m), v.UTC(), err)
	}
}

// number returns the characters of the number at p (RFC 8259, section 6), none if there isn't one.
// Digits after a leading zero are left behind, where they are an error.
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

// parseSeconds reads decimal seconds. The result is exact for at most nine decimals without an
// exponent, as appendSeconds writes them.
func parseSeconds(s string) (time.Duration, error) {
	const tooMany = 1 << 60 // ten times as many are out of range, and don't overflow yet
	digits, neg := s, false
	if len(digits) > 0 && digits[0] == '-' {
		digits, neg = digits[1:], true
	}
	var u uint64
	decimals := -1 // number of decimals so far; -1 before the point
	for i := range len(digits) {
		c := digits[i]
		if c == '.' { // a number has one at most, behind a digit
			decimals = 0
			continue
		}
		if c < '0' || c > '9' {
			return parseFloatSeconds(s)
		}
		u = min(u, tooMany)*10 + uint64(c-'0')
		if decimals >= 0 {
			decimals++
		}
	}
	if digits == "" || decimals == 0 || decimals > 9 {
		return parseFloatSeconds(s)
	}
	for range 9 - max(decimals, 0) {
		u = min(u, tooMany) * 10
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
