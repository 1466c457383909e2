// Package sites finds the host that a URL or a record is about, for the judge, access logs and
// bundles.
package sites

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/hostname"
)

// A Site is the keys of some hosts, with the names below them.
type Site []string

// Read returns the site of the given hosts.
func Read(hosts []string) (Site, error) {
	var s Site
	for _, h := range hosts {
		name := hostname.Key(h)
		if name == "" || strings.ContainsAny(h, "/@ ") { // a URL would have no records
			return s, fmt.Errorf("audit: %q isn't a host: give a name such as example.com", h)
		}
		s = append(s, name)
	}
	if s == nil {
		return s, errors.New("audit: no host to extract")
	}
	return s, nil
}

// Has reports whether a host, which may have a port, belongs to s.
func (s Site) Has(host string) bool {
	return slices.ContainsFunc(s, func(name string) bool { return hostname.Within(host, name) })
}

// About reports whether d is a record about s, or the policy of a Transport, or the end of a log.
func (s Site) About(d *evidence.Decision) bool {
	host := cmp.Or(Authority(d.URL), d.Host) // several hosts may share the slots of d.Host
	if host == "" {
		return d.Type == evidence.PolicyStated || d.Type == evidence.LogClosed
	}
	return d.Type != "" && s.Has(host)
}

// SplitURL splits a URL into its origin and its target, the path and query as they were sent.
func SplitURL(u string) (origin, target string) {
	u, _, _ = strings.Cut(u, "#")
	scheme, rest, ok := strings.Cut(u, "://")
	if !ok {
		return "", u
	}
	scheme = strings.ToLower(scheme)
	end := strings.IndexAny(rest, "/?")
	if end == -1 {
		end = len(rest)
	}
	authority := rest[:end]
	target = rest[end:]
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	// It is escaped in a URL that was parsed and printed.
	if strings.Contains(authority, "%") {
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
