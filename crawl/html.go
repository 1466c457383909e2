package crawl

import (
	"cmp"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/go-politeness/politeness/internal/mediatype"
	"github.com/go-politeness/politeness/internal/weblink"
	"github.com/go-politeness/politeness/robots"
)

// A reading is what one reading of a page of HTML yields: its references, directives and words.
type reading struct {
	htmlReader

	query  func(string) string // encodes the query of a reference, see Page.text
	isPage bool                // or else it is XML of another kind
}

// read reads the text of a page of HTML. product is the crawler's name, for directives.
//
// It ends with ctx. The results don't count then.
func (p *Page) read(ctx context.Context, product string, kind mediatype.Page) *reading {
	text, query := p.text(kind)
	h := &reading{query: query}
	h.metas = robots.NewMetaScanner(product)
	h.most = 10 * maxLinks
	markup, _ := weblink.MarkupOf(kind.Type)
	h.isPage = h.htmlReader.read(untilDone{ctx, text}, markup)
	return h
}

// readHTML adds the statements of the text of an HTML page to those of its headers. It reads the
// text, unless that was read for wordsOf.
func (p *Page) readHTML(ctx context.Context, product string, kind mediatype.Page) {
	h := p.reading
	p.reading = nil
	if h == nil {
		h = p.read(ctx, product, kind)
	}
	if !h.isPage {
		return
	}
	p.Directives = p.Directives.Merge(h.metas.Directives())
	p.lines = h.digest.lines
	p.wholeText = h.digest.whole
	p.mainText = h.digest.main
	p.refs = newResolver(p.FinalURL, &h.htmlReader, h.query)
	if p.refs == nil || !p.leadsOn() { // never nil, because the URL was parsed before
		return
	}
	l := linkReader{
		resolver:   p.refs,
		noteUnread: p.noteUnread,
		most:       maxLinks,
		mostBytes:  minLinkBytes + linkBytes*len(p.Body),
		mostMade:   4*minLinkBytes + 4*linkBytes*len(p.Body),
		index:      make(map[string]int),
	}
	for i := range h.refs {
		if ctx.Err() != nil {
			return
		}
		l.follow(&h.refs[i])
	}
	for _, link := range p.Links { // the links of the headers come last
		l.add(link)
	}
	p.Links = l.found
	p.Canonical = cmp.Or(l.canonical(h.canonical), p.Canonical)
	p.beyond = l.more + h.more
}

// untilDone reads text until ctx is done.
type untilDone struct {
	ctx  context.Context
	text io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.text.Read(p)
}

// An htmlReader has the results of reading an HTML page.
type htmlReader struct {
	metas    *robots.MetaScanner
	headEnds bool // the head has ended with its tag: nothing further counts for metas
	digest   digest

	refs      []ref
	most      int // of refs
	more      int // number of references beyond
	base      string
	hasBase   bool // base is that of a <base>
	canonical string
}

// A ref is a reference of a page, which leads to another one.
type ref struct {
	url, rel string
	element  atom.Atom
	isCut    bool // url is the beginning of one that is longer than any URL of a crawl
}

// maxRef is the length of a reference beyond which no URL of a crawl is written, with all the line
// ends, dots and escapes that may be in it. It is that of the Transport's longest path.
const maxRef = 64 << 10

// read reads the page to its end, or up to the first error. It reports whether it is an HTML page,
// because XML may be anything.
func (h *htmlReader) read(text io.Reader, m weblink.Markup) (isPage bool) {
	tags := weblink.NewReader(text, m)
	for {
		switch tags.Next() {
		case html.ErrorToken:
			h.digest.endLine()
			return tags.IsPage()
		case html.StartTagToken:
			if !isInline(tags.Name()) {
				h.digest.endLine()
			}
			if isAround(tags.Name()) {
				h.digest.around++
			}
			h.start(tags)
		case html.EndTagToken:
			if !isInline(tags.Name()) {
				h.digest.endLine()
			}
			if isAround(tags.Name()) {
				h.digest.around = max(0, h.digest.around-1)
			}
			isHead := tags.Name() == atom.Head && tags.IsHTML()
			h.headEnds = h.headEnds || isHead
		case html.TextToken:
			h.digest.write(tags.Text())
		}
	}
}

