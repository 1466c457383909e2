package robotscache

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxRedirects is how many redirects are followed (RFC 9309, section 2.3.1.2).
const maxRedirects = 5

// What is longer is no use, and would be kept or shown.
const (
	maxURL       = 8 << 10 // that a redirect leads to
	maxValidator = 1 << 10
)

// An answer is what one fetch came to: the last hop's response, or why there is none.
type answer struct {
	url         string
	hops        int // redirects followed
	status      int // 0: no response
	header      http.Header
	body        []byte // of a 2xx
	conditional bool   // the last hop asked whether our copy still holds
	err         error  // no whole answer
	start       time.Time
	took        time.Duration
}

// fetch asks for the flight's robots.txt, hop by hop. The error is a refusal of
// the transport: the fetch did not happen.
func (c *Cache) fetch(f *flight, prev *known) (answer, error) {
	target := f.origin.robotsURL()
	var a answer
	for ; ; a.hops++ {
		a.url, a.status, a.header = target.String(), 0, nil
		next, err := c.hop(f, target, prev, &a)
		var refused *RefusedError
		if errors.As(err, &refused) {
			// The turn may have been refused because the time was up: that is ours too.
			if cause := context.Cause(f.ctx); cause != nil {
				return answer{}, cause
			}
			return answer{}, refused.Err
		}
		a.err = err
		if err != nil || next == nil || a.hops == maxRedirects {
			break
		}
		// A redirect whose body took all the time: the next hop would be refused for that.
		var timeout *timeoutError
		if cause := context.Cause(f.ctx); errors.As(cause, &timeout) {
			a.err = cause
			break
		}
		target = next
	}
	if cause := context.Cause(f.ctx); a.err != nil && cause != nil {
		a.err = cause
	}
	a.start, a.took = f.clock.stop()
	return a, nil
}

// hop sends one plain GET and notes its answer in a. It returns where a redirect
// points, or nil where the answer is final.
func (c *Cache) hop(f *flight, target *url.URL, prev *known, a *answer) (next *url.URL, err error) {
	req := (&http.Request{
		Method: http.MethodGet,
		URL:    target,
		Host:   target.Host,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		// Accept-Encoding is left to the transport, which then undoes it too.
		Header: http.Header{"User-Agent": {c.client.UserAgent}},
	}).WithContext(f.ctx)
	a.conditional = prev != nil && prev.good != nil && prev.good.validators.validate(req, a.hops)

	f.clock.nextHop()
	resp, err := c.client.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp == nil {
		return nil, errors.New("the transport returned neither a response nor an error")
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	defer resp.Body.Close()
	a.status, a.header = resp.StatusCode, resp.Header

	switch {
	case resp.StatusCode/100 == 2:
		a.body, err = readBody(f.ctx, resp)
		return nil, err
	case isRedirect(resp.StatusCode):
		next = redirect(target, resp.Header.Get("Location"))
	}
	_, _ = io.CopyN(io.Discard, &wireReader{ctx: f.ctx, r: resp.Body}, maxSlurp)
	return next, nil
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// redirect resolves a Location. It returns nil where that leads nowhere that
// robots.txt can be had from. Userinfo is dropped: it would be a credential.
func redirect(from *url.URL, location string) *url.URL {
	if location == "" {
		return nil
	}
	to, err := from.Parse(location)
	if err != nil || to.Opaque != "" {
		return nil
	}
	o, err := originOf(to)
	if err != nil {
		return nil
	}
	to.Scheme, to.Host = o.scheme(), o.host
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	if len(to.String()) > maxURL {
		return nil
	}
	return to
}

// validate makes req conditional (RFC 9110, section 13.1), if it asks for the URL
// that the copy came from and the server gave something to ask by.
func (v *validators) validate(req *http.Request, hops int) bool {
	if hops == 0 && v.url != "" || hops > 0 && v.url != req.URL.String() {
		return false
	}
	if v.etag != "" {
		req.Header["If-None-Match"] = []string{v.etag}
	}
	if v.lastModified != "" {
		req.Header["If-Modified-Since"] = []string{v.lastModified}
	}
	return v.etag != "" || v.lastModified != ""
}

// validator returns a header's value if it can be sent back.
func validator(value string) string {
	if len(value) > maxValidator || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		return ""
	}
	return strings.Clone(value)
}
