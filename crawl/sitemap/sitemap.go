// Package sitemap reads sitemaps (https://www.sitemaps.org/protocol.html). Sitemaps are the lists
// of pages that a site publishes for crawlers.
//
// A [Finder] finds the pages of a site. It reads the sitemaps that robots.txt names, and those that
// these name. It obeys the protocol's rules about sitemaps for other hosts. [Read] reads one file,
// which is XML, an index of other sitemaps, RSS, Atom or one URL a line, gzipped or not.
//
// An [Entry] has lastmod, changefreq and priority of a page. [Entry.Stale] reports whether a copy
// of the page may be out of date. The sitemap extensions (images, videos, news, translations) are
// ignored.
//
// Files come from strangers. One is read up to the protocol's limits of 50,000 URLs and 50 MB,
// in a few kilobytes of memory, however deep, endless or broken it is. Entities that it declares
// are never expanded. The texts of errors are free of control characters.
package sitemap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/go-politeness/politeness/internal/coding"
	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/internal/printable"
	"github.com/go-politeness/politeness/internal/weblink"
)

// The protocol's limits for one file. The bytes are counted before and after decompression.
const (
	maxBytes = 50 << 20
	maxURLs  = 50_000
	maxLoc   = 2048
)

var (
	errTooMany = fmt.Errorf("lists more than %d URLs, the protocol's limit", maxURLs)
	errTooLong = fmt.Errorf("is longer than %d MB, the protocol's limit", maxBytes>>20)
	errNothing = errors.New("lists no URL: no element in it is an entry of a sitemap or of a feed")
	errFormat  = errors.New("has no known format: neither XML of a known kind " +
		"(urlset, sitemapindex, rss, RDF, feed) nor URLs, one a line")
)

// Read reads a sitemap and yields its entries as they come. The sitemap is XML, an index, RSS, Atom
// or one URL a line, gzipped or not, with any name and Content-Type. It needs a few kilobytes of
// memory. Use it for a file that you have. A [Finder] fetches a site's sitemaps by itself.
//
// The pages of an urlset count in a sitemapindex as well, and the other way round. An item of RSS
// without a link is the page of its guid, if that is a URL. A URL of a feed may be relative to its
// xml:base.
//
// At most one error is yielded, with the last pair. It names the part of the file that can't be
// read, and the entries that were left out. An entry is left out if it isn't an absolute http or
// https URL of less than 2,048 bytes, or has an entity that XML doesn't define, such as eacute. A
// file that has elements or text and yields nothing is an error as well. The entries before it are
// good.
func Read(r io.Reader) iter.Seq2[Entry, error] {
	return readFrom(nil, maxBytes, r)
}

// readFrom is Read of a file at the URL base, to which the URLs in its XML may be relative, with a
// limit. With a nil base they can't be.
func readFrom(base *weblink.URL, limit int64, r io.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		p := parser{yield: yield, base: base}
		err := p.read(r, limit)
		if errors.Is(err, errStopped) {
			return
		}
		if err != nil {
			err = fmt.Errorf("sitemap %w", err)
		}
		left := errors.Join(
			p.noURL.err("without an absolute http or https URL"),
			p.undefined.err("with an entity that XML doesn't define"))
		if left != nil {
			err = errors.Join(err, left)
		}
		if err != nil {
			yield(Entry{}, err)
		}
	}
}

// errStopped ends the reading of a file whose consumer wants no more of it.
var errStopped = errors.New("stopped")

// A parser reads one file.
type parser struct {
	yield     func(Entry, error) bool
	base      *weblink.URL // of relative URLs; nil: they are left out
	entries   int          // yielded
	noURL     leftOut
	undefined leftOut // with an entity that XML doesn't define in their URLs

	in    *bufio.Reader
	depth int // elements that are open

	tagText []byte // the room for tags

	kind       kind
	prefix     string // namespace prefix of the root and with it of the elements that matter: "" or "sm:"
	hasContent bool   // there is an element or a text in the root
	item       item   // the item that is open, if itemDepth > 0
	itemDepth  int

	field      string // local name of the open element whose text is wanted, or ""
	fieldDepth int
	text       []byte // of that element or of a line: its beginning, longer than any URL may be
}

// leftOut counts the entries that are left out for one reason.
type leftOut struct {
	n     int
	first string // its URL
}

func (l *leftOut) add(loc string) {
	if l.n == 0 {
		l.first = loc
	}
	l.n++
}

// err returns an error about entries of this kind, nil if there are none.
func (l *leftOut) err(kind string) error {
	if l.n == 0 {
		return nil
	}
	return fmt.Errorf("sitemap has entries %s, left out: %d, the first %q", kind, l.n, printable.Clipped(l.first, 100))
}

// An item is the raw text of an entry.
type item struct {
	name                               string // of its element
	base                               *weblink.URL
	loc, lastMod, changeFreq, priority string
	undefined                          bool // loc has an entity that XML doesn't define
	isHTML                             bool // loc is that of a link to a page, of those that Atom may have

	// guid may be the URL of a feed's item that has no other.
	guid          string
	guidUndefined bool // guid has an entity that XML doesn't define
}

