package main

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// normalize brings a URL into the form by which it is known: scheme and host in
// lower case, no default port, no fragment, a path.
func normalize(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", err
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", fmt.Errorf("%q is no URL of a page, such as https://example.com/", raw)
	}
	if port := u.Port(); u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443" {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	u.Fragment, u.RawFragment, u.User = "", "", nil
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String(), nil
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}

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
	if port := u.Port(); port != "" {
		host += ":" + port
	}
	key := host + ")" + u.EscapedPath()
	if u.RawQuery != "" {
		params := strings.Split(u.RawQuery, "&")
		slices.Sort(params)
		key += "?" + strings.Join(params, "&")
	}
	return key
}
