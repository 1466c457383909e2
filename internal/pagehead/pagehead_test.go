package pagehead

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/robots"
)

const (
	noIndexPage = `<!doctype html><head><meta name="robots" content="noindex"><meta name="tdm-reservation" content="1"></head>`
	openPage    = `<!doctype html><head><title>t</title></head><meta name="robots" content="noindex">`
)

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text)) // to memory
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestHead: a page is read by its type, in whatever coding and pieces it comes.
func TestHead(t *testing.T) {
	const prefixed = `<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:head><h:title/><h:meta name="robots" content="noindex"/><h:meta name="tdm-reservation" content="1"/></h:head>`
	for name, tt := range map[string]struct {
		contentType, coding, body string
		noIndex                   bool
	}{
		"HTML":                 {"text/html; charset=utf-8", "", noIndexPage, true},
		"no type":              {"", "", noIndexPage, true},
		"behind the head":      {"text/html", "", openPage, false},
		"plain text":           {"text/plain", "", noIndexPage, false},
		"XHTML with a prefix":  {"application/xhtml+xml", "", prefixed, true},
		"XML with a prefix":    {"text/xml", "", prefixed, true},
		"a prefix in HTML":     {"text/html", "", prefixed, false},
		"another kind of XML":  {"application/xml", "", `<rss><meta name="robots" content="noindex"/></rss>`, false},
		"gzip":                 {"text/html", "gzip", zipped(t, noIndexPage), true},
		"gzip twice":           {"text/html", "gzip, gzip", zipped(t, zipped(t, noIndexPage)), true},
		"gzip that isn't":      {"text/html", "gzip", noIndexPage, false},
		"a coding that nobody": {"text/html", "br", "\x1b\x0e\x00\xf8" + noIndexPage, false},
		"a head without end":   {"text/html", "", `<meta name=robots content=noindex><meta name=tdm-reservation content=1>` + strings.Repeat("<p>x", 100_000), true},
		"half of gzip":         {"text/html", "gzip", zipped(t, noIndexPage+openPage)[:120], true},
	} {
		for _, size := range []int{1, 7, 512, 1 << 20} {
			header := http.Header{}
			if tt.contentType != "" {
				header.Set("Content-Type", tt.contentType)
			}
			if tt.coding != "" {
				header.Set("Content-Encoding", tt.coding)
			}
			var h Head
			h.Begin(header, "FooBot", robots.Preferences{})
			for piece := range slices.Chunk([]byte(tt.body), size) {
				h.Write(piece)
			}
			_, isReserved := h.Preferences().Refused([]robots.Purpose{robots.Train})
			if got := h.Directives().NoIndex; got != tt.noIndex || isReserved != tt.noIndex {
				t.Errorf("%s, pieces of %d bytes: noindex %t, reserved %t", name, size, got, isReserved)
			}
		}
	}
}

// TestOver: Write says once that the head has ended, so that a page is judged before more of it is
// handed over.
func TestOver(t *testing.T) {
	for _, coding := range []string{"", "gzip"} {
		body := noIndexPage + strings.Repeat("<p>x", 1000)
		if coding != "" {
			body = zipped(t, body)
		}
		var h Head
		header := http.Header{"Content-Type": {"text/html"}}
		if coding != "" {
			header.Set("Content-Encoding", coding)
		}
		h.Begin(header, "FooBot", robots.Preferences{})
		times := 0
		for piece := range slices.Chunk([]byte(body+strings.Repeat("\n", 70<<10)), 100) {
			if h.Write(piece) {
				times++
			}
		}
		if times != 1 {
			t.Errorf("coding %q: the head ended %d times", coding, times)
		}
	}
}

// TestBeginForgetsThePageBefore: a try that is repeated is another page.
func TestBeginForgetsThePageBefore(t *testing.T) {
	var h Head
	h.Begin(http.Header{"Content-Type": {"text/html"}, "X-Robots-Tag": {"nofollow", "otherbot: noarchive"}}, "FooBot", robots.Preferences{})
	h.Write([]byte(noIndexPage))
	if d := h.Directives(); !d.NoIndex || !d.NoFollow || d.NoArchive {
		t.Errorf("%+v", d)
	}
	h.Begin(http.Header{"Content-Type": {"text/html"}}, "FooBot", robots.Preferences{})
	h.Write([]byte(openPage))
	if d := h.Directives(); d.NoIndex || d.NoFollow {
		t.Errorf("%+v", d)
	}
	var none Head
	if none.Write([]byte(noIndexPage)) || none.Directives().NoIndex {
		t.Error("the zero value states something")
	}
}

// TestPackedKeepsLittle: a long body in a coding is decoded a few times, and kept in part.
func TestPackedKeepsLittle(t *testing.T) {
	var h Head
	h.Begin(http.Header{"Content-Type": {"text/html"}, "Content-Encoding": {"gzip"}}, "FooBot", robots.Preferences{})
	body := []byte(zipped(t, strings.Repeat("\x00", 64<<20)))
	decodings := 0
	last := 0
	for range 10 {
		for piece := range slices.Chunk(body, 10) {
			h.Write(piece)
			if h.packed != nil && h.packed.decoded != last {
				last = h.packed.decoded
				decodings++
			}
		}
	}
	if decodings > 20 || h.packed != nil && len(h.packed.raw) > maxPacked {
		t.Errorf("decoded %d times, %+v", decodings, h.packed)
	}
}
