package revisit

import (
	"net/http"
	"strings"
	"time"
)

// A Page is the memory of a URL, some 40 bytes in its binary form. The zero Page was never fetched.
// Schedule.Next makes a Page. You keep it.
type Page struct {
	// ETag and LastModified are as the server sent them, and are sent back as they are. An ETag over
	// 256 bytes isn't kept, nor a Last-Modified over 64 bytes. A field is empty if there is none.
	ETag, LastModified string
	// Words and Text are the hashes of the last version. See Answer.
	Words, Text uint32
	// Visited is the time of the last response of any status, or of the last request that got none.
	// Whole is the time of the last 200 or 203.
	Visited, Whole time.Time
	// Changed is the time of the last change, as far as that is known.
	Changed time.Time
	// Earliest is the time before which the page is never fetched. At that time Min and the
	// freshness that the site declared are over.
	Earliest time.Time
	// Due is when the page is to be asked for again. If it is zero, the page is due only if a sitemap
	// or feed reports that it was modified. See Hinted.
	Due time.Time
	// Life is the time for which the last 200 called itself fresh, by max-age or Expires. If a 304
	// has neither, Life keeps its value.
	Life time.Duration
	// Gone is the number of responses 404 and 410 in a row.
	Gone int
	// Hints is the number of early fetches in a row that a sitemap or feed caused and that found no
	// change.
	Hints int
}

const (
	mostETag         = 256
	mostLastModified = 64
	mostHints        = 2 // of a page in a row that have brought nothing
)

// IsZero reports whether nothing is remembered. Use it to tell a new page from a known one.
func (p Page) IsZero() bool { return p == Page{} }

// Conditions sets If-None-Match and If-Modified-Since in the header of a request at now, if the
// page has validators for them. It sets none while the page is gone, and none if the last whole
// response is 90 days old. Call it before each request of a page that you schedule yourself. Set
// Answer.Conditional if Conditions returns true.
func (p Page) Conditions(h http.Header, now time.Time) bool {
	isOld := now.Sub(p.Whole) >= untilWhole
	if p.Gone > 0 || p.Whole.IsZero() || isOld || p.ETag == "" && p.LastModified == "" {
		return false
	}
	if p.ETag != "" {
		h.Set("If-None-Match", alternatives(p.ETag))
	}
	if p.LastModified != "" {
		h.Set("If-Modified-Since", p.LastModified)
	}
	return true
}

// alternatives returns the list of tags for the version with the tag etag. Apache adds "-gzip" to
// the tag of a compressed response, but compares with the tag without it. So only a list of both
// gets a 304 (its bug 45023). Its modules for other codings do the same.
func alternatives(etag string) string {
	for _, coding := range [...]string{"gzip", "br", "deflate", "zstd"} {
		if plain, ok := strings.CutSuffix(etag, "-"+coding+`"`); ok {
			return etag + ", " + plain + `"`
		}
	}
	return etag
}

// Hinted returns when the page is due after a hint that it was modified at the given time. An
// example of a hint is the lastmod of a sitemap. For a date without a time, pass the beginning of
// the day. The result ok is false if the hint changes nothing. This is so if the page was never
// fetched, if it was fetched after modified, if it is due as early anyway, or if the last two hints
// were wrong.
func (p Page) Hinted(modified time.Time) (due time.Time, ok bool) {
	isNews := !p.Visited.IsZero() && modified.After(p.Visited)
	if !isNews || p.Hints >= mostHints {
		return time.Time{}, false
	}
	if !p.Due.IsZero() && !p.Earliest.Before(p.Due) {
		return time.Time{}, false
	}
	return p.Earliest, true
}

// EarliestBy returns Earliest, unless the clock was set back far. now is the current time of the
// clock. Suppose that the clock was set back to a time before Visited, by more than the whole wait
// from Visited to Earliest. Then nobody knows how much of the wait is over. So EarliestBy returns
// the zero time, and the page may be fetched.
func (p Page) EarliestBy(now time.Time) time.Time {
	setBack := p.Visited.Sub(now)
	if setBack > p.Earliest.Sub(p.Visited) {
		return time.Time{}
	}
	return p.Earliest
}

// validator returns a field of a response's header that may be sent back; "" if there is none.
func validator(h http.Header, name string, most int) string {
	value := first(h, name)
	if len(value) > most || strings.ContainsFunc(value, isUnsendable) {
		return ""
	}
	return value
}

// isUnsendable reports whether net/http refuses to send r in a header.
func isUnsendable(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// first is Header.Get for a name that is canonical already.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}
