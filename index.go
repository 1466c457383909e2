package politeness

import (
	"net/http"
	"sync"

	"github.com/go-politeness/politeness/robots"
)

// DirectivesOf returns what a page asks of crawlers (noindex, nofollow and the like) by its
// X-Robots-Tag headers, and by its <meta> elements as far as the body has been read: ask again at
// the body's end, before you index or follow. They are those for everyone and for the crawler's own
// product token, the most restrictive of each. It needs ResponseLimits.CheckIndexing or
// Config.Purposes; without them, and for answers that are not 2xx, it returns the zero value, which
// asks for nothing. It is safe to call while the body is read.
func DirectivesOf(resp *http.Response) robots.Directives {
	if index := indexOf(resp); index != nil {
		return index.directives()
	}
	return robots.Directives{}
}

// PreferencesOf returns what the site states about the use of a page: in robots.txt, in the
// headers, and by its <meta> elements as far as the body has been read. It needs Config.Purposes or
// ResponseLimits.CheckIndexing; without them, and for answers that are not 2xx, it returns the zero
// value, which states nothing. It is safe to call while the body is read.
func PreferencesOf(resp *http.Response) robots.Preferences {
	if index := indexOf(resp); index != nil {
		return index.preferences()
	}
	return robots.Preferences{}
}

// indexOf returns what the page of resp asks for, nil where nobody looks for it.
func indexOf(resp *http.Response) *indexing {
	if resp.Request == nil {
		return nil
	}
	index, _ := resp.Request.Context().Value(indexKey{}).(*indexing)
	return index
}

type indexKey struct{}

// indexing collects what one page asks for while it streams by.
type indexing struct {
	mu     sync.Mutex
	tags   robots.Directives   // by headers
	stated robots.Preferences  // by robots.txt and headers
	meta   *robots.MetaScanner // nil: of another type than HTML
}

func (x *indexing) directives() robots.Directives {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.meta == nil {
		return x.tags
	}
	return x.tags.Merge(x.meta.Directives())
}

func (x *indexing) preferences() robots.Preferences {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.meta == nil {
		return x.stated
	}
	return x.stated.Merge(x.meta.Preferences())
}

// begin reads the headers of a page, about which so much is stated already.
func (x *indexing) begin(resp *http.Response, product string, stated robots.Preferences) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tags = robots.ParseTags(resp.Header["X-Robots-Tag"], product)
	x.stated, x.meta = stated, nil
	// What has no type at all browsers show as a page, too, if it looks like one.
	switch ct := first(resp.Header, "Content-Type"); mediaTypeOf(ct) {
	case "text/html", "application/xhtml+xml":
		x.meta = robots.NewMetaScanner(product)
	default:
		if ct == "" {
			x.meta = robots.NewMetaScanner(product)
		}
	}
}

// write takes the next bytes of the body, and reports whether the head of the page ends in them.
func (x *indexing) write(p []byte) (over bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.meta == nil || x.meta.Done() {
		return false
	}
	_, _ = x.meta.Write(p) // never fails
	return x.meta.Done()
}
