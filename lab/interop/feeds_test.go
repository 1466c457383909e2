package interop

import (
	"strings"
	"testing"
	"time"

	"github.com/mmcdole/gofeed"

	"github.com/go-politeness/politeness/crawl/sitemap"
)

// feeds are RSS and Atom files as sites write them. differs says why the two readings of a file
// aren't the same: for a crawler a link is what counts, for a reader of news all of an item.
var feeds = []struct{ name, text, differs string }{
	{"RSS 2.0", `<?xml version="1.0"?><rss version="2.0"><channel><title>t</title><link>https://a.example/</link>
		<item><title>one</title><link>https://a.example/1</link><pubDate>Sat, 21 Nov 2026 03:00:00 GMT</pubDate></item>
		<item><title>two</title><link>https://a.example/2?x=1&amp;y=2</link><pubDate>Sun, 22 Nov 2026 03:00:00 +0200</pubDate></item></channel></rss>`, ""},
	{"RSS 2.0 with CDATA and spaces", `<rss version="2.0"><channel><item><link>
		<![CDATA[ https://a.example/1 ]]></link><pubDate> Sat, 21 Nov 2026 03:00:00 EST </pubDate></item></channel></rss>`, "EST is five hours behind UTC by RFC 822, gofeed takes it for UTC; and it keeps spaces"},
	{"RSS 2.0, a permalink alone", `<rss version="2.0"><channel><item><guid>https://a.example/1</guid></item></channel></rss>`, "gofeed keeps a guid apart"},
	{"RSS 2.0, dc:date", `<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel>
		<item><link>https://a.example/1</link><dc:date>2026-11-21T03:00:00Z</dc:date></item></channel></rss>`, ""},
	{"RSS 2.0 beside atom:link", `<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
		<atom:link href="https://a.example/feed" rel="self"/><item><link>https://a.example/1</link></item></channel></rss>`, ""},
	{"RSS 1.0", `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/">
		<channel rdf:about="https://a.example/"><link>https://a.example/</link></channel>
		<item rdf:about="https://a.example/1"><link>https://a.example/1</link><dc:date>2026-11-21</dc:date></item></rdf:RDF>`, ""},
	{"RSS 0.91", `<rss version="0.91"><channel><link>https://a.example/</link><item><link>https://a.example/1</link></item></channel></rss>`, ""},
	{"Atom", `<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://a.example/"/>
		<entry><link href="https://a.example/1"/><updated>2026-11-21T03:00:00Z</updated></entry>
		<entry><link rel="alternate" href="https://a.example/2"/><updated>2026-11-21T03:00:00.5+01:00</updated></entry></feed>`, ""},
	{"Atom with several links", `<feed xmlns="http://www.w3.org/2005/Atom"><entry>
		<link rel="self" href="https://a.example/1.atom"/><link rel="enclosure" href="https://a.example/1.mp3"/>
		<link rel="alternate" type="text/html" href="https://a.example/1"/></entry></feed>`, ""},
	{"Atom with xml:base", `<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://a.example/blog/"><entry><link href="1"/></entry></feed>`, ""},
	{"Atom with a nested xml:base", `<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://a.example/"><entry xml:base="blog/"><link href="1"/></entry></feed>`, ""},
	{"Atom with a prefix", `<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:entry><a:link href="https://a.example/1"/></a:entry></a:feed>`, "gofeed knows no other prefix than none"},
	{"Atom, published alone", `<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="https://a.example/1"/><published>2026-11-21T03:00:00Z</published></entry></feed>`, "a page may have changed since it was published"},
	{"with a BOM", "\xef\xbb\xbf" + `<rss version="2.0"><channel><item><link>https://a.example/1</link></item></channel></rss>`, ""},
	{"in ISO 8859-1", `<?xml version="1.0" encoding="ISO-8859-1"?><rss version="2.0"><channel><item><title>caf` + "\xe9" + `</title><link>https://a.example/1</link></item></channel></rss>`, ""},
	{"with an entity of HTML", `<rss version="2.0"><channel><item><title>a &nbsp; b</title><link>https://a.example/1</link></item></channel></rss>`, ""},
	{"with a bare ampersand in a link", `<rss version="2.0"><channel><item><link>https://a.example/?a=1&b=2</link></item></channel></rss>`, ""},
	{"a comment in a link", `<rss version="2.0"><channel><item><link>https://a.example/<!-- x -->1</link></item></channel></rss>`, "gofeed keeps the comment"},
	{"an image with a link of its own", `<rss version="2.0"><channel><image><link>https://a.example/logo</link></image>
		<item><link>https://a.example/1</link><source url="https://b.example/feed">b</source></item></channel></rss>`, ""},
	{"media of an item", `<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"><channel>
		<item><link>https://a.example/1</link><media:content url="https://a.example/1.jpg"/><enclosure url="https://a.example/1.mp3"/></item></channel></rss>`, ""},
	{"no item", `<rss version="2.0"><channel><title>t</title><link>https://a.example/</link></channel></rss>`, ""},
}

// item is what both have of an item of a feed.
type item struct {
	link     string
	modified time.Time
}

// TestFeedsAreReadAsByGofeed: the pages of a feed and their times are those that gofeed finds.
func TestFeedsAreReadAsByGofeed(t *testing.T) {
	for _, f := range feeds {
		theirs := itemsOfGofeed(t, f.name, f.text)
		ours := itemsOf(f.text)
		same := len(ours) == len(theirs)
		for i := 0; same && i < len(ours); i++ {
			same = ours[i].link == theirs[i].link && ours[i].modified.Equal(theirs[i].modified)
		}
		if same != (f.differs == "") {
			t.Errorf("%s: %v, and gofeed has %v (%s)", f.name, ours, theirs, f.differs)
		}
	}
}

func itemsOf(text string) (items []item) {
	for e, err := range sitemap.Read(strings.NewReader(text)) {
		if err == nil {
			items = append(items, item{e.Loc, e.LastMod})
		}
	}
	return items
}

func itemsOfGofeed(t *testing.T, name, text string) (items []item) {
	t.Helper()
	feed, err := gofeed.NewParser().ParseString(text)
	if err != nil {
		t.Logf("%s: gofeed: %v", name, err)
		return nil
	}
	for _, i := range feed.Items {
		modified := i.UpdatedParsed
		if modified == nil {
			modified = i.PublishedParsed
		}
		if modified == nil {
			modified = new(time.Time)
		}
		items = append(items, item{i.Link, *modified})
	}
	return items
}
