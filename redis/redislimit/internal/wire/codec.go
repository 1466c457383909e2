package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// pack writes a record. Fields that are zero are left out.
func pack(record any) string {
	var out bytes.Buffer
	out.Grow(256)
	encoder := msgpack.GetEncoder()
	defer msgpack.PutEncoder(encoder)
	encoder.Reset(&out)
	encoder.UseCompactInts(true)
	encoder.UseCompactFloats(true)
	encoder.SetOmitEmpty(true)
	if err := encoder.Encode(record); err != nil {
		panic(err) // a type that MessagePack doesn't have, which only this package can write
	}
	return out.String()
}

// read reads one record, and nothing else. It returns an error that names a field which the record
// doesn't have.
func read(text string, record any) error { return decode(text, record, true) }

var errNoRecord = errors.New("wire: not a record")

func decode(text string, record any, strict bool) error {
	if err := measure(text); err != nil {
		return err
	}
	decoder := msgpack.GetDecoder()
	defer msgpack.PutDecoder(decoder)
	decoder.Reset(strings.NewReader(text))
	decoder.DisallowUnknownFields(strict)
	if err := decoder.Decode(record); err != nil {
		return fmt.Errorf("wire: %T: %w", record, err)
	}
	return nil
}

// deepest bounds how deep the values of a record are nested. Ours have four levels.
const deepest = 16

// measure checks that text is one map whose lengths are all true, before a decoder takes memory for
// values that aren't there.
func measure(text string) error {
	isMap := text != "" && (msgpcode.IsFixedMap(text[0]) || text[0] == msgpcode.Map16 || text[0] == msgpcode.Map32)
	// An empty table of Lua is packed as a list.
	if !isMap && text != "\x90" {
		return errNoRecord
	}
	rest, err := skip(text, deepest)
	if err == nil && rest != "" {
		err = errNoRecord
	}
	return err
}

// skip returns what follows the first value of text.
func skip(text string, depth int) (rest string, err error) {
	if text == "" || depth == 0 {
		return "", errNoRecord
	}
	code := text[0]
	text = text[1:]
	if width, ok := widths[code]; ok {
		return cut(text, width)
	}
	size, values := uint64(0), false
	switch {
	case msgpcode.IsFixedNum(code):
		return text, nil
	case msgpcode.IsFixedString(code):
		size = uint64(code & msgpcode.FixedStrMask)
	case msgpcode.IsFixedArray(code):
		size = uint64(code & msgpcode.FixedArrayMask)
		values = true
	case msgpcode.IsFixedMap(code):
		size = 2 * uint64(code&msgpcode.FixedMapMask)
		values = true
	default:
		prefix, ok := prefixes[code]
		if !ok || len(text) < prefix.width {
			return "", errNoRecord
		}
		size = prefix.read(text) * max(prefix.values, 1)
		values = prefix.values > 0
		text = text[prefix.width:]
	}
	if !values {
		return cut(text, size)
	}
	for range size {
		text, err = skip(text, depth-1)
		if err != nil {
			return "", err
		}
	}
	return text, nil
}

func cut(text string, size uint64) (rest string, err error) {
	if uint64(len(text)) < size {
		return "", errNoRecord
	}
	return text[size:], nil
}

// widths has the sizes of values that have no length.
var widths = map[byte]uint64{
	msgpcode.Nil: 0, msgpcode.False: 0, msgpcode.True: 0,
	msgpcode.Uint8: 1, msgpcode.Uint16: 2, msgpcode.Uint32: 4, msgpcode.Uint64: 8,
	msgpcode.Int8: 1, msgpcode.Int16: 2, msgpcode.Int32: 4, msgpcode.Int64: 8,
	msgpcode.Float: 4, msgpcode.Double: 8,
}

// A prefix is the length of a text, of a list, or of a map, which has two values for each field.
type prefix struct {
	width  int
	values uint64 // 0: it counts bytes
}

var prefixes = map[byte]prefix{
	msgpcode.Str8: {1, 0}, msgpcode.Str16: {2, 0}, msgpcode.Str32: {4, 0},
	msgpcode.Bin8: {1, 0}, msgpcode.Bin16: {2, 0}, msgpcode.Bin32: {4, 0},
	msgpcode.Array16: {2, 1}, msgpcode.Array32: {4, 1},
	msgpcode.Map16: {2, 2}, msgpcode.Map32: {4, 2},
}

func (p prefix) read(text string) uint64 {
	var b [8]byte
	copy(b[8-p.width:], text[:p.width])
	return binary.BigEndian.Uint64(b[:])
}
