package crawl

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/go-politeness/politeness/internal/mediatype"
)

// benchPage is a page of 100 KB as shops and newspapers have them.
func benchPage() []byte {
	var b strings.Builder
	b.WriteString(`<!doctype html><html><head><meta charset="utf-8"><title>t</title><link rel="canonical" href="/c"></head><body>`)
	for i := range 300 {
		fmt.Fprintf(&b, `<div class="item"><svg viewBox="0 0 1 1"><title>i</title><path d="M0 0L1 1"/></svg><h2><a href="/shop/item-%d?from=list&amp;n=%d" class="a b">Item %d</a></h2><p>Some words about it, <b>bold</b> and <a rel="nofollow" href="../cart/%d">more</a>.</p></div>`+"\n", i, i, i, i)
	}
	b.WriteString(`<script>` + strings.Repeat("var x = 1;\n", 1000) + `</script></body></html>`)
	return []byte(b.String())
}

// BenchmarkReadPage reads links, directives, words and lines of a page.
func BenchmarkReadPage(b *testing.B) {
	body := benchPage()
	kind := mediatype.OfPage([]string{"text/html"})
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		p := &Page{FinalURL: "https://example.com/list", Body: body, Response: &http.Response{StatusCode: http.StatusOK}}
		p.readHTML(b.Context(), "bot", kind)
		if len(p.Links) != 600 {
			b.Fatalf("%d links", len(p.Links))
		}
	}
}

// BenchmarkReadTree does less: it builds the tree of golang.org/x/net/html, as goquery and colly do,
// and collects the references in it.
func BenchmarkReadTree(b *testing.B) {
	body := benchPage()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		root, err := html.Parse(bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		found := 0
		for n := range root.Descendants() {
			if n.DataAtom != atom.A {
				continue
			}
			for _, a := range n.Attr {
				if a.Key == "href" {
					found++
				}
			}
		}
		if found != 600 {
			b.Fatalf("%d references", found)
		}
	}
}
