package sitemap

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/go-politeness/politeness/internal/soak"
)

const head = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

var tables = []struct {
	name, text      string
	pages, sitemaps []string
}{
	{"empty", "", nil, nil},
	{"empty urlset", head + "<urlset/>", nil, nil},
	{
		"urlset", head + `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
<url><loc> https://example.com/ </loc><lastmod>2026-11-01</lastmod><image:image><image:loc>https://example.com/i.png</image:loc></image:image></url>
<url><loc>https://example.com/?a=1&amp;b=2</loc></url>
<url><loc>/relative</loc></url><url><loc>ftp://example.com/</loc></url>
</urlset>`, []string{"https://example.com/", "https://example.com/?a=1&b=2"}, nil,
	},
	{
		"index", "\ufeff" + `<sitemapindex><sitemap><loc>https://example.com/a.xml.gz</loc></sitemap><sitemap><loc>https://example.com/b.xml</loc></sitemap></sitemapindex>`,
		nil,
		[]string{"https://example.com/a.xml.gz", "https://example.com/b.xml"},
	},
	{"lines", "https://example.com/a\r\nnot a URL\n\nhttps://example.com/b", []string{"https://example.com/a", "https://example.com/b"}, nil},
	{"lines after a mark", "\ufeffhttps://example.com/a\n", []string{"https://example.com/a"}, nil},
	{"prefixed", `<sm:urlset><sm:url><sm:loc>https://example.com/</sm:loc><loc>https://example.com/no</loc></sm:url></sm:urlset>`, []string{"https://example.com/"}, nil},
	{
		"hreflang", `<urlset xmlns:xhtml="http://www.w3.org/1999/xhtml"><url><loc>https://example.com/en</loc>` +
			`<xhtml:link rel="alternate" hreflang="de" href="https://example.com/de"/></url></urlset>`, []string{"https://example.com/en"}, nil,
	},
	{"an extension in a namespace of its own", `<urlset><url><image xmlns="x"><loc>https://example.com/i.png</loc></image><loc>https://example.com/</loc></url></urlset>`, []string{"https://example.com/"}, nil},
	{"character references", `<urlset><url><loc>https://example.com/&#x61;&#98;?x=1&amp;amp;&lt;&b=2&copy=3</loc></url></urlset>`, []string{"https://example.com/ab?x=1&amp;<&b=2&copy=3"}, nil},
	{"an undefined entity", `<urlset><url><loc>https://example.com/caf&eacute;</loc></url><url><loc>https://example.com/a</loc><lastmod>&nbsp;</lastmod></url>` +
		`<url><title>&hellip;</title><loc>https://example.com/?a&amp;b;&c d;&1;&;&e</loc></url></urlset>`, []string{"https://example.com/a", "https://example.com/?a&b;&c d;&1;&;&e"}, nil},
	{"an undefined entity in Atom", `<feed><entry><link href="https://example.com/&CounterClockwiseContourIntegral;"/></entry><entry><link href="https://example.com/b"/></entry></feed>`, []string{"https://example.com/b"}, nil},
	{"CDATA", `<urlset><url><loc><![CDATA[https://example.com/?a=1&amp;b=]]]></loc></url><url><loc>https://example.com/<![CDATA[a]]b]]></loc></url></urlset>`, []string{"https://example.com/?a=1&amp;b=]", "https://example.com/a]]b"}, nil},
	{"comments", `<!-- <url> --><urlset><!--><--><url><loc>https://example.com/<!-- x -->a</loc></url></urlset><!-- - ---->`, []string{"https://example.com/a"}, nil},
	{"a declared entity", `<!DOCTYPE urlset [<!ENTITY e "https://example.com/e"><!ENTITY x SYSTEM "file:///etc/passwd">]><urlset><url><loc>&e;</loc></url><url><loc>https://example.com/&x;</loc></url></urlset>`, nil, nil},
	{"an item that isn't closed", `<urlset><url><loc>https://example.com/a</loc><url><loc>https://example.com/b</loc></url></urlset>`, []string{"https://example.com/a", "https://example.com/b"}, nil},
	{"a tag with a greater-than", `<urlset><url a="x>y" b='<loc>'><loc>https://example.com/</loc></url></urlset>`, []string{"https://example.com/"}, nil},
	{
		"RSS", `<rss version="2.0" xmlns:atom="x"><channel><link>https://example.com/</link><atom:link href="https://example.com/feed"/>` +
			`<item><title>a &lt; b</title><link>https://example.com/a</link><pubDate>Sun, 01 Nov 2026 10:00:00 GMT</pubDate></item></channel></rss>`, []string{"https://example.com/a"}, nil,
	},
	{"RSS 1.0", `<rdf:RDF><channel><link>https://example.com/</link></channel><item><link>https://example.com/a</link><dc:date>2026</dc:date></item></rdf:RDF>`, []string{"https://example.com/a"}, nil},
	{
		"Atom", `<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://example.com/"/><entry><link rel="self" href="https://example.com/self"/>` +
			`<link href = 'https://example.com/?a=1&amp;b=2' /><updated>2026-11-01T10:00:00Z</updated></entry><entry><link rel="alternate" href="https://example.com/b"></link></entry></feed>`,
		[]string{"https://example.com/?a=1&b=2", "https://example.com/b"},
		nil,
	},
	{"other charset", `<?xml version="1.0" encoding="ISO-8859-1"?><urlset><url><loc>https://example.com/` + "caf\xe9" + `</loc></url></urlset>`, []string{"https://example.com/café"}, nil},
	{"UTF-16", toUTF16("\ufeff<urlset><url><loc>https://example.com/é𝄞</loc></url></urlset>"), []string{"https://example.com/é𝄞"}, nil},
	{"lines that end with CR", "https://example.com/a\rhttps://example.com/b\r\rhttps://example.com/c", []string{"https://example.com/a", "https://example.com/b", "https://example.com/c"}, nil},
	{"lines in UTF-16 that end with CR", toUTF16("\ufeff\ufeffhttps://example.com/a\rhttps://example.com/b"), []string{"https://example.com/a", "https://example.com/b"}, nil},
	{"two byte order marks", "\ufeff\ufeff" + `<urlset><url><loc>https://example.com/</loc></url></urlset>`, []string{"https://example.com/"}, nil},
	{"a byte order mark behind a line end", "\n\ufeff\n" + `<urlset><url><loc>https://example.com/</loc></url></urlset>`, []string{"https://example.com/"}, nil},
	{"two byte order marks before lines", "\ufeff\ufeffhttps://example.com/a", []string{"https://example.com/a"}, nil},
	{"white space in front", strings.Repeat(" \r\n", 5000) + `<urlset><url><loc>https://example.com/</loc></url></urlset>`, []string{"https://example.com/"}, nil},
	{"an index in a urlset", `<urlset><sitemap><loc>https://example.com/s.xml</loc></sitemap><url><loc>https://example.com/</loc></url></urlset>`, []string{"https://example.com/"}, []string{"https://example.com/s.xml"}},
	{"pages in an index", `<sitemapindex><url><loc>https://example.com/a</loc></url><url><loc>https://example.com/b</loc></url></sitemapindex>`, []string{"https://example.com/a", "https://example.com/b"}, nil},
	{
		"an extension that has a url", `<urlset><url><loc>https://example.com/a</loc><video><sitemap><loc>https://example.com/no</loc></sitemap></video></url></urlset>`,
		[]string{"https://example.com/a"},
		nil,
	},
	{"a sitemap without loc", `<sitemapindex><sitemap> https://example.com/a.xml<lastmod>2026</lastmod></sitemap><sitemap>https://example.com/b.xml</sitemap></sitemapindex>`, nil, []string{"https://example.com/a.xml", "https://example.com/b.xml"}},
	{"loc and a text", `<urlset><url>https://example.com/no<loc>https://example.com/a</loc>&nbsp;</url>&nbsp;<url><loc>https://example.com/b</loc></url></urlset>`, []string{"https://example.com/a", "https://example.com/b"}, nil},
	{"declared windows-1251", `<?xml version="1.0" encoding="windows-1251"?><urlset><url><loc>https://example.com/` + "\xef" + `</loc></url></urlset>`, []string{"https://example.com/п"}, nil},
	{"a mark and a declaration", "\ufeff" + `<?xml version="1.0" encoding="windows-1251"?><urlset><url><loc>https://example.com/п</loc></url></urlset>`, []string{"https://example.com/п"}, nil},
	{"a declaration that is wrong", `<?xml version="1.0" encoding="UTF-16"?><urlset><url><loc>https://example.com/п</loc></url></urlset>`, []string{"https://example.com/п"}, nil},
	{"an unknown declaration", `<?xml version="1.0" encoding='x-none'?><urlset><url><loc>https://example.com/п</loc></url></urlset>`, []string{"https://example.com/п"}, nil},
	{"UTF-16 without a mark", toUTF16("<urlset><url><loc>https://example.com/п</loc></url></urlset>"), []string{"https://example.com/п"}, nil},
	{"a line end in loc", "<urlset><url><loc>https://example.com/a\n  /b</loc></url></urlset>", []string{"https://example.com/a%20%20/b"}, nil},
	{"a host that is none", `<urlset><url><loc>https:/.</loc></url><url><loc>http://./a</loc></url><url><loc>https:..//</loc></url></urlset>`, nil, nil},
	{
		"guid", `<rss><channel><item><guid>https://example.com/a</guid></item><item><link/><guid isPermaLink="true"> https://example.com/b </guid></item>` +
			`<item><guid isPermaLink="FALSE">https://example.com/no</guid></item><item><guid>1234</guid></item>` +
			`<item><guid>https://example.com/no</guid><link>https://example.com/c</link></item><item><guid>&x;</guid><link>https://example.com/d</link></item></channel></rss>`,
		[]string{"https://example.com/a", "https://example.com/b", "https://example.com/c", "https://example.com/d"},
		nil,
	},
	{"rdf:about", `<rdf:RDF><item rdf:about="https://example.com/a"><title/></item><item rdf:about="urn:x"><link>https://example.com/b</link></item></rdf:RDF>`, []string{"https://example.com/a", "https://example.com/b"}, nil},
	{
		"xml:base", `<feed xml:base="https://example.com/a/"><entry xml:base="b/"><link href="c"/></entry><entry><link xml:base="/d/" href="e"/></entry><entry><link href="//example.org/"/></entry></feed>`,
		[]string{"https://example.com/a/b/c", "https://example.com/d/e", "https://example.org/"},
		nil,
	},
	{
		"several links of Atom", `<feed><entry><link rel="alternate" type="application/json" href="https://example.com/a.json"/><link rel="alternate" type="text/html" href="https://example.com/a"/>` +
			`<link rel="alternate" type="text/html" href="https://example.com/b"/></entry></feed>`, []string{"https://example.com/a"}, nil,
	},
	{"Atom in RSS", `<rss><channel><entry><link href="https://example.com/a"/></entry></channel></rss>`, []string{"https://example.com/a"}, nil},
	{"RSS in Atom", `<feed><item><link>https://example.com/a</link></item></feed>`, []string{"https://example.com/a"}, nil},
	{"HTML", "<!DOCTYPE html><html><body><p>Not found https://example.com/", nil, nil},
	{"text", "Not found", nil, nil},
	{"too long a URL", "<urlset><url><loc>https://example.com/" + strings.Repeat("a", 2048) + "</loc></url><url><loc>https://example.com/</loc></url></urlset>", []string{"https://example.com/"}, nil},
	{"too long a line", "https://example.com/" + strings.Repeat("a", 5000) + "\nhttps://example.com/\n", []string{"https://example.com/"}, nil},
}

