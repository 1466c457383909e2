package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness"
)

// self is what the proxy calls itself in Via and Proxy-Status.
const self = "politeness"

// newProxy returns the proxy: an httputil.ReverseProxy, which strips hop-by-hop headers and
// streams bodies in both directions, for requests with an absolute URL.
func newProxy(transport http.RoundTripper) http.Handler {
	forward := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.RawQuery = r.In.URL.RawQuery // ReverseProxy would drop what it can't parse
			r.Out.Header["Via"] = append(r.In.Header["Via"], fmt.Sprintf("%d.%d %s", r.In.ProtoMajor, r.In.ProtoMinor, self))
		},
		ModifyResponse: func(resp *http.Response) error {
			if ours(resp.Header) { // only the proxy answers in its own name
				resp.Header.Del("Proxy-Status")
			}
			return nil
		},
		FlushInterval: -1, // pass on what comes, when it comes
		ErrorHandler:  refuse,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			w.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE")
			answer(w, http.StatusMethodNotAllowed, "http_request_denied", noConnect)
		case !r.URL.IsAbs():
			answer(w, http.StatusBadRequest, "http_request_error", fmt.Sprintf(notAProxy, r.Host))
		default:
			forward.ServeHTTP(w, r)
		}
	})
}

const (
	noConnect = "this proxy opens no tunnels: inside of one it could see neither robots.txt nor a 429. " +
		"Ask for the https URL in the open (GET https://host/path HTTP/1.1; " +
		"curl --request-target https://host/path http://host/path), or use package politeness in your program"
	notAProxy = "this is a proxy and no web site: set http_proxy=http://%s"
)

// refuse answers for politeness.
func refuse(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(err, politeness.ErrPrivateAddress) {
		answer(w, http.StatusForbidden, "destination_ip_prohibited", err.Error())
		return
	}
	var refused *politeness.Error
	if !errors.As(err, &refused) { // the network's own error
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			answer(w, http.StatusGatewayTimeout, "connection_timeout", err.Error())
		} else {
			answer(w, http.StatusBadGateway, "", err.Error())
		}
		return
	}
	switch {
	case !refused.RetryAt.IsZero():
		seconds := (time.Until(refused.RetryAt) + time.Second - 1) / time.Second // never too early
		w.Header().Set("Retry-After", strconv.Itoa(max(int(seconds), 1)))
		answer(w, http.StatusServiceUnavailable, "http_request_denied", err.Error())
	case errors.Is(err, politeness.ErrDisallowed), errors.Is(err, politeness.ErrBudget):
		answer(w, http.StatusForbidden, "http_request_denied", err.Error())
	case refused.Stage == politeness.StageRequest:
		answer(w, http.StatusBadRequest, "http_request_error", err.Error())
	case errors.Is(err, politeness.ErrBusy):
		answer(w, http.StatusServiceUnavailable, "http_request_denied", err.Error())
	case refused.Timeout():
		answer(w, http.StatusGatewayTimeout, "connection_timeout", err.Error())
	default:
		answer(w, http.StatusBadGateway, "", err.Error())
	}
}

// ours reports whether the proxy answered itself.
func ours(header http.Header) bool {
	name, _, _ := strings.Cut(header.Get("Proxy-Status"), ";")
	return strings.TrimSpace(name) == self
}

// answer answers in the proxy's own name, with an error type of RFC 9209, section 2.3.
func answer(w http.ResponseWriter, status int, kind, reason string) {
	value := self
	if kind != "" {
		value += "; error=" + kind
	}
	w.Header().Set("Proxy-Status", value+"; details="+quote(reason))
	http.Error(w, reason, status)
}

// quote makes s a String of RFC 8941, section 3.3.3, which is printable ASCII.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r > '~':
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
