package politeness

import (
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/robots"
)

// DirectivesOf returns what a page asks of crawlers (noindex, nofollow and the like) by its
// X-Robots-Tag headers, and by its <meta> elements as far as the body has been read: ask again at
// the body's end, before you index or follow. They are those for everyone and for the crawler's own
// product token, the most restrictive of each. It needs ResponseLimits.CheckIndexing; without it,
// and for answers that are not 2xx, it returns the zero value, which asks for nothing. It is safe
// to call while the body is read.
func DirectivesOf(resp *http.Response) robots.Directives {
	if resp.Request == nil {
		return robots.Directives{}
	}
	index, _ := resp.Request.Context().Value(indexKey{}).(*indexing)
	if index == nil {
		return robots.Directives{}
	}
	return index.directives()
}

type indexKey struct{}

// indexing collects the directives of one page while it streams by.
type indexing struct {
	mu   sync.Mutex
	tags robots.Directives   // by headers
	meta *robots.MetaScanner // nil: not HTML
}

func (x *indexing) directives() robots.Directives {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.meta == nil {
		return x.tags
	}
	return x.tags.Merge(x.meta.Directives())
}

// begin reads the headers of a page.
func (x *indexing) begin(resp *http.Response, product string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tags = robots.ParseTags(resp.Header["X-Robots-Tag"], product)
	x.meta = nil
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if mediaType == "text/html" || mediaType == "application/xhtml+xml" {
		x.meta = robots.NewMetaScanner(product)
	}
}

// write takes the next bytes of the body.
func (x *indexing) write(p []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.meta != nil {
		_, _ = x.meta.Write(p) // never fails
	}
}

// recordIndexing reports directives that keep a page from being indexed or its
// links from being followed.
func (trip *trip) recordIndexing(now time.Time) {
	d := trip.index.directives()
	if !d.NoIndexAt(now) && !d.NoFollow {
		return
	}
	record := trip.decision(evidence.NoIndex, now)
	record.Allowed, record.Directives = true, d.String()
	trip.record(&record)
}
