package evidence

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// A member is one field of a [Decision], a [LogLine] or a [Policy]: how it is written, read and
// logged.
type member struct {
	name   string       // name in JSON
	key    string       // JSON before its value: `,"name":`
	kind   reflect.Kind // of the field's type: a struct is a time, a pointer leads to a Policy
	span   bool         // whether it is a Duration
	always bool         // it is written even if it is false
	most   int          // bytes of JSON that a string may take; 0: no limit
	offset uintptr
}

// ofLogLine is the table of all members in their order: those of a Decision, which is the first
// field of a LogLine, and then those that a Log adds.
var (
	ofPolicy   = membersOf(reflect.TypeFor[Policy]())
	ofLogLine  = membersOf(reflect.TypeFor[LogLine]())
	ofDecision = ofLogLine[:reflect.TypeFor[Decision]().NumField()]
	ofLog      = ofLogLine[len(ofDecision):] // members that a Log adds
	stamps     = slices.DeleteFunc(slices.Clone(ofDecision), func(m member) bool { return m.kind != reflect.Struct })
	bounded    = slices.DeleteFunc(slices.Clone(ofDecision), func(m member) bool { return m.most == 0 })
)

func membersOf(t reflect.Type) []member {
	var table []member
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous { // the Decision of a LogLine, whose fields are visible as well
			continue
		}
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		most, _ := strconv.Atoi(f.Tag.Get("most")) // 0 without one
		table = append(table, member{
			name:   name,
			key:    `,"` + name + `":`,
			kind:   f.Type.Kind(),
			span:   f.Type == reflect.TypeFor[time.Duration](),
			always: option != "omitzero",
			most:   most,
			offset: f.Offset,
		})
	}
	return table
}

// find returns the index in table of the member called name, -1 if there is none. It looks from
// the given index on first.
func find(table []member, name []byte, from int) int {
	for i := range table {
		at := (from + i) % len(table)
		if table[at].name == string(name) {
			return at
		}
	}
	return -1
}

// in returns the field of the struct at object that m describes. T is its type.
func in[T any](object unsafe.Pointer, m *member) *T { return (*T)(unsafe.Add(object, m.offset)) }

// MarshalJSON returns d as one JSON object. See [Decision.AppendJSON].
func (d Decision) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil), nil }

// AppendJSON appends d to b as one JSON object on one line and returns the extended buffer. If b
// has room, it allocates nothing, except for a policy.
//
// Members with their usual value are left out, and UnmarshalJSON fills them in. If a record has a
// URL and no method, the method is GET. If it has a trip and no attempt, the attempt is 1. Records
// of started and resent leave out start if it equals timestamp, and delaySource if it is "random".
// Records of fetched and failed leave out duration if it equals latency, and start if it equals
// timestamp less the duration. Records of host_blocked and robots_unreachable leave out retryAt if
// it equals until.
//
// Times are in UTC. Durations are exact to the nanosecond. A byte that isn't UTF-8, as some
// robots.txt files have, is written as a lone surrogate \udc80 to \udcff. Other JSON readers get a
// replacement character, and UnmarshalJSON gets the byte back. Userinfo is cut out of URLs.
func (d Decision) AppendJSON(b []byte) []byte {
	d.sanitize()
	d.imply(true)
	return appendObject(b, unsafe.Pointer(&d), ofDecision)
}

// MarshalJSON returns e as one JSON object, as a line of a log has it.
func (e LogLine) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// AppendJSON appends e to b as one JSON object on one line and returns the extended buffer. Use it
// to write many lines.
func (e LogLine) AppendJSON(b []byte) []byte {
	e.sanitize()
	e.imply(true)
	return appendObject(b, unsafe.Pointer(&e), ofLogLine)
}

// appendObject appends the struct at object, whose table has a member that is always there.
func appendObject(b []byte, object unsafe.Pointer, table []member) []byte {
	from := len(b)
	b = appendMembers(b, object, table)
	b[from] = '{' // instead of the first comma
	return append(b, '}')
}

