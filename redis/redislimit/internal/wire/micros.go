package wire

import (
	"fmt"
	"math"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Micros are microseconds: a time, or a length of one. It is rounded up, as a gap may only grow by
// it, and at most 1<<52, 142 years, because step.lua computes in float64.
type Micros int64

const mostMicros = 1 << 52

// MicrosOf returns d.
func MicrosOf(d time.Duration) Micros {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return Micros(min(us, mostMicros))
}

// Duration returns m as a duration, at most 142 years in either direction.
func (m Micros) Duration() time.Duration {
	return time.Duration(min(max(m, -mostMicros), mostMicros)) * time.Microsecond
}

// DecodeMsgpack implements [msgpack.CustomDecoder]. A number that step.lua can't have computed is
// an error.
func (m *Micros) DecodeMsgpack(decoder *msgpack.Decoder) error {
	code, err := decoder.PeekCode()
	if err != nil {
		return err
	}
	if code != msgpcode.Float && code != msgpcode.Double {
		n, err := decoder.DecodeInt64()
		*m = Micros(n)
		return err
	}
	n, err := decoder.DecodeFloat64()
	if err != nil {
		return err
	}
	if !(math.Abs(n) < 1<<53) { // or it isn't a number
		return fmt.Errorf("%v is no time", n)
	}
	*m = Micros(math.Ceil(n))
	return nil
}