func toUTF16(text string) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = append(b, byte(unit>>8), byte(unit))
	}
	return string(b)
}

// read returns what a file lists and its error.
func read(r io.Reader) (pages, sitemaps []string, last error) {
	for e, err := range Read(r) {
		switch {
		case err != nil:
			last = err
		case e.Index:
			sitemaps = append(sitemaps, e.Loc)
		default:
			pages = append(pages, e.Loc)
		}
	}
	return pages, sitemaps, last
}

func TestRead(t *testing.T) {
	for _, test := range tables {
		for packed := range 3 {
			if packed > 0 && test.text == "" {
				continue
			}
			text := []byte(test.text)
			for range packed {
				text = pack(t, text)
			}
			for _, r := range []io.Reader{bytes.NewReader(text), iotest.OneByteReader(bytes.NewReader(text))} {
				pages, sitemaps, err := read(r)
				if !slices.Equal(pages, test.pages) || !slices.Equal(sitemaps, test.sitemaps) {
					t.Errorf("%s, gzipped %d times: %q, %q, %v", test.name, packed, pages, sitemaps, err)
				}
			}
		}
	}
}

func TestReadSaysWhatItLeavesOut(t *testing.T) {
	for text, want := range map[string]string{
		"<html><p>Not found": "has no known format",
		"Not found":          "has no known format",
		`<urlset><url><loc>/a</loc></url><url></url></urlset>`:                                       `has entries without an absolute http or https URL, left out: 2, the first "/a"`,
		`<urlset><url><loc>http://e/&eacute;</loc></url><url><loc>http://e/&x;</loc></url></urlset>`: `has entries with an entity that XML doesn't define, left out: 2, the first "http://e/&eacute;"`,
		"https://example.com/\n\x1b[2Jred":                                                           `the first "\\x1b[2Jred"`,
		"<urlset><url><loc>https://example.com/":                                                     "can't be read to its end: unexpected EOF",
		"<urlset><!-- ":                                                                              "can't be read to its end",
		"\x1f\x8bnot gzip":                                                                           "can't be unpacked",
		"<urlset><page><loc>https://example.com/</loc></page></urlset>":                              "lists no URL",
		"<sitemapindex>https://example.com/</sitemapindex>":                                          "lists no URL",
		"<rss><channel><title>News</title></channel></rss>":                                          "lists no URL",
		"<!-- to come -->":                                                                           "has no known format",
		`<?xml version="1.0"?>`:                                                                      "has no known format",
		"<urlset><url><loc>https:/.</loc></url></urlset>":                                            `without an absolute http or https URL, left out: 1, the first "https:/."`,
	} {
		_, _, err := read(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"", " \r\n", "\ufeff", "<urlset></urlset>", "<urlset>\n<!-- none --> </urlset>", "<rss/>", "https://example.com/"} {
		if _, _, err := read(strings.NewReader(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReadKeepsWhatCameBeforeAnError(t *testing.T) {
	whole := "<urlset><url><loc>https://example.com/a</loc></url><url><loc>https://example"
	pages, _, err := read(strings.NewReader(whole))
	if err == nil || len(pages) != 1 {
		t.Errorf("%q, %v", pages, err)
	}
	packed := pack(t, []byte(strings.Repeat("https://example.com/a\n", 1000)))
	if pages, _, err = read(bytes.NewReader(packed[:len(packed)-12])); err == nil {
		t.Errorf("half a gzip file is no error; %d pages", len(pages))
	}
	// What browsers forgive: a trailer that is missing, and bytes behind it.
	for _, text := range [][]byte{packed[:len(packed)-4], append(slices.Clip(packed), "\n\n"...)} {
		if pages, _, err = read(bytes.NewReader(text)); err != nil || len(pages) != 1000 {
			t.Errorf("%d pages, %v", len(pages), err)
		}
	}
	away := errors.New("gone")
	if pages, _, err = read(io.MultiReader(strings.NewReader("https://a/\nhttps://b/\nhttps://c"), iotest.ErrReader(away))); !errors.Is(err, away) || len(pages) < 2 {
		t.Errorf("%q, %v", pages, err)
	}
}

func TestReadStopsWithItsConsumer(t *testing.T) {
	r := strings.NewReader(strings.Repeat("https://example.com/\n", 20_000))
	n := 0
	for _, err := range Read(r) {
		if n++; n == 3 || err != nil {
			break
		}
	}
	if n != 3 || r.Len() < 300_000 {
		t.Errorf("%d entries were yielded, %d bytes are left", n, r.Len())
	}
}

// endless repeats a text for ever.
type endless struct {
	text string
	at   int
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[e.at]
		e.at = (e.at + 1) % len(e.text)
	}
	e.read += len(p)
	return len(p), nil
}

func TestReadIsBoundedAgainstEndlessFiles(t *testing.T) {
	for name, start := range map[string][2]string{ // its beginning, and what is repeated
		"lines":               {"", "http://a/\n"},
		"one line":            {"http://a/", "a"},
		"entries":             {"<urlset>", "<url><loc>http://a/</loc></url>"},
		"entries without":     {"<urlset>", "<url><loc>a</loc></url>"},
		"depth":               {"<urlset>", "<a>"},
		"depth of items":      {"<urlset>", "<url>"},
		"depth of fields":     {"<urlset><url>", "<loc>"},
		"text":                {"<urlset><url><loc>", "a"},
		"references":          {"<urlset><url><loc>", "&amp;"},
		"CDATA":               {"<urlset><url><loc><![CDATA[", "]]]"},
		"comment":             {"<!--", "-"},
		"declaration":         {"<!DOCTYPE a [", "<!ENTITY a '&b;&b;'>"},
		"declarations":        {"", "<!a>"},
		"name":                {"<urlset><", "a"},
		"attribute":           {"<feed><entry><link href='", "a"},
		"attributes":          {"<feed><entry><link ", "href=''"},
		"end tags":            {"<urlset>", "</urlset>"},
		"space":               {"", " "},
		"nothing, many times": {string(pack(t, nil)), string(pack(t, nil))},
		"a bomb":              {string(pack(t, bytes.Repeat([]byte("<urlset>"), 1<<20))), string(pack(t, make([]byte, 1<<20)))},
	} {
		limit := int64(soak.Size(1<<20, 1<<20, maxBytes))
		t.Run(name, func(t *testing.T) {
			source := &endless{text: start[1]}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var most uint64
			n := 0
			var last error
			for _, err := range readFrom(nil, limit, io.MultiReader(strings.NewReader(start[0]), source)) {
				if n++; n%20_000 == 1 || err != nil {
					runtime.GC()
					runtime.ReadMemStats(&after)
					most = max(most, after.HeapAlloc)
				}
				last = err
			}
			if last == nil || n > maxURLs+1 || int64(source.read) > limit+1<<17 {
				t.Errorf("%d entries and %d bytes were read; error %v", n, source.read, last)
			}
			if most > before.HeapAlloc+1<<20 {
				t.Errorf("%d KB are held", (most-before.HeapAlloc)>>10)
			}
		})
	}
}

// TestWhatIsBetweenTwoLayersOfGzipIsBounded: the inner layer may have no end, and yield nothing.
func TestWhatIsBetweenTwoLayersOfGzipIsBounded(t *testing.T) {
	const limit = 1 << 16
	inner := append([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"), bytes.Repeat([]byte("\x00\x00\x00\xff\xff"), 20*limit/5)...) // empty blocks
	n := 0
	for _, err := range readFrom(nil, limit, bytes.NewReader(pack(t, inner))) {
		if n++; !errors.Is(err, errTooLong) {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d pairs", n)
	}
	for e, err := range readFrom(nil, limit, bytes.NewReader(pack(t, pack(t, []byte("http://a/"))))) {
		if err != nil || e.Loc != "http://a/" {
			t.Errorf("%v, %v", e, err)
		}
	}
}

// A urlset is a sitemap as encoding/xml sees it, which knows nothing of our scanner.
type urlset struct {
	XMLName xml.Name `xml:"urlset"`
	URL     []struct {
		Loc        string `xml:"loc"`
		ChangeFreq string `xml:"changefreq"`
	} `xml:"url"`
}

func TestWellFormedFilesReadAsByEncodingXML(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	noise := func() string {
		return pick("", "", "\n ", "<!-- a > b -->", "<?pi x?>", `<video:a b="&gt;'>" ><loc>http://no/</loc></video:a>`, "<priority>0.1</priority>")
	}
	for range 2000 {
		var b strings.Builder
		b.WriteString(pick(head, "", "<!DOCTYPE urlset>"))
		b.WriteString("<urlset" + pick("", " a='>'", "\n") + ">")
		for range random.IntN(4) {
			b.WriteString(noise() + "<url" + pick("", " ", ` x="/"`) + ">" + noise() + "<loc" + pick("", "\t", ` y='"'`) + ">" + pick("", " ", "\n") + "http://h/")
			for range random.IntN(4) {
				b.WriteString(pick("a", "é", "&amp;", "&#38;", "&#x2f;", "<![CDATA[&<]>]]>", "<!-- - -->", "?"))
			}
			b.WriteString("</loc" + pick("", " ") + ">" + noise() + "<changefreq>" + pick("daily", "never", "") + "</changefreq>" + noise() + "</url>")
		}
		b.WriteString("</urlset>" + pick("", "<!-- -->"))
		text := b.String()
		var want urlset
		if err := xml.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("the test's own file is broken: %v\n%s", err, text)
		}
		i := 0
		for e, err := range Read(strings.NewReader(text)) {
			if err != nil {
				t.Errorf("%v\n%s", err, text)
				break
			}
			if i >= len(want.URL) || e.Loc != strings.TrimSpace(want.URL[i].Loc) || e.ChangeFreq != want.URL[i].ChangeFreq {
				t.Errorf("entry %d is %+v\n%s", i, e, text)
			}
			i++
		}
		if i != len(want.URL) {
			t.Errorf("%d entries, want %d\n%s", i, len(want.URL), text)
		}
		if t.Failed() {
			return
		}
	}
}

func pack(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func FuzzRead(f *testing.F) {
	for _, test := range tables {
		f.Add([]byte(test.text))
		f.Add(pack(f, []byte(test.text)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		ended := false
		for e, err := range Read(bytes.NewReader(text)) {
			if ended {
				t.Fatal("there is something after the error")
			}
			if err != nil {
				ended = true
				if strings.ContainsFunc(strings.ReplaceAll(err.Error(), "\n", ""), func(r rune) bool { return r < ' ' || r == 0x7f }) {
					t.Errorf("error with control characters: %q", err)
				}
				continue
			}
			u, err := url.Parse(e.Loc)
			if err != nil || !u.IsAbs() || u.Host == "" || !strings.HasPrefix(strings.ToLower(e.Loc), "http") || len(e.Loc) >= maxLoc {
				t.Errorf("%q was read", e.Loc)
			}
			if !(e.Priority >= 0 && e.Priority <= 1) || e.Precision < 0 {
				t.Errorf("%+v", e)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	var text bytes.Buffer
	text.WriteString(head + "<urlset>")
	for i := range 50_000 {
		fmt.Fprintf(&text, "<url><loc>https://example.com/some/path/to/page-%d.html</loc><lastmod>2026-11-01T10:00:00+01:00</lastmod><priority>0.8</priority></url>\n", i)
	}
	text.WriteString("</urlset>")
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range Read(bytes.NewReader(text.Bytes())) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