// appendMembers appends the members of the struct at object, with a comma before each. It is one
// loop without a call for the many members that are zero, since it runs for each line of a log.
func appendMembers(line []byte, object unsafe.Pointer, table []member) []byte {
	for i := range table {
		m := &table[i]
		switch m.kind {
		case reflect.String:
			text := *in[string](object, m)
			if text != "" {
				line = appendQuoted(append(line, m.key...), text)
			}
		case reflect.Bool:
			is := *in[bool](object, m)
			if is || m.always {
				line = strconv.AppendBool(append(line, m.key...), is)
			}
		case reflect.Int:
			n := *in[int](object, m)
			if n != 0 || m.always {
				line = strconv.AppendInt(append(line, m.key...), int64(n), 10)
			}
		case reflect.Int64:
			n := *in[int64](object, m)
			if n != 0 && m.span {
				line = appendSeconds(append(line, m.key...), time.Duration(n))
			} else if n != 0 {
				line = strconv.AppendInt(append(line, m.key...), n, 10)
			}
		case reflect.Uint64:
			n := *in[uint64](object, m)
			if n != 0 {
				line = strconv.AppendUint(append(line, m.key...), n, 10)
			}
		case reflect.Struct:
			t := in[time.Time](object, m)
			if !t.IsZero() {
				line = appendTime(append(line, m.key...), *t)
			}
		case reflect.Float64:
			f := *in[float64](object, m)
			if f != 0 {
				line = strconv.AppendFloat(append(line, m.key...), f, 'g', -1, 64)
			}
		case reflect.Pointer:
			p := *in[*Policy](object, m)
			if p != nil {
				line = appendObject(append(line, m.key...), unsafe.Pointer(p), ofPolicy)
			}
		}
	}
	return line
}

// imply clears the fields that follow from others, for a short line, or else fills them in again:
// the usual method, the first attempt, the usual source of a delay, and times that equal others.
func (d *Decision) imply(short bool) {
	if d.URL != "" {
		imply(short, &d.Method, "GET")
	}
	if d.Trip != 0 {
		imply(short, &d.Attempt, 1)
	}
	switch d.Type {
	case Started, Resent:
		imply(short, &d.Start, d.Time)
		imply(short, &d.DelaySource, "random")
	case Fetched, Failed:
		// A request that failed before it was sent has no Seq and no Start. Start comes before
		// Duration, from which it follows.
		if (d.Type == Fetched || d.Seq != 0) && !d.Time.IsZero() {
			imply(short, &d.Start, d.Time.Add(-cmp.Or(d.Duration, d.Latency)))
		}
		imply(short, &d.Duration, d.Latency)
	case HostBlocked, RobotsUnreachable:
		imply(short, &d.RetryAt, d.Until)
	}
}

func imply[T comparable](short bool, field *T, usual T) {
	var none T
	switch {
	case short && *field == usual:
		*field = none
	case !short && *field == none:
		*field = usual
	}
}

func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year := t.Year()
	switch {
	case year > 9999:
		t = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC) // the last that RFC 3339 can write
	case year < 0:
		t = time.Time{}
	}
	b = append(b, '"')
	return append(t.AppendFormat(b, time.RFC3339Nano), '"')
}

// appendSeconds appends v as decimal seconds. It avoids floats, which would lose nanoseconds.
func appendSeconds(b []byte, v time.Duration) []byte {
	amount := uint64(v)
	if v < 0 {
		b = append(b, '-')
		amount = -amount // right for the smallest Duration too
	}
	b = strconv.AppendUint(b, amount/1e9, 10)
	nanos := amount % 1e9
	if nanos > 0 {
		point := len(b)
		b = strconv.AppendUint(b, 1e9+nanos, 10) // with a one where the point belongs
		b[point] = '.'
		b = bytes.TrimRight(b, "0")
	}
	return b
}

