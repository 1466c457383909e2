// Package sites tells what a URL or a record is about, for the judge, access logs and bundles.
package sites

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/hostname"
)

// A Site is the keys of some hosts, with the names below them.
type Site []string

// Read returns the site of the given hosts.
func Read(hosts []string) (s Site, err error) {
	for _, h := range hosts {
		name := hostname.Key(h)
		if name == "" || strings.ContainsAny(h, "/@ ") {
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

// About reports whether d is a record about s, or states what the crawler promises everywhere, or
// that it has come to its end.
func (s Site) About(d *evidence.Decision) bool {
	host := cmp.Or(Authority(d.URL), d.Host)
	return host == "" && (d.Type == evidence.PolicyStated || d.Type == evidence.LogClosed) || host != "" && d.Type != "" && s.Has(host)
}
