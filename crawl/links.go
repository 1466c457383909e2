package crawl

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
	"golang.org/x/net/publicsuffix"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/internal/mediatype"
	"github.com/go-politeness/politeness/internal/weblink"
	"github.com/go-politeness/politeness/internal/weburl"
	"github.com/go-politeness/politeness/robots"
)

// Limits of the links that are taken from a page.
const (
	maxLinks = 10_000
	maxURL   = 2048
)

// SameHost is a Config.Follow for the links to the page's own host, with any scheme.
func SameHost(p *Page, l Link) bool { return hostOf(p.FinalURL) == hostOf(l.URL) }

// SameSite is a Config.Follow for the links to the page's registrable domain: from www.example.com
// to example.com and shop.example.com.
func SameSite(p *Page, l Link) bool { return siteOf(p.FinalURL) == siteOf(l.URL) }

// Everywhere is a Config.Follow for all links. Bound the crawl with MaxDepth or MaxPages.
func Everywhere(*Page, Link) bool { return true }

// hostOf returns the host of a normalised URL, without its port.
func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func siteOf(rawURL string) string {
	host := hostOf(rawURL)
	if site, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return site
	}
	return host
}

// links reads the links of an HTML page, and the canonical URL that it names. They are normalised,
// and in their order, each once: the first to its URL that isn't nofollow, else the last. more says
// how many there were beyond most. Links outside of http are left out. query is from Page.text.
func links(
	text io.Reader, query func(string) string, unread func(string, error, bool), pageURL string, most int,
) (found []Link, canonical string, more int) {
	base, err := weblink.ParseURL(nil, pageURL)
	if err != nil {
		return nil, "", 0
	}
	l := &linkReader{base: &base, query: query, unread: unread, most: most, index: make(map[string]int)}
	z := html.NewTokenizer(text)
	for {
		switch z.Next() {
		case html.ErrorToken: // the end, or an unreadable rest
			return l.found, l.canonical, l.more
		case html.StartTagToken, html.SelfClosingTagToken:
			l.readTag(z)
		}
	}
}

// A linkReader has the links of the part of an HTML page that was read.
type linkReader struct {
	base    *weblink.URL // of relative links
	hasBase bool         // base is that of a <base>
	query   func(string) string
	unread  func(ref string, err error, nofollow bool)
	most    int

	found     []Link
	index     map[string]int // in found, by URL
	more      int
	canonical string
}

// readTag reads the tag that z is at.
func (l *linkReader) readTag(z *html.Tokenizer) {
	name, hasAttributes := z.TagName()
	tag := atom.Lookup(name)
	if tag == atom.Noscript || tag == atom.Noframes {
		z.NextIsNotRawText() // it is for readers like this one
	}
	if !hasAttributes || !slices.Contains(leading, tag) {
		return
	}
	ref, rel := reference(z, tag)
	if strings.TrimSpace(ref) == "" {
		return
	}
	// A <base> and the canonical URL count behind any number of links.
	if len(l.found) == l.most && tag != atom.Link && tag != atom.Base {
		l.more++
		return
	}
	u, err := weblink.ParseURL(l.base, ref)
	if err != nil {
		isLink := tag != atom.Base && (tag != atom.Link || slices.Contains(strings.Fields(rel), "next"))
		if isLink && l.unread != nil {
			l.unread(ref, err, slices.Contains(strings.Fields(rel), "nofollow"))
		}
		return
	}
	u.Query = l.query(u.Query)
	if tag != atom.Base {
		l.add(tag, &u, rel)
		return
	}
	if !l.hasBase { // the first one counts (HTML, section 4.2.3)
		l.base = &u
		l.hasBase = true
	}
}

// add adds the link of a tag to u.
func (l *linkReader) add(tag atom.Atom, u *weblink.URL, rel string) {
	rels := strings.Fields(rel)
	if tag == atom.Link && !slices.Contains(rels, "next") && !slices.Contains(rels, "canonical") {
		return // a stylesheet, an icon, a feed: no page
	}
	to, err := normal(u)
	if err != nil {
		return // such as mailto:
	}
	if tag == atom.Link && slices.Contains(rels, "canonical") {
		l.canonical = cmp.Or(l.canonical, to)
		return
	}
	link := Link{URL: to, Element: tag.String(), Rel: rel, Nofollow: slices.Contains(rels, "nofollow")}
	i, known := l.index[to]
	switch {
	case known && l.found[i].Nofollow:
		l.found[i] = link
	case !known && len(l.found) < l.most: // it is full for rel=next, which isn't counted in more
		l.index[to] = len(l.found)
		l.found = append(l.found, link)
	}
}

