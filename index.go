package politeness

import (
	"net/http"

	"github.com/go-politeness/politeness/internal/pagehead"
	"github.com/go-politeness/politeness/robots"
)

// DirectivesOf returns a page's directives for crawlers, such as noindex and nofollow. They come
// from the X-Robots-Tag headers, and from the <meta> elements as far as the body has been read.
// Call DirectivesOf at the body's end, before you index the page or follow its links. Directives
// for everyone and directives for the crawler's own product token count. Of two, the stricter
// counts.
//
// Set ResponseLimits.CheckIndexing or Config.Purposes. Without both, and for a response that isn't
// 2xx, DirectivesOf returns the zero value, which restricts nothing. DirectivesOf is safe to call
// while the body is read.
func DirectivesOf(resp *http.Response) robots.Directives {
	if head := headOf(resp); head != nil {
		return head.Directives()
	}
	return robots.Directives{}
}

// PreferencesOf returns the site's preferences for the use of a page. They come from robots.txt,
// from the headers, and from the page's <meta> elements as far as the body has been read. Set
// Config.Purposes or ResponseLimits.CheckIndexing. Without both, and for a response that isn't 2xx,
// PreferencesOf returns the zero value, which states nothing. Call PreferencesOf at the body's end,
// before you use the page for a purpose such as training AI. PreferencesOf is safe to call while
// the body is read.
func PreferencesOf(resp *http.Response) robots.Preferences {
	if head := headOf(resp); head != nil {
		return head.Preferences()
	}
	return robots.Preferences{}
}

// headOf returns the Head of the page of resp, or nil if none is read. It is in the context of the
// response's request, under the key (*pagehead.Head)(nil).
func headOf(resp *http.Response) *pagehead.Head {
	if resp.Request == nil { // made by hand, or by a cache
		return nil
	}
	head, _ := resp.Request.Context().Value((*pagehead.Head)(nil)).(*pagehead.Head)
	return head
}
