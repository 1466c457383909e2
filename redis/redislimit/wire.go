package redislimit

import (
	"math"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// What goes to step.lua and comes back is MessagePack.

// pack writes a list.
func pack(list ...any) string {
	b, err := msgp.AppendIntf(make([]byte, 0, 256), list)
	if err != nil {
		panic(err) // a value that MessagePack has no type for, which only this package can write
	}
	return string(b)
}

// parse reads one list, nil from anything else; number, duration, text and truth read its values.
func parse(s string) []any {
	b := []byte(s)
	if rest, err := msgp.Skip(b); err != nil || len(rest) > 0 { // before it takes memory for what isn't there
		return nil
	}
	v, _, _ := msgp.ReadIntfBytes(b)
	list, _ := v.([]any)
	return list
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
	return time.Duration(min(max(number(v), -1<<52), 1<<52)) * time.Microsecond
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func truth(v any) bool {
	b, _ := v.(bool)
	return b
}

// micros rounds up: a gap may only grow by it.
func micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return min(us, 1<<52) // 142 years; step.lua computes in float64
}
