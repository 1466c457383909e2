// Package pagehead reads what a page states about itself while its body is read.
package pagehead

import (
	"bytes"
	"io"
	"net/http"
	"sync"

	"github.com/go-politeness/politeness/internal/coding"
	"github.com/go-politeness/politeness/internal/mediatype"
	"github.com/go-politeness/politeness/internal/weblink"
	"github.com/go-politeness/politeness/robots"
)

// A Head is what one page states by its headers and, as the body is read, by its <meta> elements.
// It is safe for concurrent use. The zero value states nothing.
type Head struct {
	mu     sync.Mutex
	tags   robots.Directives   // by headers
	stated robots.Preferences  // by robots.txt and headers
	meta   *robots.MetaScanner // nil: of another type than HTML
	packed *packed             // the beginning of a body in a content coding; nil: it comes decoded
}

// A packed is a body in a coding that the transport hasn't undone: that of a request with an
// Accept-Encoding of its own. Its beginning is decoded anew each time that it has doubled.
type packed struct {
	codings []string
	scanner func() *robots.MetaScanner
	raw     []byte
	decoded int // length of raw when it was decoded last
}

// maxPacked is how much of a body in a coding is kept. Its head is 64 KB at most when it is
// decoded.
const maxPacked = 64 << 10

// write adds the next bytes of the body, and returns what the page states so far, if that is to be
// found anew; nil: it isn't.
func (k *packed) write(p []byte) *robots.MetaScanner {
	if len(k.raw) == maxPacked {
		return nil
	}
	k.raw = append(k.raw, p[:min(len(p), maxPacked-len(k.raw))]...)
	if len(k.raw) < maxPacked && len(k.raw) < 2*k.decoded+512 {
		return nil
	}
	return k.decode()
}

// decode returns what the page states so far.
func (k *packed) decode() *robots.MetaScanner {
	k.decoded = len(k.raw)
	meta := k.scanner()
	text, err := coding.NewReader(bytes.NewReader(k.raw), k.codings, 4*maxPacked)
	if err != nil {
		return meta
	}
	_, _ = io.CopyN(meta, text, maxPacked) // the data may end early, as it isn't whole yet
	return meta
}

// Directives returns what the page asks of crawlers.
func (h *Head) Directives() robots.Directives {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.meta == nil {
		return h.tags
	}
	h.decode()
	return h.tags.Merge(h.meta.Directives())
}

// Preferences returns what is stated about the use of the page.
func (h *Head) Preferences() robots.Preferences {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.meta == nil {
		return h.stated
	}
	h.decode()
	return h.stated.Merge(h.meta.Preferences())
}

// Begin reads the headers of a page. stated is what robots.txt and the headers state.
func (h *Head) Begin(header http.Header, product string, stated robots.Preferences) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tags = robots.ParseTags(header["X-Robots-Tag"], product)
	h.stated = stated
	h.meta = nil
	h.packed = nil
	kind := mediatype.OfPage(header["Content-Type"])
	if _, isPage := weblink.MarkupOf(kind.Type); !isPage {
		return
	}
	scanner := func() *robots.MetaScanner {
		meta := robots.NewMetaScanner(product)
		meta.SetType(kind.Type)
		return meta
	}
	h.meta = scanner()
	codings := coding.Of(header)
	if len(codings) > 0 {
		h.packed = &packed{codings: codings, scanner: scanner}
	}
}

// Write reads the next bytes of the body, and reports whether the head of the page ends in them.
func (h *Head) Write(p []byte) (over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.meta == nil || h.meta.Done() {
		return false
	}
	if h.packed == nil {
		_, _ = h.meta.Write(p) // never fails
		return h.meta.Done()
	}
	meta := h.packed.write(p)
	if meta == nil {
		return false
	}
	h.meta = meta
	if meta.Done() {
		h.packed = nil
	}
	return meta.Done()
}

// decode decodes the bytes of a packed body that came since it was decoded last.
func (h *Head) decode() {
	if h.packed != nil && len(h.packed.raw) > h.packed.decoded {
		h.meta = h.packed.decode()
	}
}