// leading are the elements that lead to other pages, and that of the base of their URLs.
var leading = []atom.Atom{atom.A, atom.Area, atom.Link, atom.Base, atom.Meta, atom.Frame, atom.Iframe}

// refresh matches the content of a <meta http-equiv=refresh> that names a URL (HTML, section
// 4.2.5.3), which is in one of the groups.
var refresh = regexp.MustCompile(
	`(?is)^\s*(?:\d+|\.)[\d.]*(?:\s+[;,]?|[;,])\s*(?:url\s*=\s*)?(?:'([^']*)|"([^"]*)|(.*))`)

// An attributes has the attributes of a tag by which it may lead to a page.
type attributes struct{ href, rel, src, httpEquiv, content string }

// of returns the field for an attribute; nil: it has none.
func (a *attributes) of(name []byte) *string {
	switch string(name) {
	case "href":
		return &a.href
	case "rel":
		return &a.rel
	case "src":
		return &a.src
	case "http-equiv":
		return &a.httpEquiv
	case "content":
		return &a.content
	}
	return nil
}

// reference returns the reference and the rel attribute of the tag that z is at; ref is empty where
// it leads nowhere.
func reference(z *html.Tokenizer, tag atom.Atom) (ref, rel string) {
	var a attributes
	for more := true; more; {
		var name, value []byte
		name, value, more = z.TagAttr()
		field := a.of(name)
		if field != nil && *field == "" { // of two with one name browsers take the first
			*field = string(value)
		}
	}
	rel = strings.ToLower(strings.TrimSpace(a.rel))
	switch tag {
	case atom.Frame, atom.Iframe:
		return a.src, rel
	case atom.Meta:
		if !strings.EqualFold(a.httpEquiv, "refresh") {
			return "", rel
		}
		return refreshed(a.content), rel
	}
	return a.href, rel
}

// refreshed returns the reference in the content of a refresh; empty: there is none.
func refreshed(content string) string {
	groups := refresh.FindStringSubmatch(content)
	if groups == nil {
		return ""
	}
	return groups[1] + groups[2] + groups[3] // two of them are empty
}

// undeclared is the encoding of a page that doesn't name its own.
var undeclared, _, _ = charset.DetermineEncoding(nil, "")

// text returns two functions: read returns the body in UTF-8, and query encodes the query of a link
// as browsers do, in the encoding of the page (https://url.spec.whatwg.org, section 4.4).
func (p *Page) text() (read func() io.Reader, query func(string) string) {
	e, name, _ := charset.DetermineEncoding(p.Body, p.Response.Header.Get("Content-Type"))
	// charset looks at the first 1,024 bytes, and knows nothing of a UTF-16 without a mark.
	switch {
	case e != undeclared:
	case bytes.HasPrefix(p.Body, []byte("<\x00")):
		name = "utf-16le"
	case bytes.HasPrefix(p.Body, []byte("\x00<")):
		name = "utf-16be"
	case utf8.Valid(p.Body) && utf8.RuneCount(p.Body) < len(p.Body):
		name = "utf-8" // which begins after the bytes that were looked at
	}
	query = func(raw string) string { return raw }
	if name == "utf-8" {
		return func() io.Reader { return bytes.NewReader(p.Body) }, query
	}
	e, _ = charset.Lookup(name)             // it knows all names from above
	if !strings.HasPrefix(name, "utf-16") { // whose queries are in UTF-8
		encoder := e.NewEncoder()
		query = func(raw string) string { return inEncoding(raw, encoder.String) }
	}
	return func() io.Reader { return e.NewDecoder().Reader(bytes.NewReader(p.Body)) }, query
}