// appendQuoted appends text as a string of JSON.
func appendQuoted(line []byte, text string) []byte {
	line = append(line, '"')
	plain := 0 // text[plain:i] needs no escape
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		char := rune(c)
		size := 1
		if c >= utf8.RuneSelf {
			char, size = utf8.DecodeRuneInString(text[i:])
			// A character that isn't printable is escaped. It could end a line for some programs, or
			// deceive a reader at a terminal.
			if size > 1 && strconv.IsPrint(char) {
				i += size
				continue
			}
			if size == 1 { // a byte that isn't UTF-8
				char = 0xDC00 | rune(c)
			}
		}
		line = append(line, text[plain:i]...)
		line = appendEscaped(line, char)
		i += size
		plain = i
	}
	return append(append(line, text[plain:]...), '"')
}

// appendEscaped appends the escape of char.
func appendEscaped(b []byte, char rune) []byte {
	at := strings.IndexRune("\"\\\n\r\t", char)
	if at >= 0 {
		return append(b, '\\', `"\nrt`[at])
	}
	high, low := utf16.EncodeRune(char)
	if high == utf8.RuneError { // it is one unit of UTF-16
		return appendUnit(b, char)
	}
	return appendUnit(appendUnit(b, high), low)
}

// appendUnit appends one unit of UTF-16.
func appendUnit(b []byte, unit rune) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '\\', 'u', hexDigits[unit>>12&15], hexDigits[unit>>8&15])
	return append(b, hexDigits[unit>>4&15], hexDigits[unit&15])
}

// UnmarshalJSON reads the JSON of MarshalJSON, and the lines of a log. It passes over unknown
// members, so that a newer log can be read. A member that occurs twice is an error, because two
// readers could then disagree about the record. After an error d has the members before it.
func (d *Decision) UnmarshalJSON(b []byte) error {
	e := LogLine{Decision: *d}
	err := e.UnmarshalJSON(b)
	*d = e.Decision
	return err
}

// UnmarshalJSON reads a line of a log, as [Decision.UnmarshalJSON] does.
func (e *LogLine) UnmarshalJSON(b []byte) error {
	if !json.Valid(b) {
		syntax, _ := errors.AsType[*json.SyntaxError](json.Unmarshal(b, new(json.RawMessage)))
		return fmt.Errorf("evidence: not a record, column %d: malformed JSON", syntax.Offset)
	}
	b = bytes.TrimSpace(b)
	if string(b) == "null" {
		return nil // the convention of encoding/json
	}
	*e = LogLine{}
	if b[0] != '{' {
		return errors.New("evidence: not a record: an object expected")
	}
	if name, err := readMembers(b, unsafe.Pointer(e), ofLogLine); err != nil {
		return fmt.Errorf("evidence: not a record, member %q: %w", name, err)
	}
	e.imply(false)
	return nil
}

// readMembers reads text, an object of valid JSON, into the struct at object that table is of. An
// error comes with the name of its member. It allocates only the strings that it keeps.
func readMembers(text []byte, object unsafe.Pointer, table []member) (name string, err error) {
	var seen [128]bool   // by index in table
	next := 0            // the member that probably comes next: ours are written in order
	for text[0] != '}' { // text begins with the brace or the comma before a member
		var quoted, value []byte
		quoted, text = cutToken(text[1:])
		if len(quoted) == 0 { // of an empty object
			break
		}
		value, text = cutToken(text[1:])
		key := quoted[1 : len(quoted)-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			key = []byte(unquote(quoted))
		}
		i := find(table, key, next)
		if i < 0 { // a newer log has it, or it was added later
			continue
		}
		if seen[i] {
			return table[i].name, errors.New("it occurs twice")
		}
		seen[i] = true
		next = i + 1
		if string(value) == "null" { // by the convention of encoding/json the field stays as it is
			continue
		}
		if err := readValue(value, object, &table[i]); err != nil {
			return table[i].name, err
		}
	}
	return "", nil
}

