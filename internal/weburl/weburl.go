// Package weburl checks which URLs can be fetched, and formats them for records and errors.
package weburl

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/internal/weblink"
)

// maxTarget bounds the path and query of a URL: a redirect may be megabytes long, and servers take
// no more than 8 to 32 KiB (RFC 9110, section 4.1, asks them to take 8,000 bytes).
const maxTarget = 64 << 10

// Check returns what keeps u from being fetched, in the words of net/http where that refuses it
// too: other libraries look for "unsupported protocol scheme".
func Check(u *url.URL) error {
	switch {
	case u == nil:
		return errors.New("no URL")
	case u.Scheme == "":
		return errors.New(`a URL begins with https:// or http://: unsupported protocol scheme ""`)
	case !strings.EqualFold(u.Scheme, "https") && !strings.EqualFold(u.Scheme, "http"):
		return fmt.Errorf("unsupported protocol scheme %q", u.Scheme)
	case len(u.Host) > hostname.MaxLen:
		return fmt.Errorf("host of %d bytes is longer than the %d that a name may have", len(u.Host), hostname.MaxLen)
	case strings.Contains(u.Host, "%25"):
		return fmt.Errorf("the zone of host %q can't be told from an escaped percent sign", u.Host)
	case max(len(u.Path), len(u.Opaque))+len(u.RawQuery) > maxTarget:
		return fmt.Errorf("path and query are longer than %d bytes", maxTarget)
	case hostname.Key(u.Host) == "":
		return fmt.Errorf("%q: no Host in request URL", Redacted(u))
	case !hasPath(u):
		return fmt.Errorf("URL %q has no path that begins with a slash", Redacted(u))
	}
	return nil
}

// hasPath reports whether robots.txt can be asked about the path of u, which isn't so for one that
// stands behind a host in Opaque.
func hasPath(u *url.URL) bool {
	if u.Opaque != "" {
		return strings.HasPrefix(u.Opaque, "/") && !strings.HasPrefix(u.Opaque, "//")
	}
	return u.Path == "*" || rooted(u.Path) && rooted(u.RawPath)
}

// rooted reports whether path is none, or begins with a slash.
func rooted(path string) bool { return path == "" || path[0] == '/' }

// Clip shortens what an error message quotes.
func Clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}

// Unparsable returns what stands for a URL that can't be parsed, and why, by err, the error of
// package net/url. What stands before an "@" may be userinfo, and err may quote a part of it.
func Unparsable(rawURL string, err error) (text string, reason error) {
	if after := strings.LastIndexByte(rawURL, '@') + 1; after > 0 {
		return Clip(rawURL[after:]), errors.New("URL can't be parsed")
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err // without the URL
	}
	return Clip(rawURL), err
}

// Text returns u without userinfo and fragment, in one allocation. A name that isn't ASCII is
// shown as it is sent, in punycode: a name that mixes scripts looks like another one.
func Text(u *url.URL) string {
	if u.Opaque != "" {
		target := u.RequestURI()
		switch {
		case strings.HasPrefix(u.Opaque, "//"): // has the scheme
		case strings.HasPrefix(u.Opaque, "/"):
			// It may be one that no URL has, such as "/50%-off".
			var b strings.Builder
			path, query, hasQuery := strings.Cut(target, "?")
			weblink.Escape(&b, path, false)
			target = u.Scheme + "://" + hostname.ASCII(u.Host) + b.String()
			if hasQuery {
				target += "?" + query
			}
		default: // can't be requested, but userinfo is only found behind a scheme
			target = u.Scheme + ":" + target
		}
		return target
	}
	path := u.EscapedPath()
	if !strings.HasPrefix(path, "/") { // empty, or the asterisk of OPTIONS
		path = "/" + path
	}
	if u.ForceQuery || u.RawQuery != "" {
		return u.Scheme + "://" + hostname.ASCII(u.Host) + path + "?" + u.RawQuery
	}
	return u.Scheme + "://" + hostname.ASCII(u.Host) + path
}

// Redacted is Text for URLs that may lack anything, clipped.
func Redacted(u *url.URL) string {
	if u == nil {
		return ""
	}
	return Clip(evidence.RedactURL(Text(u)))
}

// Hash returns the hash of a URL by which a limiter tells pages apart: FNV-1a, the same in every
// process. It is never 0.
func Hash(u *url.URL) uint64 {
	h := uint64(14695981039346656037)
	for _, part := range [...]string{u.Scheme, u.Host, u.Opaque, u.Path, u.RawPath, u.RawQuery} {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211 // "ab", "c" isn't "a", "bc"
	}
	return max(h, 1)
}
