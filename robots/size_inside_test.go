package robots

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/robotsgen"
)

// TestSizeIsWhatRulesTake, to the byte; what is small the heap rounds up.
func TestSizeIsWhatRulesTake(t *testing.T) {
	bodies := map[string][]byte{
		"nothing": nil,
		"extras": []byte("User-agent: FooBot-of-a-long-name\n" + strings.Repeat("Request-rate: 1/5\nVisit-time: 0600-0845\nContent-Usage: /a train-ai=n\nLicense: https://a/l\n", 7) +
			"Content-Signal: ai-train=no, search=yes, ai-input=no\nDisallow: /"),
		"one extra": []byte("User-agent: *\nVisit-time: 0600-0845\nDisallow: /"),
	}
	for _, s := range robotsgen.Shapes {
		bodies[s.Name] = robotsgen.File(s)
	}
	for name, body := range bodies {
		r := ParseWith(body, Options{LenientAgents: true}).Agent("FooBot")
		v := reflect.ValueOf(*r)
		size := int(v.Type().Size()) + beyond(v)
		if size < 32<<10 {
			size += size / 8
		}
		if got := r.Size(); got != size {
			t.Errorf("%s: %d bytes, by Size %d", name, size, got)
		}
	}
}

// beyond returns how many bytes a value holds beside itself.
func beyond(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice:
		return v.Cap() * int(v.Type().Elem().Size()) // no element holds more
	case reflect.Pointer:
		if !v.IsNil() {
			return int(v.Type().Elem().Size()) + beyond(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += beyond(v.Field(i))
		}
	}
	return n
}
