// Package statuspage serves the state of a crawl as a page for people, as JSON, and as metrics for
// Prometheus.
package statuspage

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/go-politeness/politeness"
)

// Handler returns a read-only page about t, in the manner of package net/http/pprof. It serves HTML
// for people, which updates itself. With "?format=json", or an Accept header of application/json,
// it serves a politeness.Status as JSON. With "?format=prometheus" it serves metrics for
// Prometheus. Another format gets status 400. "?host=example" keeps the hosts whose key contains
// that text. The page names the hosts that are crawled, so mount it on an address that only you can
// reach.
//
//	http.Handle("/debug/politeness", statuspage.Handler(t))
//
// A request is served if its Host is localhost, an IP address or one of names, which are without a
// port. Any other request gets status 421. So a stranger can't point a name of theirs at your
// machine and let a page in your browser read the status (DNS rebinding). Nor can any other page
// frame it or load it.
func Handler(t *politeness.Transport, names ...string) http.Handler {
	names = slices.Clone(names)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		if !expected(r.Host, names) {
			http.Error(w, "not served under this Host; give statuspage.Handler its name", http.StatusMisdirectedRequest)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the status is read-only", http.StatusMethodNotAllowed)
			return
		}
		format := r.FormValue("format")
		host := r.FormValue("host")
		if !slices.Contains([]string{"", "json", "prometheus"}, format) {
			const known = `format is "json" or "prometheus"; without it there is a page for people`
			http.Error(w, known, http.StatusBadRequest)
			return
		}
		status := t.StatusOf(r.Context(), host)
		var page bytes.Buffer // an error is answered as one, and not behind half a page
		var err error
		switch {
		case format == "prometheus":
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			writePrometheus(&page, &status)
		case format == "json" || strings.Contains(r.Header.Get("Accept"), "application/json"):
			w.Header().Set("Content-Type", "application/json")
			enc := json.NewEncoder(&page)
			enc.SetIndent("", "  ")
			err = enc.Encode(status)
		default:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			err = writeHTML(&page, &status, host)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		_, _ = page.WriteTo(w)
	})
}

// protect sets the headers that keep other pages from using this one. The style and the script are
// the page's own.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src '"+scriptHash+
		"'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// expected reports whether host, a Host header, is localhost, an IP address or one of names.
func expected(host string, names []string) bool {
	u := url.URL{Host: host}
	name := strings.TrimSuffix(u.Hostname(), ".")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return strings.EqualFold(name, "localhost") ||
		slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}
