package crawl

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/internal/mediatype"
)

// A reader is a run that reads pages, and does nothing else.
func reader(t *testing.T) *run {
	t.Helper()
	transport, err := politeness.New(politeness.Config{UserAgent: "ExampleBot/1.0 (+https://example.com/bot)"})
	if err != nil {
		t.Fatal(err)
	}
	return &run{c: &Crawler{cfg: Config{Transport: transport}}, late: t.Context()}
}

func pageOfType(contentType, body string) *Page {
	return &Page{
		FinalURL: "https://example.com/a/b",
		Body:     []byte(body),
		Response: &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {contentType}}},
	}
}

// TestOneReading: the reading that finds the words of a page finds all else, as one for the visit
// alone does.
func TestOneReading(t *testing.T) {
	r := reader(t)
	const head = `<!doctype html><title>A</title><base href=/c/><meta name=robots content=noarchive><link rel=canonical href=d>`
	for name, tt := range map[string]struct {
		contentType, body string
		isKept            bool
	}{
		"HTML":                {"text/html", head + `<p>one <a href=1>two</a></p><p><a rel=nofollow href=2>three`, true},
		"another charset":     {"text/html; charset=iso-8859-1", head + "<p>caf\xe9 <a href='?q=caf\xe9'>x</a>", true},
		"XHTML":               {"application/xhtml+xml", `<html><body><p>one <a href="1">two</a></p></body></html>`, true},
		"another XML":         {"application/xml", `<rss><a href="1">two</a></rss>`, true},
		"no words":            {"text/html", `<script>go()</script><a href=1></a>`, true},
		"made of references":  {"text/html", head + strings.Repeat("<a href=1>x</a>", mostKeptRefs+1), false},
		"of another type":     {"text/plain", "one <a href=1>two</a>", false},
		"a canonical by HTML": {"", head, true},
	} {
		kind := mediatype.OfPage([]string{tt.contentType})
		once := pageOfType(tt.contentType, tt.body)
		if r.wordsOf(once) == 0 {
			t.Errorf("%s: no words", name)
		}
		if isKept := once.reading != nil; isKept != tt.isKept {
			t.Errorf("%s: its reading is kept: %t", name, isKept)
		}
		alone := pageOfType(tt.contentType, tt.body)
		for _, p := range []*Page{once, alone} {
			if kind.Type != "text/plain" {
				p.readHTML(t.Context(), "ExampleBot", kind)
			}
			p.refs = nil // it has functions
		}
		if !reflect.DeepEqual(once, alone) {
			t.Errorf("%s: %+v, want %+v", name, once, alone)
		}
	}
}

// TestWordsOf: pages are alike by their words, whatever ids and numbers they carry.
func TestWordsOf(t *testing.T) {
	r := reader(t)
	for name, tt := range map[string]struct {
		contentType, one, other string
		alike                   bool
	}{
		"an id in the text":     {"text/html", "<p>Are you a robot? Ray 8f3a", "<p>Are you a robot? Ray 77c0", true},
		"an id in a tag":        {"text/html", "<p id=abc>Are you a robot?", "<p id=xyz>Are you a robot?", true},
		"an id in a script":     {"text/html", "<script>var a='x'</script>Robot?", "<script>var a='y'</script>Robot?", true},
		"other words":           {"text/html", "<p>Are you a robot?", "<p>Welcome to the shop", false},
		"for readers alone":     {"text/html", "<script>a('x')</script><noscript>Robot?</noscript>", "<script>a('y')</script><noscript>Robot?</noscript>", true},
		"a script alone":        {"text/html", "<script>a('x')</script>", "<script>b('x')</script>", false},
		"JSON":                  {"application/json", `{"error": "captcha", "id": 17}`, `{"error": "captcha", "id": 18}`, true},
		"other JSON":            {"application/json", `{"error": "captcha"}`, `{"price": "low"}`, false},
		"XML that is no page":   {"application/xml", "<e><m>captcha</m><id>1</id></e>", "<e><m>captcha</m><id>2</id></e>", true},
		"another such XML":      {"application/xml", "<e><m>captcha</m></e>", "<e><m>shop</m></e>", false},
		"a page without a type": {"", "<p>Are you a robot? 1", "<p>Are you a robot? 2", true},
	} {
		alike := r.wordsOf(pageOfType(tt.contentType, tt.one)) == r.wordsOf(pageOfType(tt.contentType, tt.other))
		if alike != tt.alike {
			t.Errorf("%s: alike %t", name, alike)
		}
	}
}
