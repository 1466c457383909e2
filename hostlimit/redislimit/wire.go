package redislimit

import (
	"errors"
	"math"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// What goes to step.lua and comes back is MessagePack.

// appendValue appends v: an int, int64, string, bool (as 0 or 1), float64 or []any.
func appendValue(b []byte, v any) []byte {
	switch w := v.(type) {
	case bool:
		v = 0
		if w {
			v = 1
		}
	case []any:
		b = msgp.AppendArrayHeader(b, uint32(len(w)))
		for _, e := range w {
			b = appendValue(b, e)
		}
		return b
	}
	b, err := msgp.AppendIntf(b, v)
	if err != nil {
		panic(err) // a value of another type, which only this package can write
	}
	return b
}

var errWire = errors.New("redislimit: not an answer of step.lua")

// parse reads one list; number, duration and text read its values.
func parse(s string) ([]any, error) {
	b := []byte(s)
	if rest, err := msgp.Skip(b); err != nil || len(rest) > 0 { // before it takes memory for what isn't there
		return nil, errWire
	}
	v, _, err := msgp.ReadIntfBytes(b)
	list, ok := v.([]any)
	if err != nil || !ok {
		return nil, errWire
	}
	return list, nil
}

// number returns v as a number, rounded up, 0 if it is none: step.lua computes in floats.
func number(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case uint64:
		return int64(n)
	case float32:
		return number(float64(n))
	case float64:
		if math.Abs(n) < 1<<53 {
			return int64(math.Ceil(n))
		}
	}
	return 0
}

// duration reads a number of microseconds.
func duration(v any) time.Duration {
	const longest = int64(1 << 52)
	return time.Duration(min(max(number(v), -longest), longest)) * time.Microsecond
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// micros rounds up: a gap may only grow by it.
func micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return min(us, 1<<52) // 142 years; step.lua computes in float64
}
