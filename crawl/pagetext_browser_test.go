package crawl_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/browsertest"
)

// textPages are pages in many encodings, named in each place where one may be named.
func textPages(t *testing.T) map[string]struct{ contentType, body string } {
	const (
		page  = "<!doctype html><title>t</title><p>%s</p>"
		metas = `<!doctype html><meta charset="%s"><title>t</title><p>`
		equiv = `<!doctype html><meta http-equiv="Content-Type" content="text/html; charset=%s"><p>`
		xhtml = `<?xml version="1.0" encoding="%s"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>t</title></head><body><p>%s</p></body></html>`
	)
	pages := make(map[string]struct{ contentType, body string })
	add := func(name, contentType, body string) {
		pages[name] = struct{ contentType, body string }{contentType, body}
	}
	for encoding, text := range map[string]string{
		"utf-8": "naïve café, 日本", "iso-8859-1": "naïve café", "windows-1252": "café “5 €”", "iso-8859-2": "žluťoučký kůň",
		"windows-1251": "Привет, мир", "koi8-r": "Привет, мир", "shift_jis": "日本語のページ", "euc-jp": "日本語のページ",
		"gb18030": "中文网页", "big5": "中文網頁", "euc-kr": "한국어 페이지",
	} {
		bytes := text
		if encoding != "utf-8" {
			bytes = encoded(t, encoding, text)
		}
		add(encoding+" by the header", "text/html; charset="+encoding, fmt.Sprintf(page, bytes))
		add(encoding+" by the header, quoted", `text/html; Charset="`+strings.ToUpper(encoding)+`"`, fmt.Sprintf(page, bytes))
		add(encoding+" by a meta", "text/html", fmt.Sprintf(metas, encoding)+bytes)
		add(encoding+" by an older meta", "text/html", fmt.Sprintf(equiv, encoding)+bytes)
		add(encoding+" by an XML declaration", "application/xhtml+xml", fmt.Sprintf(xhtml, encoding, bytes))
		add(encoding+", plain", "text/plain; charset="+encoding, bytes)
	}
	add("a BOM of UTF-8 beside a wrong header", "text/html; charset=koi8-r", "\xef\xbb\xbf"+fmt.Sprintf(page, "café"))
	add("a BOM of UTF-8 beside a wrong meta", "text/html", "\xef\xbb\xbf"+fmt.Sprintf(metas, "koi8-r")+"café")
	add("UTF-16, little endian", "text/html", asUTF16(binary.LittleEndian, fmt.Sprintf(page, "café 日本")))
	add("UTF-16, big endian", "text/html", asUTF16(binary.BigEndian, fmt.Sprintf(page, "café 日本")))
	add("a header and another meta", "text/html; charset=windows-1251", fmt.Sprintf(metas, "koi8-r")+encoded(t, "windows-1251", "мир"))
	add("wrong bytes", "text/html; charset=utf-8", fmt.Sprintf(page, "a\xffb \xe2\x82 c"))
	add("an unknown charset", "text/html; charset=klingon", fmt.Sprintf(page, "caf\xe9"))
	return pages
}

// TestTextIsWhatABrowserShows: Page.Text, read by a parser, has the words of document.body.innerText
// in Chromium.
func TestTextIsWhatABrowserShows(t *testing.T) {
	browser := browsertest.Find(t)
	if browser == "" {
		return
	}
	pages := textPages(t)
	var names []string
	for name := range pages {
		names = append(names, name)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, framesOf(len(names)))
			return
		}
		i, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil || i >= len(names) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", pages[names[i]].contentType)
		fmt.Fprint(w, pages[names[i]].body)
	}))
	defer server.Close()

	shown := shownTexts(t, browser, server.URL)
	if len(shown) != len(names) {
		t.Fatalf("the browser has shown %d of %d pages", len(shown), len(names))
	}
	read := readTexts(t, server.URL, len(names))
	for i, name := range names {
		if shown[i] == "" || read[i] != shown[i] {
			t.Errorf("%s: %q, and the browser shows %q", name, read[i], shown[i])
		}
	}
}

// framesOf is a page that shows n pages in frames, and then their texts as JSON.
func framesOf(n int) string {
	var b strings.Builder
	b.WriteString("<!doctype html><body>")
	for i := range n {
		fmt.Fprintf(&b, "<iframe src=/%d></iframe>", i)
	}
	b.WriteString(`<script>
window.onload = () => {
	const texts = [...document.querySelectorAll("iframe")].map((f) => f.contentDocument.body.innerText);
	document.body.textContent = "[texts]" + JSON.stringify(texts) + "[/texts]";
};
</script>`)
	return b.String()
}

// shownTexts returns the texts of the pages in frames, with white space folded.
func shownTexts(t *testing.T, browser, url string) []string {
	t.Helper()
	dom := browsertest.Look(t, browser, url, "", "--virtual-time-budget=20000")
	_, rest, _ := strings.Cut(dom, "[texts]")
	text, _, _ := strings.Cut(rest, "[/texts]")
	var texts []string
	if err := json.Unmarshal([]byte(html.UnescapeString(text)), &texts); err != nil {
		t.Fatalf("%v in %.2000s", err, dom)
	}
	for i := range texts {
		texts[i] = folded(texts[i])
	}
	return texts
}

// readTexts returns the texts of the pages as Page.Text has them.
func readTexts(t *testing.T, url string, n int) []string {
	t.Helper()
	transport, err := politeness.New(politeness.Config{
		UserAgent: "TextBot/1.0 (+https://example.com/bot; bot@example.com)",
		Hosts:     hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond, Max: time.Millisecond}},
	})
	if err != nil {
		t.Fatal(err)
	}
	texts := make([]string, n)
	c, err := crawl.New(crawl.Config{
		Transport: transport,
		Workers:   1,
		Visit: func(_ context.Context, p *crawl.Page) error {
			i, err := strconv.Atoi(strings.TrimPrefix(p.Response.Request.URL.Path, "/"))
			if err != nil {
				return err
			}
			doc, err := html.Parse(p.Text())
			if err != nil {
				return err
			}
			texts[i] = folded(textOf(doc))
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for i := range n {
		urls = append(urls, fmt.Sprintf("%s/%d", url, i))
	}
	summary, err := c.Run(t.Context(), urls...)
	if err != nil || summary.Visited() != n {
		t.Fatalf("%v, %v", summary, err)
	}
	return texts
}

// textOf returns the text of the body in a document.
func textOf(doc *html.Node) string {
	var b strings.Builder
	for n := range doc.Descendants() {
		inHead := n.Parent != nil && n.Parent.Data == "title"
		if n.Type == html.TextNode && !inHead {
			b.WriteString(n.Data)
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// folded returns text with each row of white space as one space.
func folded(text string) string { return strings.Join(strings.Fields(text), " ") }
