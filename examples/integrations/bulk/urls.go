package main

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// surt returns the key by which crawls are sorted, so that pages of a domain, its
// subdomains included, stand together: the host's labels in reverse, without
// www, then path and query with its parameters sorted.
//
//	https://www.blog.example.com/a?y=2&x=1 -> com,example,blog)/a?x=1&y=2
func surt(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	host := strings.ToLower(u.Hostname())
	if _, err := netip.ParseAddr(host); err != nil {
		labels := strings.Split(strings.TrimPrefix(host, "www."), ".")
		slices.Reverse(labels)
		host = strings.Join(labels, ",")
	}
	if u.Port() != "" {
		host += ":" + u.Port()
	}
	key := host + ")" + u.EscapedPath()
	if u.RawQuery != "" {
		params := strings.Split(u.RawQuery, "&")
		slices.Sort(params)
		key += "?" + strings.Join(params, "&")
	}
	return key
}
