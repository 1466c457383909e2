// Package sfv parses dictionaries and lists of structured fields (RFC 9651, section 4.2): header
// fields such as Content-Usage, Accept-Signature and RateLimit. It is strict, as that RFC has it:
// of a field with an error anywhere nothing counts.
package sfv

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Dictionary is a list of members with different keys, in the order in which the keys came first.
type Dictionary []Member

// A Member is a key with its value.
type Member struct {
	Key string
	Item
}

// An Item is a value with its parameters. The value is one of the bare types below, or []Item for
// an inner list.
//
//	int64    Integer       Token          Token
//	Decimal  Decimal       []byte         Byte Sequence
//	string   String        bool           Boolean
//	Date     Date          DisplayString  Display String
type Item struct {
	Value  any
	Params Dictionary // bare values, without parameters of their own
}

type (
	// Token is a bare word.
	Token string
	// Decimal has up to three digits behind the point.
	Decimal float64
	// Date is in seconds since 1970.
	Date int64
	// DisplayString is a text in Unicode.
	DisplayString string
)

// Get returns the item of a key; ok is false if there is none.
func (d Dictionary) Get(key string) (item Item, ok bool) {
	for i := range d {
		if d[i].Key == key {
			return d[i].Item, true
		}
	}
	return Item{}, false
}

// A builder makes a Dictionary. Of equal keys the last one counts, at the place of the first.
type builder struct {
	members Dictionary
	places  map[string]int // of the keys; nil while they are few
}

// few is how many keys are looked through one by one.
const few = 16

func (b *builder) set(m Member) {
	if place, ok := b.place(m.Key); ok {
		b.members[place] = m
		return
	}
	b.members = append(b.members, m)
	if len(b.members) < few {
		return
	}
	if b.places == nil {
		b.places = make(map[string]int)
		for i := range b.members {
			b.places[b.members[i].Key] = i
		}
	}
	b.places[m.Key] = len(b.members) - 1
}

// take sets the member that p has next, and returns how many there are.
func (b *builder) take(p *parser) (int, error) {
	m, err := p.member()
	b.set(m)
	return len(b.members), err
}

func (b *builder) place(key string) (int, bool) {
	if b.places != nil {
		i, ok := b.places[key]
		return i, ok
	}
	for i := range b.members {
		if b.members[i].Key == key {
			return i, true
		}
	}
	return 0, false
}

const (
	// maxMembers bounds the members of a field, and the parameters of an item. RFC 9651 asks for at
	// least 1,024 and 256.
	maxMembers = 1024

	// maxField bounds the length of a field: items take up to 30 times the bytes that they are
	// written in. RFC 9651 asks for 1,024 keys of 64 bytes.
	maxField = 256 << 10
)

// ParseDictionary parses the value of a field. The lines of a field that came several times are
// joined by ", " before.
func ParseDictionary(field string) (Dictionary, error) {
	var b builder
	err := parse(field, func(p *parser) (int, error) { return b.take(p) })
	if err != nil {
		return nil, err
	}
	return b.members, nil
}

