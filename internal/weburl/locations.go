package weburl

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/go-politeness/politeness/internal/weblink"
)

// Location returns the reference that resp redirects to; empty: it doesn't redirect.
func Location(resp *http.Response) string {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		bad := resp.Header[badLocation] //nolint:staticcheck // it isn't canonical on purpose
		return cmp.Or(resp.Header.Get("Location"), strings.Join(bad, ""))
	}
	return ""
}

// Locations is a RoundTripper for an http.Client. It rewrites each Location as browsers read it.
// One that they can't read, or that leads out of http, the Client doesn't get to see: it would fail
// the answer. Location returns that as well.
type Locations struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l Locations) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(req)
	if err != nil || resp == nil {
		return resp, err
	}
	to := Location(resp)
	if to == "" {
		return resp, nil
	}
	read, err := weblink.Redirect(req.URL, to)
	if err != nil {
		resp.Header.Del("Location")
		resp.Header[badLocation] = []string{to}
		return resp, nil
	}
	resp.Header.Set("Location", read.Spelled(to))
	return resp, nil
}

// badLocation is a key that no server can send, since net/http begins it with a capital letter.
const badLocation = "location"