// isInline reports whether an element is within a line of text; 0 is the name of one that HTML
// doesn't know.
func isInline(name atom.Atom) bool {
	switch name {
	case 0, atom.A, atom.Abbr, atom.B, atom.Bdi, atom.Bdo, atom.Big, atom.Cite, atom.Code,
		atom.Data, atom.Del, atom.Dfn, atom.Em, atom.Font, atom.I, atom.Img, atom.Ins, atom.Kbd,
		atom.Label, atom.Mark, atom.Nobr, atom.Q, atom.S, atom.Samp, atom.Small, atom.Span,
		atom.Strike, atom.Strong, atom.Sub, atom.Sup, atom.Svg, atom.Time, atom.Tt, atom.U,
		atom.Var, atom.Wbr:
		return true
	}
	return false
}

// start reads a start tag.
func (h *htmlReader) start(tags *weblink.Reader) {
	switch name := tags.Name(); {
	case name == atom.A && tags.IsSVG(): // SVG 2, section 16.1.5
		v, has := values(tags, "href", "xlink:href")
		if !has[0] {
			v[0] = v[1]
		}
		h.addRef(atom.A, v[0], "")
	case !tags.IsHTML():
	case name == atom.A, name == atom.Area:
		v, _ := values(tags, "href", "rel")
		h.digest.refer(v[0])
		h.addRef(name, v[0], v[1])
	case name == atom.Img:
		v, _ := values(tags, "src")
		h.digest.refer(v[0])
	case name == atom.Frame, name == atom.Iframe:
		v, _ := values(tags, "src", "rel")
		h.addRef(name, v[0], v[1])
	case name == atom.Link:
		v, _ := values(tags, "href", "rel")
		h.startLink(v[0], v[1], tags.InHead())
	case name == atom.Base && !h.hasBase:
		// The first one with the attribute counts, wherever it stands (HTML, section 4.2.3).
		v, has := values(tags, "href")
		h.base = v[0]
		h.hasBase = has[0]
	case name == atom.Meta:
		v, _ := values(tags, "name", "content", "http-equiv")
		h.startMeta(v[0], v[1], v[2])
	}
}

// startLink reads a <link>.
func (h *htmlReader) startLink(href, rel string, inHead bool) {
	rels := weblink.Relations(rel)
	switch {
	case slices.Contains(rels, "canonical"):
		// A <link> in the body may come from a visitor's comment.
		if inHead && h.canonical == "" {
			h.canonical = href
		}
	case slices.Contains(rels, "next"): // other relations, such as stylesheet, icon and feed, lead to no page
		h.addRef(atom.Link, href, rel)
	}
}

// startMeta reads a <meta>.
func (h *htmlReader) startMeta(name, content, httpEquiv string) {
	if name != "" && !h.headEnds {
		h.metas.Add(name, content)
	}
	if strings.EqualFold(httpEquiv, "refresh") {
		h.addRef(atom.Meta, refreshed(content), "")
	}
}

// values returns the values of the attributes of these names, and which the tag has. Of two with
// one name the first counts.
func values(tags *weblink.Reader, names ...string) (v [3]string, has [3]bool) {
	for _, attribute := range tags.Attributes() {
		i := slices.Index(names, string(attribute.Name))
		if i >= 0 && !has[i] {
			v[i] = string(attribute.Value)
			has[i] = true
		}
	}
	return v, has
}

// addRef adds a reference, unless it is empty: that leads to the page itself.
func (h *htmlReader) addRef(element atom.Atom, url, rel string) {
	isCut := false
	if len(url) > maxRef {
		url, _, _ = strings.Cut(strings.TrimSpace(url), "#")
		url = cmp.Or(url, "#")
		isCut = len(url) > maxRef
		url = strings.Clone(url[:min(len(url), maxRef)])
	}
	switch {
	case strings.TrimSpace(url) == "":
	case len(h.refs) == h.most:
		h.more++
	default:
		h.refs = append(h.refs, ref{url: url, rel: rel, element: element, isCut: isCut})
	}
}

// A resolver makes URLs of the references of an HTML page.
type resolver struct {
	base     *weblink.URL // of relative references; nil: they lead out of the web
	self     string       // the URL of a reference with a fragment alone
	longBase bool         // a reference that needs the path of base is longer than any URL of a crawl
	query    func(string) string
}

// A linkReader makes links of the references of a page.
type linkReader struct {
	*resolver

	noteUnread func(ref string, err error, nofollow bool)
	most       int
	mostBytes  int // of the URLs in found
	mostMade   int // bytes of the URLs that are made of references, also of those that are known

	found []Link
	index map[string]int // in found, by URL
	bytes int            // of the URLs in found
	made  int            // bytes of the URLs that were made
	more  int
}

