package redislimit

import (
	"encoding/binary"
	"errors"
	"math"
)

// What goes to step.lua and comes back is MessagePack, of which these two write and read the part
// that lua_cmsgpack uses: integers, strings and lists, and on the way back floats.

// appendValue appends v: an int, int64, string, bool (as 0 or 1), float64 or []any.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case int:
		return appendInt(b, int64(v))
	case int64:
		return appendInt(b, v)
	case bool:
		if v {
			return append(b, 1)
		}
		return append(b, 0)
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v))
	case string:
		return appendString(b, v)
	case []any:
		b = appendList(b, len(v))
		for _, e := range v {
			b = appendValue(b, e)
		}
		return b
	}
	panic("redislimit: no such value") // only this package calls it
}

func appendInt(b []byte, v int64) []byte {
	if v >= 0 && v < 128 {
		return append(b, byte(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(v))
}

func appendString(b []byte, s string) []byte {
	if len(s) < 32 {
		b = append(b, 0xa0|byte(len(s)))
	} else {
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(len(s)))
	}
	return append(b, s...)
}

func appendList(b []byte, n int) []byte {
	if n < 16 {
		return append(b, 0x90|byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

var errWire = errors.New("redislimit: not an answer of step.lua")

// parse reads one list: its values are int64, string and []any.
func parse(s string) ([]any, error) {
	r := reader{s: s}
	v := r.value(8)
	if list, ok := v.([]any); ok && !r.bad && len(r.s) == 0 {
		return list, nil
	}
	return nil, errWire
}

type reader struct {
	s   string
	bad bool
}

// take returns the next n bytes.
func (r *reader) take(n int) string {
	if n < 0 || n > len(r.s) {
		r.s, r.bad = "", true
		return ""
	}
	s := r.s[:n]
	r.s = r.s[n:]
	return s
}

// number reads n bytes, big-endian.
func (r *reader) number(n int) (v uint64) {
	for _, c := range []byte(r.take(n)) {
		v = v<<8 | uint64(c)
	}
	return v
}

// value reads a value whose lists are nested at most so deep.
func (r *reader) value(depth int) any {
	c := byte(r.number(1))
	switch {
	case r.bad || depth == 0:
		r.bad = true
		return nil
	case c < 0x80:
		return int64(c)
	case c >= 0xe0:
		return int64(int8(c))
	case c&0xe0 == 0xa0:
		return r.take(int(c & 0x1f))
	case c&0xf0 == 0x90:
		return r.list(int(c&0xf), depth)
	}
	switch c {
	case 0xc0:
		return nil
	case 0xc2, 0xc3:
		return int64(c & 1)
	case 0xca:
		return whole(float64(math.Float32frombits(uint32(r.number(4)))))
	case 0xcb:
		return whole(math.Float64frombits(r.number(8)))
	case 0xcc, 0xcd, 0xce, 0xcf:
		return int64(r.number(1 << (c - 0xcc)))
	case 0xd0:
		return int64(int8(r.number(1)))
	case 0xd1:
		return int64(int16(r.number(2)))
	case 0xd2:
		return int64(int32(r.number(4)))
	case 0xd3:
		return int64(r.number(8))
	case 0xd9, 0xda, 0xdb:
		return r.take(int(r.number(1 << (c - 0xd9))))
	case 0xdc, 0xdd:
		return r.list(int(r.number(2<<(c-0xdc))), depth)
	}
	r.bad = true
	return nil
}

// whole is f as a number of microseconds; step.lua computes in floats.
func whole(f float64) int64 {
	if !(math.Abs(f) < 1<<53) {
		return 0
	}
	return int64(math.Ceil(f))
}

func (r *reader) list(n, depth int) []any {
	if n < 0 || n > len(r.s) { // each value takes a byte
		r.bad = true
		return nil
	}
	all := make([]any, 0, n)
	for range n {
		if all = append(all, r.value(depth-1)); r.bad {
			return nil
		}
	}
	return all
}
