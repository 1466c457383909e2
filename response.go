package politeness

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-politeness/politeness/internal/mediatype"
	"github.com/go-politeness/politeness/internal/weburl"
)

// ResponseLimits exclude responses that are useless for the crawl. They apply to 2xx responses to
// pages. Errors, redirects and robots.txt pass.
type ResponseLimits struct {
	// MaxBytes is the length of the largest body in bytes. A larger body fails with ErrTooLarge. If
	// its Content-Length is too large, nothing is read. Otherwise the body fails while it is read, and
	// the rest is left unread. The length is counted after decompression by the base transport. If a
	// request has its own Accept-Encoding, the base transport doesn't decompress. The default is
	// unlimited.
	MaxBytes int64
	// Accept and Reject are media types, with wildcards, such as "text/html", "text/*" and "*/*". A
	// response whose Content-Type matches none of Accept, or one of Reject, fails with
	// ErrContentType before its body is read. One without a Content-Type is
	// application/octet-stream (RFC 9110, section 8.3) if it has a body. If Accept is empty, every
	// type is accepted.
	Accept []string
	Reject []string
	// CheckIndexing reads page directives, such as noindex and nofollow. They come from X-Robots-Tag
	// headers, and from the <meta> elements of HTML while you read the body. HTML may be compressed by
	// gzip or deflate. DirectivesOf returns the directives, and evidence records them. The default is
	// off.
	CheckIndexing bool
}

// compile returns l with its media types as mediatype.Match has them.
func (l ResponseLimits) compile() (ResponseLimits, error) {
	var errs []error
	if l.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("MaxBytes is negative: %d", l.MaxBytes))
	}
	ranges := func(field string, types []string) (patterns []string) {
		for i, s := range types {
			pattern, err := mediatype.Range(s)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s[%d]: %w", field, i, err))
			}
			patterns = append(patterns, pattern)
		}
		return patterns
	}
	l.Accept = ranges("Accept", l.Accept)
	l.Reject = ranges("Reject", l.Reject)
	return l, errors.Join(errs...)
}

// check refuses a response to method by its headers. empty says that it has no body.
func (l *ResponseLimits) check(resp *http.Response, method string, empty bool) error {
	head := method == http.MethodHead
	contentType := first(resp.Header, "Content-Type")
	hasBody := !empty && !head && resp.StatusCode != http.StatusNoContent
	hasType := contentType != "" || hasBody // without the field, RFC 9110, section 8.3, applies
	if hasType && len(l.Accept)+len(l.Reject) > 0 {
		mediaType := mediatype.Of(contentType)
		if !l.accepts(mediaType) {
			return fmt.Errorf("%w: %s", ErrContentType, weburl.Clip(mediaType))
		}
	}
	// The response to HEAD has the length of a body that isn't sent.
	if l.MaxBytes > 0 && resp.ContentLength > l.MaxBytes && !head {
		return fmt.Errorf("%w: more than %d bytes (Content-Length %d)", ErrTooLarge, l.MaxBytes, resp.ContentLength)
	}
	return nil
}

// accepts reports whether Accept and Reject let a media type pass.
func (l *ResponseLimits) accepts(mediaType string) bool {
	if len(l.Accept) > 0 && !mediatype.Match(l.Accept, mediaType) {
		return false
	}
	return !mediatype.Match(l.Reject, mediaType)
}
