package crawl

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/internal/mediatype"
	"github.com/go-politeness/politeness/internal/weblink"
	"github.com/go-politeness/politeness/internal/weburl"
	"github.com/go-politeness/politeness/robots"
)

// Limits of the links that are taken from a page.
const (
	maxLinks = 10_000
	maxURL   = 2048

	usualLinks = 32 // of a page, for which there is room at once
)

// SameHost is a Config.Follow for the links to the page's own host, with any scheme. A host is a
// name and a port, as limiters count. The ports 80 and 443 count as one.
func SameHost(p *Page, l Link) bool { return keyOf(p.FinalURL) == keyOf(l.URL) }

// SameName is a Config.Follow for the links to the name of the page's host, with any port. Use it
// if a site has parts at other ports, such as 8080.
func SameName(p *Page, l Link) bool { return hostOf(p.FinalURL) == hostOf(l.URL) }

// SameSite is a Config.Follow for the links to the page's registrable domain, with any port. An
// example is from www.example.com to shop.example.com.
func SameSite(p *Page, l Link) bool { return siteOf(p.FinalURL) == siteOf(l.URL) }

// Everywhere is a Config.Follow for all links. Bound the crawl with MaxDepth or MaxPages. Use it
// only in a crawl of the whole web.
func Everywhere(*Page, Link) bool { return true }

// Hosts returns a Config.Follow for the links to the given hosts, from any page. A name is spelled
// as in a URL. If a name has no port, such as "example.com", it stands for the ports 80 and 443. If
// a name has a port, such as "localhost:8080", it stands for that port alone. If a name has a
// leading dot, such as ".example.org", it stands for example.org and all names below. Without names
// no link is followed.
//
// Start URLs, Discover and Page.Add may lead to other hosts.
func Hosts(names ...string) func(p *Page, l Link) bool {
	exact := make(map[string]bool, len(names))
	var below []string // keys, each with its leading dot
	for _, name := range names {
		suffix, isBelow := strings.CutPrefix(name, ".")
		key := hostname.Key(suffix)
		exact[key] = true
		if isBelow {
			below = append(below, "."+key)
		}
	}
	delete(exact, "") // of a name that is none
	below = slices.DeleteFunc(below, func(suffix string) bool { return suffix == "." })
	return func(_ *Page, l Link) bool {
		host := keyOf(l.URL)
		endsIn := func(suffix string) bool { return strings.HasSuffix(host, suffix) }
		return exact[host] || slices.ContainsFunc(below, endsIn)
	}
}

// keyOf returns the host of a normalised URL as limiters count it.
func keyOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return hostname.Key(u.Host)
}

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
	kind := mediatype.OfPage(p.Response.Header["Content-Type"])
	if _, isPage := weblink.MarkupOf(kind.Type); isPage {
		r.readText(p, product, kind)
	}
	if !p.leadsOn() {
		p.Links = nil
		p.unread = nil
		p.Canonical = ""
		p.beyond = 0
	}
	r.leadUnread(p)
	if r.c.cfg.Follow != nil {
		p.found = slices.Grow(p.found, min(len(p.Links), usualLinks))
	}
	for _, l := range p.Links {
		if r.late.Err() != nil {
			return
		}
		r.follow(p, l)
	}
}

// readAtOnce is how many bytes of long pages are read concurrently. The reading takes several times
// the length of a page in memory.
const readAtOnce = 16 << 20

// readText reads the text of an HTML page, unless the crawl ends before its turn.
func (r *run) readText(p *Page, product string, kind mediatype.Page) {
	length := min(int64(len(p.Body)), readAtOnce)
	if length > smallBody {
		if r.reading.Acquire(r.late, length) != nil {
			return
		}
		defer r.reading.Release(length)
	}
	p.readHTML(r.late, product, kind)
}

// leadsOn reports whether the links of the page count. A response with another status isn't the
// page. It often has the menu of the site, whose relative links lead endlessly to URLs that don't
// exist. 300 lists the forms of a page, and 304 is about a page that hasn't changed.
func (p *Page) leadsOn() bool {
	switch status := p.Response.StatusCode; status {
	case http.StatusMultipleChoices, http.StatusNotModified:
		return true
	default:
		return status/100 == 2
	}
}