// inEncoding escapes the non-ASCII characters of a query as bytes of the encoding of encode, which
// is of package charset. A character that the encoding doesn't have is written as "&#20320;".
func inEncoding(raw string, encode func(string) (string, error)) string {
	var b strings.Builder
	for _, char := range raw {
		if char < utf8.RuneSelf {
			b.WriteRune(char)
			continue
		}
		code, _ := encode(string(char)) // no error: each rune is encoded, if need be as "&#20320;"
		for i := range len(code) {
			fmt.Fprintf(&b, "%%%02X", code[i])
		}
	}
	return b.String()
}

// read finds the links of a page, and adds those that are to be followed.
func (r *run) read(p *Page) {
	p.add = r.add
	// Directives may name a crawler: "examplebot: noindex".
	product := r.c.cfg.Transport.UserAgent()
	p.Preferences = politeness.PreferencesOf(p.Response)
	tags := robots.ParseTags(p.Response.Header["X-Robots-Tag"], product)
	p.Directives = politeness.DirectivesOf(p.Response).Merge(tags)
	p.readLinkHeader() // before the text, whose links come first in p.Links
	p.readRefreshHeader()
	if mediatype.IsHTML(p.Response.Header.Get("Content-Type")) {
		p.readHTML(product)
	}
	if !p.leadsOn() {
		p.Links = nil
		p.unread = nil
		p.Canonical = ""
		p.beyond = 0
	}
	r.leadUnread(p)
	for _, l := range p.Links {
		if r.follows(p, l) {
			r.add(p, l.URL, 0)
		}
	}
}

// leadsOn reports whether the links of the page count. An answer of another status isn't the page:
// it often has the menu of the site, whose relative links lead to URLs that don't exist, and so on
// without end. 300 lists the forms of a page, and 304 is about a page that hasn't changed.
func (p *Page) leadsOn() bool {
	switch status := p.Response.StatusCode; status {
	case http.StatusMultipleChoices, http.StatusNotModified:
		return true
	default:
		return status/100 == 2
	}
}

// readHTML adds the statements of the text of an HTML page to those of its headers. product is the
// crawler's name, for directives.
func (p *Page) readHTML(product string) {
	text, query := p.text()
	meta, err := robots.ReadMeta(text(), product)
	if err == nil {
		p.Directives = p.Directives.Merge(meta)
	}
	found, canonical, more := links(text(), query, p.noteUnread, p.FinalURL, maxLinks)
	for _, l := range p.Links {
		i := slices.IndexFunc(found, func(o Link) bool { return o.URL == l.URL })
		switch {
		case i < 0:
			found = append(found, l)
		case found[i].Nofollow: // the header's link needn't be
			found[i] = l
		}
	}
	p.Links = found
	p.Canonical = cmp.Or(canonical, p.Canonical)
	p.beyond = more
}

// readLinkHeader reads the canonical URL and the next page that the Link header (RFC 8288) of p
// names. Unlike those of HTML they are relative to the page, even if it has a <base>.
func (p *Page) readLinkHeader() {
	for _, l := range weblink.Parse(p.Response.Header["Link"]) {
		to, err := p.resolve(l.Target)
		switch {
		case err != nil:
			if l.Is("next") {
				p.noteUnread(l.Target, err, l.Is("nofollow"))
			}
		case l.Is("canonical"):
			p.Canonical = cmp.Or(p.Canonical, to)
		case l.Is("next") && len(p.Links) < maxLinks:
			p.Links = append(p.Links, Link{
				URL:      to,
				Element:  "header",
				Rel:      strings.Join(l.Rel, " "),
				Nofollow: l.Is("nofollow"),
			})
		}
	}
}

// readRefreshHeader reads the URL of the Refresh header, to which browsers go on (HTML, section
// 7.4.6.1).
func (p *Page) readRefreshHeader() {
	ref := refreshed(strings.Join(p.Response.Header["Refresh"], ", "))
	if ref == "" || len(p.Links) == maxLinks {
		return
	}
	to, err := p.resolve(ref)
	if err != nil {
		p.noteUnread(ref, err, false)
		return
	}
	p.Links = append(p.Links, Link{URL: to, Element: "header"})
}

// An unread is a reference that can't be read as a URL.
type unread struct {
	ref      string
	err      error
	nofollow bool
}