// The URLs of a page's links have room in proportion to the page. With a long <base>, short
// references make long links: a page of 60 KB may have 10,000 links of 2,048 bytes.
const (
	minLinkBytes = 256 << 10
	linkBytes    = 4 // for each byte of the page
)

// newResolver returns the resolver of a page; nil: pageURL can't be read. query encodes the query
// of a reference in the encoding of the page.
func newResolver(pageURL string, h *htmlReader, query func(string) string) *resolver {
	page, err := weblink.ParseURL(nil, pageURL)
	if err != nil {
		return nil
	}
	l := &resolver{base: &page, self: pageURL, query: query}
	if !h.hasBase {
		return l
	}
	base, err := weblink.ParseURL(&page, h.base)
	var other *weblink.SchemeError
	if errors.As(err, &other) && other.Scheme != "javascript" && other.Scheme != "data" {
		l.base = nil
		return l
	}
	if err != nil { // it counts as none (HTML, section 4.2.3)
		return l
	}
	base.Query = l.query(base.Query)
	l.base = &base
	l.longBase = len(base.Path)+len(base.Query) > maxURL
	if l.longBase {
		return l
	}
	self, err := normal(&base)
	if err == nil {
		l.self = self
	}
	return l
}

// follow adds the link of a reference.
func (l *linkReader) follow(r *ref) {
	if l.made > l.mostMade {
		l.more++
		return
	}
	rels := weblink.Relations(r.rel)
	nofollow := slices.Contains(rels, "nofollow")
	to, err := l.resolve(r.url)
	l.made += len(to)
	if err != nil {
		l.noteUnread(r.url, err, nofollow)
		return
	}
	if to == "" || r.isCut {
		l.noteUnread(r.url, nil, nofollow)
		return
	}
	l.add(Link{
		URL:      to,
		Element:  r.element.String(),
		Rel:      strings.ToLower(strings.TrimSpace(r.rel)),
		Nofollow: nofollow,
	})
}

// resolve returns the URL of a reference; empty: it is too long by the <base>.
func (l *resolver) resolve(ref string) (string, error) {
	isFragment := strings.HasPrefix(ref, "#")
	switch {
	case l.base != nil && isFragment && !l.longBase:
		return l.self, nil
	case l.longBase && needsPath(ref):
		return "", nil
	}
	u, err := weblink.ParseURL(l.base, ref)
	if err != nil {
		return "", err
	}
	u.Query = l.query(u.Query)
	return normal(&u)
}

// needsPath reports whether a reference has something of the path or the query of its base.
func needsPath(ref string) bool {
	one, err1 := weblink.ParseURL(&weblink.URL{Scheme: "http", Host: "a", Path: "/1/1", Query: "1"}, ref)
	two, err2 := weblink.ParseURL(&weblink.URL{Scheme: "http", Host: "a", Path: "/2/2", Query: "2"}, ref)
	return err1 == nil && err2 == nil && one != two
}

// add adds a link, once for each URL: the first that isn't nofollow, else the last.
func (l *linkReader) add(link Link) {
	i, known := l.index[link.URL]
	switch {
	case known && l.found[i].Nofollow:
		l.found[i] = link
	case known:
	case len(l.found) < l.most && l.bytes+len(link.URL) <= l.mostBytes:
		l.index[link.URL] = len(l.found)
		l.found = append(l.found, link)
		l.bytes += len(link.URL)
	case link.Element != "header": // which isn't a link of the page's text
		l.more++
	}
}

// canonical returns the canonical URL that the page names by ref; empty: none.
func (l *linkReader) canonical(ref string) string {
	if strings.TrimSpace(ref) == "" {
		return ""
	}
	to, err := l.resolve(ref)
	if err != nil {
		return ""
	}
	return to
}

// refresh matches the content of a <meta http-equiv=refresh> that names a URL (HTML, section
// 4.2.5.3), which is in one of the groups.
var refresh = regexp.MustCompile(
	`(?is)^\s*(?:\d+|\.)[\d.]*(?:\s+[;,]?|[;,])\s*(?:url\s*=\s*)?(?:'([^']*)|"([^"]*)|(.*))`)

// refreshed returns the reference in the content of a refresh; empty: there is none.
func refreshed(content string) string {
	groups := refresh.FindStringSubmatch(content)
	if groups == nil {
		return ""
	}
	return groups[1] + groups[2] + groups[3] // two of them are empty
}