// ParseList parses the value of a field that is a list, whose lines are joined as those of a
// dictionary are.
func ParseList(field string) ([]Item, error) {
	if field == "" { // as of most answers: it costs no allocation
		return nil, nil
	}
	var list []Item
	err := parse(field, func(p *parser) (int, error) {
		item, err := p.item()
		list = append(list, item)
		return len(list), err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// parse parses the members of a field, which commas separate. member takes in one, and returns how
// many there are.
func parse(field string, member func(*parser) (int, error)) error {
	if len(field) > maxField {
		return fmt.Errorf("%d bytes, more than %d", len(field), maxField)
	}
	p := parser{rest: strings.Trim(field, " ")}
	if err := p.members(member); err != nil {
		return fmt.Errorf("at byte %d: %w", len(field)-len(p.rest), err)
	}
	return nil
}

// A parser consumes what it has parsed.
type parser struct{ rest string }

var errEnd = errors.New("the field ends too early")

func (p *parser) members(member func(*parser) (int, error)) error {
	for p.rest != "" {
		count, err := member(p)
		if err != nil {
			return err
		}
		if count > maxMembers {
			return fmt.Errorf("more than %d members", maxMembers)
		}
		p.trim(" \t")
		switch {
		case p.rest == "":
			return nil
		case !p.eat(','):
			return fmt.Errorf("%q where a comma should be", p.rest[0])
		}
		p.trim(" \t")
		if p.rest == "" {
			return errors.New("nothing after a comma")
		}
	}
	return nil
}

func (p *parser) member() (m Member, err error) {
	if m.Key, err = p.key(); err != nil {
		return m, err
	}
	if p.eat('=') {
		m.Item, err = p.item()
		return m, err
	}
	m.Value = true
	m.Params, err = p.params()
	return m, err
}

func (p *parser) item() (i Item, err error) {
	if p.peek() == '(' {
		i.Value, err = p.innerList()
	} else {
		i.Value, err = p.bare()
	}
	if err == nil {
		i.Params, err = p.params()
	}
	return i, err
}

func (p *parser) innerList() ([]Item, error) {
	p.eat('(')
	list := []Item{}
	for {
		p.trim(" ")
		if p.eat(')') {
			return list, nil
		}
		value, err := p.bare()
		if err != nil {
			return nil, err
		}
		params, err := p.params()
		if err != nil {
			return nil, err
		}
		list = append(list, Item{value, params})
		c := p.peek()
		if c != ' ' && c != ')' {
			return nil, errors.New("an inner list without its end")
		}
	}
}

func (p *parser) params() (Dictionary, error) {
	var d builder
	for p.eat(';') {
		p.trim(" ")
		key, err := p.key()
		if err != nil {
			return nil, err
		}
		value := any(true)
		if p.eat('=') {
			if value, err = p.bare(); err != nil {
				return nil, err
			}
		}
		d.set(Member{key, Item{Value: value}})
		if len(d.members) > maxMembers {
			return nil, fmt.Errorf("more than %d parameters", maxMembers)
		}
	}
	return d.members, nil
}

func (p *parser) key() (string, error) {
	c := p.peek()
	if c != '*' && !isLower(c) {
		return "", errors.New("no key, which begins with a lower-case letter or a star")
	}
	return p.take(func(c byte) bool { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 }), nil
}

func (p *parser) bare() (any, error) {
	c := p.peek()
	switch {
	case c == '-' || isDigit(c):
		return p.number()
	case c == '"':
		return p.str()
	case c == '*' || isAlpha(c):
		return Token(p.take(func(c byte) bool { return isToken(c) || c == ':' || c == '/' })), nil
	case p.eat(':'):
		return p.bytes()
	case p.eat('?'):
		return p.boolean()
	case p.eat('@'):
		return p.date()
	case p.eat('%'):
		return p.displayString()
	}
	return nil, errors.New("no value")
}

func (p *parser) boolean() (any, error) {
	switch {
	case p.eat('0'):
		return false, nil
	case p.eat('1'):
		return true, nil
	}
	return nil, errors.New("a Boolean that is neither ?0 nor ?1")
}

func (p *parser) date() (any, error) {
	n, err := p.number()
	if seconds, ok := n.(int64); ok && err == nil {
		return Date(seconds), nil
	}
	return nil, errors.New("a Date that is no Integer")
}

func (p *parser) number() (any, error) {
	sign := ""
	if p.eat('-') {
		sign = "-"
	}
	digits := p.take(isDigit)
	if digits == "" {
		return nil, errors.New("a number without digits")
	}
	if !p.eat('.') {
		if len(digits) > 15 {
			return nil, errors.New("an Integer of more than 15 digits")
		}
		return strconv.ParseInt(sign+digits, 10, 64)
	}
	fraction := p.take(isDigit)
	if len(digits) > 12 || fraction == "" || len(fraction) > 3 {
		return nil, errors.New("a Decimal has 1 to 12 digits before the point and 1 to 3 behind")
	}
	f, err := strconv.ParseFloat(sign+digits+"."+fraction, 64)
	return Decimal(f), err
}

func (p *parser) str() (any, error) {
	p.eat('"')
	var b strings.Builder
	for {
		b.WriteString(p.take(func(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' }))
		switch {
		case p.eat('"'):
			return b.String(), nil
		case !p.eat('\\'):
			return nil, errors.New("a String that has no end, or isn't printable ASCII")
		}
		c := p.peek()
		if c != '"' && c != '\\' {
			return nil, errors.New("a String that escapes something else than a quote or a backslash")
		}
		b.WriteByte(c)
		p.rest = p.rest[1:]
	}
}

func (p *parser) bytes() (any, error) {
	text, rest, ok := strings.Cut(p.rest, ":")
	if !ok {
		return nil, errEnd
	}
	p.rest = rest
	// Padding may be missing, and spare bits may be set (section 4.2.7).
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("a Byte Sequence that isn't base64")
	}
	return b, nil
}

func (p *parser) displayString() (any, error) {
	if !p.eat('"') {
		return nil, errors.New("a Display String without a quote")
	}
	var b []byte
	for {
		b = append(b, p.take(func(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '%' })...)
		switch {
		case p.eat('"'):
			if !utf8.Valid(b) {
				return nil, errors.New("a Display String that isn't UTF-8")
			}
			return DisplayString(b), nil
		case !p.eat('%'):
			return nil, errors.New("a Display String that has no end, or isn't printable ASCII")
		case len(p.rest) < 2:
			return nil, errEnd
		}
		n, err := strconv.ParseUint(p.rest[:2], 16, 8)
		if err != nil || strings.ToLower(p.rest[:2]) != p.rest[:2] {
			return nil, errors.New("an escape without two digits in lower case")
		}
		b = append(b, byte(n))
		p.rest = p.rest[2:]
	}
}

// peek returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.rest == "" {
		return 0
	}
	return p.rest[0]
}

// eat consumes c and reports whether it came next.
func (p *parser) eat(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// take consumes and returns the bytes for which in is true.
func (p *parser) take(in func(byte) bool) string {
	i := 0
	for i < len(p.rest) && in(p.rest[i]) {
		i++
	}
	taken := p.rest[:i]
	p.rest = p.rest[i:]
	return taken
}

func (p *parser) trim(cutset string) { p.rest = strings.TrimLeft(p.rest, cutset) }

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlpha(c byte) bool { return isLower(c | 0x20) }

// isToken reports whether c is a tchar (RFC 9110, section 5.6.2).
func isToken(c byte) bool {
	return isAlpha(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
