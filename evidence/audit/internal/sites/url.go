package sites

import (
	"net/url"
	"strings"

	"github.com/go-politeness/politeness/internal/hostname"
)

// SplitURL splits a URL into its origin and its target, the path and query as they were sent.
func SplitURL(u string) (origin, target string) {
	u, _, _ = strings.Cut(u, "#")
	i := strings.Index(u, "://")
	if i == -1 {
		return "", u
	}
	scheme, rest := strings.ToLower(u[:i]), u[i+len("://"):]
	authority := rest
	if j := strings.IndexAny(rest, "/?"); j != -1 {
		authority, target = rest[:j], rest[j:]
	}
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	if strings.Contains(authority, "%") { // it is escaped in a URL that was parsed and printed
		if u, err := url.Parse("//" + authority); err == nil {
			authority = u.Host
		}
	}
	return scheme + "://" + hostname.Authority(scheme, authority), target
}

// Authority returns the host of an absolute URL, or of one that lacks the scheme only; "" if u is
// none of these.
func Authority(u string) string {
	if strings.HasPrefix(u, "//") {
		u = "http:" + u
	}
	origin, _ := SplitURL(u)
	_, host, _ := strings.Cut(origin, "://")
	return host
}
