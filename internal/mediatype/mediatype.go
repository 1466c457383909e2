// Package mediatype reads media types and matches them (RFC 9110, sections 8.3.1 and 12.5.1).
package mediatype

import (
	"fmt"
	"mime"
	"strings"
)

// Range checks a media type, perhaps with wildcards (RFC 9110, section 12.5.1).
func Range(s string) (string, error) {
	typ, sub, ok := strings.Cut(strings.ToLower(strings.TrimSpace(s)), "/")
	isName := typ != "" && sub != "" && !strings.ContainsAny(typ+sub, " \t;,/")
	isWild := typ == "*" && sub != "*" // */html is no range
	if !ok || !isName || isWild {
		return "", fmt.Errorf("%q is not a media type such as text/html, text/* or */*", s)
	}
	return typ + "/" + sub, nil
}

// Match reports whether one of patterns, each a result of Range, matches mediaType, a result of Of.
func Match(patterns []string, mediaType string) bool {
	typ, _, _ := strings.Cut(mediaType, "/")
	for _, p := range patterns {
		if p == mediaType || p == "*/*" || p == typ+"/*" {
			return true
		}
	}
	return false
}

// Of returns the media type of a Content-Type in lower case, as well as it can be read.
func Of(contentType string) string {
	if contentType == "" {
		return "application/octet-stream"
	}
	if parsed, _, err := mime.ParseMediaType(contentType); err == nil {
		return parsed
	}
	mediaType := contentType
	if i := strings.IndexAny(mediaType, ";,"); i >= 0 { // a comma: two fields that became one on the way
		mediaType = mediaType[:i]
	}
	return strings.ToLower(strings.TrimSpace(mediaType))
}

// IsHTML reports whether a Content-Type is that of a page: HTML, or none, which browsers show as a
// page, too, if it looks like one.
func IsHTML(contentType string) bool {
	mediaType := Of(contentType)
	return contentType == "" || mediaType == "text/html" || mediaType == "application/xhtml+xml"
}
