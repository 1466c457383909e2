package crawl

import (
	"bytes"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/publicsuffix"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/robots"
)

// What one page may lead to.
const (
	maxLinks = 10_000
	maxURL   = 2048
)

// SameHost is a Config.Follow for the links to the page's own host, whatever the scheme.
func SameHost(p *Page, l Link) bool { return hostOf(p.FinalURL) == hostOf(l.URL) }

// SameSite is a Config.Follow for the links to the page's registrable domain: from www.example.com
// to example.com and shop.example.com.
func SameSite(p *Page, l Link) bool { return siteOf(p.FinalURL) == siteOf(l.URL) }

// Everywhere is a Config.Follow for all links. Bound the crawl with MaxDepth or MaxPages.
func Everywhere(*Page, Link) bool { return true }

// hostOf is the host of a normalised URL, without its port.
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
// and in their order, each once; more says how many there were beyond most. Links outside of http
// are left out.
func links(body []byte, pageURL string, most int) (found []Link, canonical string, more int) {
	base, err := url.Parse(pageURL)
	if err != nil {
		return nil, "", 0
	}
	based := false
	seen := make(map[string]bool)
	z := html.NewTokenizer(bytes.NewReader(body))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return found, canonical, more
		case html.StartTagToken, html.SelfClosingTagToken:
		default:
			continue
		}
		name, hasAttributes := z.TagName()
		tag := atom.Lookup(name)
		if !hasAttributes || tag != atom.A && tag != atom.Area && tag != atom.Link && tag != atom.Base {
			continue
		}
		href, rel := attributes(z)
		if href == "" {
			continue
		}
		if len(found) == most && (tag == atom.A || tag == atom.Area) {
			more++
			continue
		}
		u, err := base.Parse(asWritten(href))
		if err != nil {
			continue
		}
		if tag == atom.Base {
			if !based { // the first one counts (HTML, section 4.2.3)
				base, based = u, true
			}
			continue
		}
		rels := strings.Fields(rel)
		if tag == atom.Link && !contains(rels, "next") && !contains(rels, "canonical") {
			continue
		}
		to, err := normal(u)
		if err != nil {
			continue
		}
		if tag == atom.Link && contains(rels, "canonical") {
			if canonical == "" {
				canonical = to
			}
			continue
		}
		if seen[to] || len(found) == most {
			continue
		}
		seen[to] = true
		found = append(found, Link{URL: to, Element: tag.String(), Rel: rel, Nofollow: contains(rels, "nofollow")})
	}
}

// asWritten returns a reference as browsers take it (https://url.spec.whatwg.org): without tabs and
// line ends, with slashes for backslashes, and a percent sign that begins no escape as itself.
func asWritten(href string) string {
	if !strings.ContainsAny(href, "\t\r\n\\%") {
		return href
	}
	var b strings.Builder
	path := true
	for i := 0; i < len(href); i++ {
		c := href[i]
		path = path && c != '?' && c != '#'
		switch {
		case c == '\t' || c == '\r' || c == '\n':
		case c == '\\' && path:
			b.WriteByte('/')
		case c == '%' && (i+2 >= len(href) || unhex(href[i+1]) < 0 || unhex(href[i+2]) < 0):
			b.WriteString("%25")
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// attributes returns those of the tag that z is at.
func attributes(z *html.Tokenizer) (href, rel string) {
	for more := true; more; {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "href":
			if href == "" {
				href = strings.TrimSpace(string(value))
			}
		case "rel":
			if rel == "" {
				rel = strings.ToLower(strings.TrimSpace(string(value)))
			}
		}
	}
	return href, rel
}

func contains(words []string, word string) bool {
	for _, w := range words {
		if w == word {
			return true
		}
	}
	return false
}

// isHTML reports whether the page may have links.
func isHTML(p *Page) bool {
	mediaType, _, _ := mime.ParseMediaType(p.Response.Header.Get("Content-Type"))
	return mediaType == "text/html" || mediaType == "application/xhtml+xml"
}

// read finds the links of a page, and adds those that are to be followed.
func (r *run) read(p *Page) {
	p.add = r.add
	product := r.c.cfg.Transport.UserAgent()
	p.Preferences = politeness.PreferencesOf(p.Response)
	p.Directives = politeness.DirectivesOf(p.Response).Merge(robots.ParseTags(p.Response.Header["X-Robots-Tag"], product))
	if !isHTML(p) {
		return
	}
	if meta, err := robots.ReadMeta(bytes.NewReader(p.Body), product); err == nil {
		p.Directives = p.Directives.Merge(meta)
	}
	p.Links, p.Canonical, p.beyond = links(p.Body, p.FinalURL, maxLinks)
	for _, l := range p.Links {
		if r.follows(p, l) {
			r.add(p, l.URL, 0)
		}
	}
}

// follows reports whether a link is to be followed.
func (r *run) follows(p *Page, l Link) bool {
	cfg := &r.c.cfg
	if cfg.Follow == nil || !cfg.IgnoreNofollow && (l.Nofollow || p.Directives.NoFollow) {
		return false
	}
	return cfg.Follow(p, l)
}

// add adds a URL to what p has led to.
func (r *run) add(p *Page, rawURL string, priority int) {
	u, err := p.resolve(rawURL)
	r.lead(p, u, err, Request{URL: rawURL, From: p.FinalURL, Depth: p.Depth + 1, Priority: priority})
}

// lead adds req to what p has led to, with the URL u, if it is within the limits. err is that of u.
func (r *run) lead(p *Page, u *url.URL, err error, req Request) {
	if err == nil {
		var to string
		if to, err = normal(u); err == nil {
			req.URL = to
			req.Host, err = r.c.cfg.Transport.HostKey(to)
		}
	}
	switch {
	case err != nil:
		p.lost = append(p.lost, Result{Request: req, Outcome: Invalid, Err: err})
	case len(req.URL) > maxURL:
		p.lost = append(p.lost, Result{Request: req, Outcome: TooLong})
	case req.Depth > max(0, r.c.cfg.MaxDepth), req.Hops > maxHops:
		p.lost = append(p.lost, Result{Request: req, Outcome: TooDeep})
	default:
		p.found = append(p.found, req)
	}
}

// redirect adds where the answer redirects to, and reports whether it does.
func (r *run) redirect(p *Page) bool {
	switch p.Response.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return false
	}
	location := p.Response.Header.Get("Location")
	if location == "" {
		return false
	}
	r.turnTo(p, location, Link{Element: "redirect"})
	return true
}

// turnTo adds rawURL, which stands for the page itself. A start URL may lead anywhere.
func (r *run) turnTo(p *Page, rawURL string, l Link) {
	req := p.request
	u, err := p.resolve(rawURL)
	if err == nil {
		l.URL, err = normal(u)
	}
	if err != nil || req.Hops >= maxHops || req.Depth == 0 || r.c.cfg.Follow == nil || r.c.cfg.Follow(p, l) {
		r.lead(p, u, err, Request{URL: rawURL, From: req.From, Via: p.URL, Hops: req.Hops + 1, Depth: req.Depth, Priority: req.Priority})
	}
}

// resolve returns rawURL as seen from the page.
func (p *Page) resolve(rawURL string) (*url.URL, error) {
	base, err := url.Parse(p.FinalURL)
	if err != nil {
		return nil, err
	}
	return base.Parse(strings.TrimSpace(rawURL))
}
