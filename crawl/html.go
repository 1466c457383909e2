package crawl

import (
	"cmp"
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

// readHTML adds the statements of the text of an HTML page to those of its headers, in one pass.
// product is the crawler's name, for directives.
func (p *Page) readHTML(product string, kind mediatype.Page) {
	text, query := p.text(kind)
	h := htmlReader{metas: robots.NewMetaScanner(product), most: 10 * maxLinks}
	h.read(text, kind.IsXHTML())
	p.Directives = p.Directives.Merge(h.metas.Directives())
	p.words = h.digest.words
	p.lines = h.digest.lines
	p.refs = newResolver(p.FinalURL, &h, query)
	if p.refs == nil || !p.leadsOn() { // it isn't nil: the URL was parsed before
		return
	}
	l := linkReader{resolver: p.refs, noteUnread: p.noteUnread, most: maxLinks, index: make(map[string]int)}
	for i := range h.refs {
		l.follow(&h.refs[i])
	}
	for _, link := range p.Links { // those of the headers, which stand behind
		l.add(link)
	}
	p.Links = l.found
	p.Canonical = cmp.Or(l.canonical(h.canonical), p.Canonical)
	p.beyond = l.more + h.more
}

// An htmlReader has what was read of an HTML page.
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
}

// read reads the page to its end, or up to what can't be read.
func (h *htmlReader) read(text io.Reader, isXHTML bool) {
	tags := weblink.NewReader(text, isXHTML)
	for {
		switch tags.Next() {
		case html.ErrorToken:
			h.digest.endLine()
			return
		case html.StartTagToken:
			if !isInline(tags.Name()) {
				h.digest.endLine()
			}
			h.start(tags)
		case html.EndTagToken:
			if !isInline(tags.Name()) {
				h.digest.endLine()
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
		h.addRef(name, v[0], v[1])
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
		// In the body it may be in a comment of a stranger's.
		if inHead && h.canonical == "" {
			h.canonical = href
		}
	case slices.Contains(rels, "next"): // any other is a stylesheet, an icon, a feed: no page
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
	switch {
	case strings.TrimSpace(url) == "":
	case len(h.refs) == h.most:
		h.more++
	default:
		h.refs = append(h.refs, ref{url: url, rel: rel, element: element})
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

	found []Link
	index map[string]int // in found, by URL
	more  int
}

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
	rels := weblink.Relations(r.rel)
	nofollow := slices.Contains(rels, "nofollow")
	to, err := l.resolve(r.url)
	if err != nil {
		l.noteUnread(r.url, err, nofollow)
		return
	}
	if to == "" {
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
	case len(l.found) < l.most:
		l.index[link.URL] = len(l.found)
		l.found = append(l.found, link)
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