// readLinkHeader reads the canonical URL and the next page that the Link header (RFC 8288) of p
// names. Unlike those of HTML they are relative to the page, even if it has a <base>.
func (p *Page) readLinkHeader() {
	for _, l := range weblink.Parse(p.Response.Header["Link"]) {
		if !l.Is("canonical") && !l.Is("next") {
			continue
		}
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
	err      error // nil: it is too long, or would be with the <base> of the page
	nofollow bool
}

// noteUnread notes a reference of the page with an error. One to another scheme, such as mailto:,
// leads out of the web, and is no mistake.
func (p *Page) noteUnread(ref string, err error, nofollow bool) {
	var other *weblink.SchemeError
	isOther := errors.As(err, &other) || errors.Is(err, weblink.ErrRelative) // also by its <base>
	if isOther || len(p.unread) == maxLinks {
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
		req := Request{URL: clippedURL(u.ref), From: p.FinalURL, Depth: p.Depth + 1}
		if u.err == nil {
			p.lost = append(p.lost, Result{Request: req, Outcome: TooLong})
			continue
		}
		r.lead(p, "", u.err, req)
	}
	p.unread = nil
}

// clippedURL returns a reference for a Result, cut if it is longer than any URL of a crawl.
func clippedURL(ref string) string {
	if len(ref) <= maxURL {
		return ref
	}
	return strings.ToValidUTF8(ref[:maxURL], "") + "..."
}

// follow adds the URL of a link to those that p has led to, if it is to be followed.
func (r *run) follow(p *Page, l Link) {
	cfg := &r.c.cfg
	if cfg.Follow == nil {
		return
	}
	nofollow := l.Nofollow || p.Directives.NoFollow
	if nofollow && !cfg.IgnoreNofollow {
		return
	}
	req := Request{URL: l.URL, From: p.FinalURL, Depth: p.Depth + 1}
	taken, err := r.take(p, &l, &req)
	if !taken || err == nil && !cfg.Follow(p, l) {
		return
	}
	r.lead(p, l.URL, err, req)
}

// add adds a URL to those that p has led to.
func (r *run) add(p *Page, req Request) {
	to, err := p.Resolve(req.URL)
	if to == req.URL {
		to = req.URL // the text of the link is kept once
	}
	req.From = p.FinalURL
	req.Depth = p.Depth + 1
	req.Priority = clipped(req.Priority)
	req.Mark = asGiven
	if errors.Is(err, errLongBase) {
		req.URL = clippedURL(req.URL)
		p.lost = append(p.lost, Result{Request: req, Outcome: TooLong})
		return
	}
	r.lead(p, to, err, req)
}

// take calls Config.Take for the link l, which leads to req, and stores the changes of Take in
// both. p is nil for a URL of Discover's. It returns an error if the URL that Take has set is
// invalid.
func (r *run) take(p *Page, l *Link, req *Request) (taken bool, err error) {
	if r.c.cfg.Take == nil {
		return true, nil
	}
	offered := *req
	if !r.c.cfg.Take(p, *l, &offered) {
		return false, nil
	}
	req.Priority = clipped(offered.Priority)
	req.Data = offered.Data
	if offered.URL == req.URL {
		return true, nil
	}
	req.URL = offered.URL
	if p == nil {
		l.URL, err = Normalize(offered.URL)
	} else {
		l.URL, err = p.Resolve(offered.URL)
	}
	return true, err
}

// errLongData is the reason if a URL is Invalid because its Data is too long.
var errLongData = fmt.Errorf("crawl: Request.Data is longer than %d bytes", MaxData)

// lead adds req, with the URL to, to those that p has led to, if it is within the limits. err is
// why there is no such URL.
func (r *run) lead(p *Page, to string, err error, req Request) {
	if err == nil {
		req.URL = to
		req.Host, err = r.c.cfg.Transport.HostKey(to) // a panic of it is that of the visit
	}
	if err == nil && len(req.Data) > MaxData {
		err = errLongData
	}
	switch {
	case err != nil:
		req.URL = clippedURL(req.URL)
		req.Data = clippedData(req.Data)
		p.lost = append(p.lost, Result{Request: req, Outcome: Invalid, Err: err})
	case len(req.URL) > maxURL:
		req.URL = clippedURL(req.URL)
		p.lost = append(p.lost, Result{Request: req, Outcome: TooLong})
	case req.Depth > max(p.Depth, r.c.cfg.MaxDepth) || req.Hops > maxHops: // a redirect is no deeper than its page
		p.lost = append(p.lost, Result{Request: req, Outcome: TooDeep})
	default:
		p.found = append(p.found, req)
	}
}

// clippedData returns Data for a Result, cut if it is longer than MaxData.
func clippedData(data string) string { return data[:min(len(data), MaxData)] }

// wantsCookie reports whether a page redirects to itself and sets a cookie, which the Client keeps:
// with the cookie the response may be another one.
func (r *run) wantsCookie(p *Page) bool {
	if r.c.client.Jar == nil || weburl.Location(p.Response) == "" || len(p.Response.Cookies()) == 0 {
		return false
	}
	// A redirect to another URL is a separate URL, and the Client has its cookie already. The Queue
	// knows this URL, and wouldn't accept it again.
	to, err := p.resolve(weburl.Location(p.Response))
	return err == nil && to == p.FinalURL
}

// turnTo adds rawURL, which takes the place of the page. A start URL may lead anywhere.
func (r *run) turnTo(p *Page, rawURL string, l Link) {
	req := p.request
	to, err := p.resolve(rawURL)
	p.to = to
	l.URL = to
	next := Request{
		URL:      rawURL,
		From:     req.From,
		Via:      p.URL,
		Hops:     req.Hops + 1,
		Depth:    req.Depth,
		Priority: req.Priority,
		Data:     req.Data,
	}
	if req.Mark == asGiven {
		next.Mark = asGiven
	}
	// A URL that can't be fetched anyway is Invalid: Take and Follow aren't called for it.
	if err == nil {
		next.URL = to
		var taken bool
		taken, err = r.take(p, &l, &next)
		if !taken {
			return
		}
	}
	isAsked := err == nil && req.Depth > 0 && r.c.cfg.Follow != nil
	if isAsked && !r.c.cfg.Follow(p, l) {
		return
	}
	r.lead(p, l.URL, err, next)
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
