package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Upstream lets base reach sites by another proxy, of http, https or socks5.
func Upstream(base *http.Transport, other *url.URL) {
	base.Proxy = http.ProxyURL(other)
	base.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		return &upstreamError{strings.TrimSpace(resp.Status)}
	}
}

// An upstreamError is a refusal by the other proxy: the site hasn't been asked.
type upstreamError struct{ status string }

// Error implements error.
func (r *upstreamError) Error() string {
	return "the other proxy behind this one has refused: " + r.status
}

// isUpstream reports whether err is one of the way to the other proxy, or of that itself.
func isUpstream(err error) bool {
	operation, ok := errors.AsType[*net.OpError](err)
	return ok && (operation.Op == "proxyconnect" || operation.Op == "socks connect") // net/http's words
}

// send sends a request by t. One of http that goes by another proxy has its target with a host.
func send(t *http.Transport, req *http.Request) (*http.Response, error) {
	if t.Proxy == nil || req.URL.Scheme != "http" {
		return t.RoundTrip(req)
	}
	other, err := t.Proxy(req)
	if err != nil {
		return nil, err
	}
	isHTTP := other != nil && strings.HasPrefix(other.Scheme, "http") // one of socks5 sees no targets
	if !isHTTP {
		return t.RoundTrip(req)
	}
	resp, err := t.RoundTrip(withHost(req))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusProxyAuthRequired {
		// No site asks for a login like that. Were it the answer for robots.txt, all would be allowed.
		resp.Body.Close()
		return nil, &upstreamError{strings.TrimSpace(resp.Status)}
	}
	return resp, nil
}

// withHost returns req with its host in front of a target that net/http would write without.
func withHost(req *http.Request) *http.Request {
	path := req.URL.Opaque
	isWhole := req.URL.Path == "*" && path == ""
	if !isWhole && !strings.HasPrefix(path, "/") {
		return req
	}
	target := *req.URL
	target.Opaque = "//" + target.Host + path
	sent := *req
	sent.URL = &target
	return &sent
}

// Shared returns a transport over base for requests that are nobody's, such as those for
// robots.txt.
func Shared(base *http.Transport) http.RoundTripper { return &sharedOnly{base} }

type sharedOnly struct{ base *http.Transport }

// RoundTrip implements http.RoundTripper.
func (s *sharedOnly) RoundTrip(req *http.Request) (*http.Response, error) { return send(s.base, req) }

// CloseIdleConnections closes those of base.
func (s *sharedOnly) CloseIdleConnections() { s.base.CloseIdleConnections() }
