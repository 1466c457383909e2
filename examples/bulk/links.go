package main

import (
	"bytes"
	"mime"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// links are where a page leads.
type links struct {
	canonical string   // the page that it is a copy of, if that is another one of its host
	pages     []string // its links to pages of its host that may be followed
}

// findLinks reads the links of an HTML page. Those with rel=nofollow are left out,
// all of them where the page as a whole says nofollow.
func findLinks(p *page) links {
	mediaType, _, _ := mime.ParseMediaType(p.ContentType)
	if mediaType != "text/html" && mediaType != "application/xhtml+xml" {
		return links{}
	}
	base, err := url.Parse(p.FinalURL)
	if err != nil {
		return links{}
	}
	host := hostOf(p.URL) // a page that moved to another host leads there, not on
	var found links
	resolve := func(href string) (string, bool) {
		u, err := base.Parse(strings.TrimSpace(href))
		if err != nil || u.Host != host {
			return "", false
		}
		raw, err := normalize(u.String())
		return raw, err == nil
	}
	for z := html.NewTokenizer(bytes.NewReader(p.Body)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return found
		case html.StartTagToken, html.SelfClosingTagToken:
		default:
			continue
		}
		name, more := z.TagName()
		tag := atom.Lookup(name)
		if tag != atom.A && tag != atom.Area && tag != atom.Link && tag != atom.Base {
			continue
		}
		var href string
		var rel []string
		for more {
			var key, value []byte
			key, value, more = z.TagAttr()
			switch string(key) {
			case "href":
				href = string(value)
			case "rel":
				rel = strings.Fields(strings.ToLower(string(value)))
			}
		}
		switch {
		case href == "":
		case tag == atom.Base:
			if u, err := base.Parse(href); err == nil {
				base = u
			}
		case tag == atom.Link:
			if raw, ok := resolve(href); ok && slices.Contains(rel, "canonical") && raw != p.FinalURL && raw != p.URL {
				found.canonical = raw
			}
		case p.NoFollow || slices.Contains(rel, "nofollow"):
		default:
			if raw, ok := resolve(href); ok {
				found.pages = append(found.pages, raw)
			}
		}
	}
}