// A kind is a format that lists URLs in XML. Each has a sibling, whose items are read as well:
// sites put the items of one into the root of the other.
type kind struct {
	item    string // name of the element of an entry
	sibling string // the same of the other format
	feed    bool   // whether prefixes don't matter, and what is read is link and a date
}

var kinds = map[string]kind{ // by the local name of the root
	"urlset":       {item: "url", sibling: indexItem},
	"sitemapindex": {item: indexItem, sibling: "url"},
	"rss":          {item: "item", sibling: "entry", feed: true},
	"RDF":          {item: "item", sibling: "entry", feed: true},
	"feed":         {item: "entry", sibling: "item", feed: true},
}

// indexItem is the element of an entry that is another sitemap.
const indexItem = "sitemap"

// read reads a file of at most limit bytes, before and after decompression.
func (p *parser) read(r io.Reader, limit int64) error {
	text, layers, err := unpack(r, limit)
	if err != nil {
		return err
	}
	p.in = decode(text)
	start, _ := p.in.Peek(1)
	if string(start) == "<" {
		err = p.readXML()
	} else {
		p.base = nil // or each line of a text would be a URL
		err = p.readLines()
	}
	if errors.Is(err, errStopped) || errors.Is(err, errTooMany) {
		return err
	}
	// A file that was cut off looks broken in any way: its length is the reason.
	for _, l := range layers {
		if l.N <= 0 {
			return errTooLong
		}
	}
	return err
}

// unpack undoes gzip where the first bytes say so: that of the file, and that of a server which
// packs files of .xml.gz once more. Of each layer, the text included, one byte more than limit can
// be read.
func unpack(r io.Reader, limit int64) (text io.Reader, layers []*io.LimitedReader, err error) {
	for {
		layer := &io.LimitedReader{R: r, N: limit + 1}
		layers = append(layers, layer)
		b := bufio.NewReader(layer)
		magic, _ := b.Peek(2)
		isPacked := bytes.Equal(magic, []byte{0x1f, 0x8b})
		if !isPacked || len(layers) > 2 {
			return b, layers, nil
		}
		r, err = coding.NewReader(b, []string{"gzip"}, math.MaxInt64) // layer has the bound
		if err != nil {
			return nil, nil, fmt.Errorf("can't be unpacked: %w", err)
		}
	}
}

// readLines reads one URL a line. A line ends with LF, CR LF, or CR alone.
func (p *parser) readLines() error {
	lines := 0
	for {
		b, err := p.in.ReadByte()
		if err == nil && b != '\n' && b != '\r' {
			p.add(b)
			continue
		}
		loc := strings.TrimSpace(p.taken())
		if loc != "" {
			lines++
			if err := p.emit(item{loc: loc}); err != nil {
				return err
			}
		}
		if err == nil {
			continue
		}
		if lines > 0 && p.entries == 0 && errors.Is(err, io.EOF) {
			// It is a text of another kind, such as a page that says "not found".
			p.noURL = leftOut{}
			return errFormat
		}
		return atEnd(err)
	}
}

// atEnd is what a read error means at a place where the file may end.
func atEnd(err error) error {
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return unreadable(err)
}

func unreadable(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("can't be read to its end: %w", err)
}

// emit yields an entry whose URL is one.
func (p *parser) emit(it item) error {
	loc := strings.TrimSpace(it.loc)
	base := it.base
	isByGUID := loc == "" && it.guid != ""
	if isByGUID {
		loc = strings.TrimSpace(it.guid)
		base = nil // most are no URLs, and would be relative ones
		it.undefined = it.guidUndefined
	}
	if it.undefined {
		p.undefined.add(loc)
		return nil
	}
	url := resolved(base, loc)
	if url == "" {
		p.noURL.add(loc)
		return nil
	}
	if p.entries == maxURLs {
		return errTooMany
	}
	p.entries++
	if !p.yield(it.entry(url, it.name == indexItem), nil) {
		return errStopped
	}
	return nil
}

// resolved returns the http or https URL that loc is, read as browsers do; empty: it is none, its
// host is none that is sent to, or it is longer than the protocol allows.
func resolved(base *weblink.URL, loc string) string {
	u, err := weblink.ParseURL(base, loc)
	if err != nil || loc == "" || hostname.Key(u.Host) == "" {
		return ""
	}
	url := u.Spelled(loc)
	if max(len(url), len(loc)) >= maxLoc {
		return ""
	}
	return url
}

// add appends to the text.
func (p *parser) add(b ...byte) {
	if len(p.text) < 2*maxLoc { // with room for spaces around a URL
		p.text = append(p.text, b...)
	}
}

// taken returns the text and begins a new one.
func (p *parser) taken() string {
	text := string(p.text)
	if !utf8.ValidString(text) { // what isn't UTF-8 is nearly always Latin-1
		runes := make([]rune, len(text))
		for i := range len(text) {
			runes[i] = rune(text[i])
		}
		text = string(runes)
	}
	p.text = p.text[:0]
	return text
}
