// Package pagehead reads what a page states about itself while its body is read.
package pagehead

import (
	"net/http"
	"sync"

	"github.com/go-politeness/politeness/internal/mediatype"
	"github.com/go-politeness/politeness/robots"
)

// A Head is what one page states by its headers and, as the body is read, by its <meta> elements.
// It is safe for concurrent use. The zero value states nothing.
type Head struct {
	mu     sync.Mutex
	tags   robots.Directives   // by headers
	stated robots.Preferences  // by robots.txt and headers
	meta   *robots.MetaScanner // nil: of another type than HTML
}

// Directives returns what the page asks of crawlers.
func (h *Head) Directives() robots.Directives {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.meta == nil {
		return h.tags
	}
	return h.tags.Merge(h.meta.Directives())
}

// Preferences returns what is stated about the use of the page.
func (h *Head) Preferences() robots.Preferences {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.meta == nil {
		return h.stated
	}
	return h.stated.Merge(h.meta.Preferences())
}

// Begin reads the headers of a page. stated is what robots.txt and the headers state.
func (h *Head) Begin(header http.Header, product string, stated robots.Preferences) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tags = robots.ParseTags(header["X-Robots-Tag"], product)
	h.stated = stated
	h.meta = nil
	kind := mediatype.OfPage(header["Content-Type"])
	if kind.IsHTML() {
		h.meta = robots.NewMetaScanner(product)
		h.meta.SetType(kind.Type)
	}
}

// Write reads the next bytes of the body, and reports whether the head of the page ends in them.
func (h *Head) Write(p []byte) (over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.meta == nil || h.meta.Done() {
		return false
	}
	_, _ = h.meta.Write(p) // never fails
	return h.meta.Done()
}
