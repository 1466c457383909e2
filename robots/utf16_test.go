package robots_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/jimsmart/grobotstxt"

	"github.com/go-politeness/politeness/robots"
)

// TestUTF16 with a byte order mark is read, but not under GoogleExact: Google's matcher finds no rule
// there, nor does the reference.
func TestUTF16(t *testing.T) {
	for name, body := range map[string]string{
		"little-endian": "\xff\xfeU\x00s\x00e\x00r\x00-\x00a\x00g\x00e\x00n\x00t\x00:\x00 \x00*\x00\r\x00\n\x00D\x00i\x00s\x00a\x00l\x00l\x00o\x00w\x00:\x00 \x00/\x00\xe9\x00\n\x00",
		"big-endian":    "\xfe\xff\x00U\x00s\x00e\x00r\x00-\x00a\x00g\x00e\x00n\x00t\x00:\x00 \x00*\x00\n\x00D\x00i\x00s\x00a\x00l\x00l\x00o\x00w\x00:\x00 \x00/\x00\xe9\x00",
	} {
		for path, want := range map[string]bool{"/\u00e9/page": false, "/%C3%A9": false, "/e": true} {
			if v := robots.Parse([]byte(body)).Agent("FooBot").Test(path); v.Allowed != want || !want && v.Line != 2 {
				t.Errorf("%s: %s: %+v", name, path, v)
			}
			if v := robots.ParseWith([]byte(body), robots.Options{GoogleExact: true}).Agent("FooBot").Test(path); !v.Allowed {
				t.Errorf("%s: %s as Google: %+v", name, path, v)
			}
			if !grobotstxt.AgentAllowed(body, "FooBot", "https://example.com"+path) {
				t.Errorf("%s: %s: the reference disallows", name, path)
			}
		}
	}
	for _, body := range []string{"\xff\xfe", "\xfe\xff", "\xff\xfe\x00", "\xff\xfe\x00\xd8", "\xff"} { // nothing, or half of something
		if v := robots.Parse([]byte(body)).Agent("FooBot").Test("/"); !v.Allowed {
			t.Errorf("%q: %+v", body, v)
		}
	}
}

// TestMetaInUTF16 is read with a byte order mark, and without one from a page that begins with a tag.
func TestMetaInUTF16(t *testing.T) {
	const page = `<!doctype html><head><title>\u00e9</title><meta name="robots" content="noindex, noai"></head><p>`
	for name, body := range map[string]string{
		"little-endian": inUTF16(binary.LittleEndian, "\ufeff"+page), "big-endian": inUTF16(binary.BigEndian, "\ufeff"+page),
		"little-endian, no mark": inUTF16(binary.LittleEndian, page), "big-endian, no mark": inUTF16(binary.BigEndian, page),
		"longer than what is read": inUTF16(binary.LittleEndian, "\ufeff"+page+strings.Repeat("text ", 20_000)),
	} {
		if d, err := robots.ReadMeta(strings.NewReader(body), "FooBot"); err != nil || !d.NoIndex || d.NoFollow {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		s := robots.NewMetaScanner("FooBot")
		for i := range len(body) {
			_, _ = s.Write([]byte{body[i]})
		}
		if d := s.Directives(); !d.NoIndex || !d.NoAI {
			t.Errorf("%s, byte by byte: %+v", name, d)
		}
	}
}

func inUTF16(order binary.AppendByteOrder, s string) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(s)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}
