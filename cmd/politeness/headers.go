package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/go-politeness/politeness/crawl"
)

// headers are a flag that may be given several times: fields of the requests for pages. They may be
// credentials, so they are sent to the sites of the start URLs alone.
type headers struct {
	fields http.Header
	sites  map[string]bool // origins
}

// String implements flag.Value.
func (h *headers) String() string { return "" }

// Set implements flag.Value.
func (h *headers) Set(text string) error {
	name, value, ok := strings.Cut(text, ":")
	name = http.CanonicalHeaderKey(name)
	value = strings.TrimSpace(value)
	switch {
	case !ok || !httpguts.ValidHeaderFieldName(name):
		return errors.New(`want "Name: value"`)
	case !httpguts.ValidHeaderFieldValue(value):
		return errors.New("the value has a control character")
	case name == "User-Agent":
		return errors.New("use -agent, by which robots.txt is read, too")
	case name == "Host" || name == "Content-Length" || name == "Transfer-Encoding" || name == "Trailer":
		return fmt.Errorf("%s is set by the request itself", name)
	}
	if h.fields == nil {
		h.fields = make(http.Header)
	}
	h.fields.Add(name, value)
	return nil
}

// allow sends the fields to the sites of urls, with https also where the URL has http: such sites
// redirect there.
func (h *headers) allow(urls []string) {
	h.sites = make(map[string]bool)
	for _, raw := range urls {
		u := originOf(raw)
		if u == nil {
			continue
		}
		h.sites[u.String()] = true
		u.Scheme = "https"
		h.sites[u.String()] = true
	}
}

// originOf returns the scheme and the host of a URL in one spelling; nil: it has none.
func originOf(raw string) *url.URL {
	normal, err := crawl.Normalize(raw)
	if err != nil {
		return nil
	}
	u, err := url.Parse(normal)
	if err != nil {
		return nil
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}
}

// prepare sets the fields, if the request is for one of the sites.
func (h *headers) prepare(req *http.Request) {
	if len(h.fields) == 0 {
		return
	}
	u := originOf(req.URL.String())
	if u == nil || !h.sites[u.String()] {
		return
	}
	for name, values := range h.fields {
		req.Header[name] = append([]string(nil), values...)
	}
}
