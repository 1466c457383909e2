package caching

import "net/http"

// conditions are the fields by which a request asks for a part of a resource, or for it only if a
// condition holds (RFC 9110, sections 13.1 and 14.2).
var conditions = [...]string{
	"If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range", "Range",
}

// IsConditional reports whether the header of a request has a condition or a range. A refusal of
// such a request says nothing of a plain one.
func IsConditional(h http.Header) bool {
	for _, name := range conditions {
		if len(h[name]) > 0 {
			return true
		}
	}
	return false
}