// cutToken returns the name or the value that b begins with, and the rest from the colon, the
// comma or the closing brace behind it. b must hold valid JSON.
func cutToken(b []byte) (token, rest []byte) {
	depth := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"': // to the end of the string, past escaped characters
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case ':', ',', '}', ']':
			if depth == 0 {
				return bytes.TrimSpace(b[:i]), b[i:]
			}
			if b[i] == '}' || b[i] == ']' {
				depth--
			}
		}
	}
}

// readValue reads value into the field m of the struct at object.
func readValue(value []byte, object unsafe.Pointer, m *member) error {
	text := string(value) // it doesn't escape from any of the calls, so it isn't allocated
	var err error
	switch m.kind {
	case reflect.String:
		if value[0] != '"' {
			return errors.New("a string expected")
		}
		*in[string](object, m) = unquote(value)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return errors.New("true or false expected")
		}
		*in[bool](object, m) = text == "true"
	case reflect.Int:
		*in[int](object, m), err = strconv.Atoi(text)
	case reflect.Int64:
		if m.span {
			*in[time.Duration](object, m), err = parseSeconds(text)
		} else {
			*in[int64](object, m), err = strconv.ParseInt(text, 10, 64)
		}
	case reflect.Uint64:
		*in[uint64](object, m), err = strconv.ParseUint(text, 10, 64)
	case reflect.Float64:
		*in[float64](object, m), err = strconv.ParseFloat(text, 64)
	case reflect.Struct:
		var t time.Time
		t, err = time.Parse(time.RFC3339Nano, strings.Trim(text, `"`))
		*in[time.Time](object, m) = t.UTC()
	case reflect.Pointer:
		if value[0] != '{' {
			return errors.New("an object expected")
		}
		p := new(Policy)
		*in[*Policy](object, m) = p
		if name, err := readMembers(value, unsafe.Pointer(p), ofPolicy); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return err
}

// parseSeconds reads decimal seconds. The result is exact for at most nine decimals without an
// exponent, as appendSeconds writes them.
func parseSeconds(s string) (time.Duration, error) {
	whole, decimals, _ := strings.Cut(s, ".")
	if len(decimals) <= len("nanosecnd") && !strings.ContainsAny(s, "eE") {
		nanos, err := strconv.ParseInt(whole+(decimals + "000000000")[:9], 10, 64)
		return time.Duration(nanos), err
	}
	f, err := strconv.ParseFloat(s, 64)
	f = math.Round(f * 1e9)
	tooLong := f < math.MinInt64 || f >= math.MaxInt64
	if err == nil && tooLong {
		err = strconv.ErrRange
	}
	return time.Duration(f), err
}

// unquote returns the text of a string of JSON. A lone surrogate \udc80 to \udcff is a byte that
// wasn't UTF-8.
func unquote(quoted []byte) string {
	text := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text)
	}
	plain := make([]byte, 0, len(text))
	for {
		before, escape, escaped := bytes.Cut(text, []byte{'\\'})
		plain = append(plain, before...)
		if !escaped {
			return string(plain)
		}
		text = escape[1:]
		at := strings.IndexByte(`"\/bfnrt`, escape[0])
		if at >= 0 {
			plain = append(plain, "\"\\/\b\f\n\r\t"[at])
			continue
		}
		// It is \u with four digits.
		char := hexUnit(text)
		text = text[4:]
		if bytes.HasPrefix(text, []byte(`\u`)) {
			pair := utf16.DecodeRune(char, hexUnit(text[2:]))
			if pair != utf8.RuneError {
				char = pair
				text = text[6:]
			}
		}
		if 0xDC80 <= char && char <= 0xDCFF {
			plain = append(plain, byte(char))
		} else {
			plain = utf8.AppendRune(plain, char)
		}
	}
}

// hexUnit returns the unit of UTF-16 whose four hexadecimal digits text begins with.
func hexUnit(text []byte) rune {
	unit, _ := strconv.ParseUint(string(text[:4]), 16, 16) // it is valid
	return rune(unit)
}