// noteUnread notes a reference of the page with an error. One to another scheme, such as mailto:,
// leads out of the web, and is no mistake.
func (p *Page) noteUnread(ref string, err error, nofollow bool) {
	var other *weblink.SchemeError
	if errors.As(err, &other) || len(p.unread) == maxLinks {
		return
	}
	p.unread = append(p.unread, unread{ref: ref, err: err, nofollow: nofollow})
}

// leadUnread has the references of the page that can't be read end as Invalid, if they would be
// followed otherwise.
func (r *run) leadUnread(p *Page) {
	if r.c.cfg.Follow == nil {
		return
	}
	for _, u := range p.unread {
		if (u.nofollow || p.Directives.NoFollow) && !r.c.cfg.IgnoreNofollow {
			continue
		}
		r.lead(p, "", u.err, Request{URL: u.ref, From: p.FinalURL, Depth: p.Depth + 1})
	}
	p.unread = nil
}

// follows reports whether a link is to be followed.
func (r *run) follows(p *Page, l Link) bool {
	cfg := &r.c.cfg
	if cfg.Follow == nil {
		return false
	}
	nofollow := l.Nofollow || p.Directives.NoFollow
	if nofollow && !cfg.IgnoreNofollow {
		return false
	}
	return cfg.Follow(p, l)
}

// add adds a URL to those that p has led to.
func (r *run) add(p *Page, rawURL string, priority int) {
	to, err := p.resolve(rawURL)
	r.lead(p, to, err, Request{
		URL:      rawURL,
		From:     p.FinalURL,
		Depth:    p.Depth + 1,
		Priority: clipped(priority),
	})
}

// lead adds req, with the URL to, to those that p has led to, if it is within the limits. err is
// why there is no such URL.
func (r *run) lead(p *Page, to string, err error, req Request) {
	if err == nil {
		req.URL = to
		req.Host, err = r.c.cfg.Transport.HostKey(to) // a panic of it is that of the visit
	}
	switch {
	case err != nil:
		p.lost = append(p.lost, Result{Request: req, Outcome: Invalid, Err: err})
	case len(req.URL) > maxURL:
		p.lost = append(p.lost, Result{Request: req, Outcome: TooLong})
	case req.Depth > max(p.Depth, r.c.cfg.MaxDepth) || req.Hops > maxHops: // a redirect is no deeper than its page
		p.lost = append(p.lost, Result{Request: req, Outcome: TooDeep})
	default:
		p.found = append(p.found, req)
	}
}

// wantsCookie reports whether a page redirects to itself and sets a cookie, which the Client keeps:
// with the cookie the answer may be another one.
func (r *run) wantsCookie(p *Page) bool {
	if r.c.client.Jar == nil || weburl.Location(p.Response) == "" || len(p.Response.Cookies()) == 0 {
		return false
	}
	// A redirect to another URL is a URL of its own, for which the Client has the cookie as well. The
	// Queue knows the same URL already, and wouldn't take it in again.
	to, err := p.resolve(weburl.Location(p.Response))
	return err == nil && to == p.FinalURL
}

// turnTo adds rawURL, which takes the place of the page. A start URL may lead anywhere.
func (r *run) turnTo(p *Page, rawURL string, l Link) {
	req := p.request
	to, err := p.resolve(rawURL)
	l.URL = to
	// A URL that can't be fetched anyway is Invalid: Follow isn't called for it.
	isAsked := err == nil && req.Depth > 0 && r.c.cfg.Follow != nil
	if isAsked && !r.c.cfg.Follow(p, l) {
		return
	}
	r.lead(p, to, err, Request{
		URL:      rawURL,
		From:     req.From,
		Via:      p.URL,
		Hops:     req.Hops + 1,
		Depth:    req.Depth,
		Priority: req.Priority,
	})
}

// resolve returns rawURL as seen from the page, normalised.
func (p *Page) resolve(rawURL string) (string, error) {
	base, err := weblink.ParseURL(nil, p.FinalURL)
	if err != nil {
		return "", err // it was parsed before
	}
	u, err := weblink.ParseURL(&base, rawURL)
	if err != nil {
		return "", err
	}
	return normal(&u)
}
