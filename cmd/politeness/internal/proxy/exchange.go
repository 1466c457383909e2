package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// An exchange is one request of a program: what it holds of the site is given back when it ends,
// in whichever way.
type exchange struct {
	body io.Closer // of the site's answer; nil: there is none
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	return e
}

// end closes what is still open. To close it twice does nothing.
func (e *exchange) end() {
	if e.body != nil {
		e.body.Close()
	}
}

// A sender is the Transport of the ReverseProxy.
type sender struct{ polite http.RoundTripper }

var (
	// errStatus is an answer that is none of HTTP (RFC 9110, section 15).
	errStatus = errors.New("the site's answer has a status below 100")
	// errUpgrade is an answer of 101 that the request hasn't asked for.
	errUpgrade = errors.New("the site has switched to another protocol than was asked for")
)

// RoundTrip implements http.RoundTripper.
func (s *sender) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.polite.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if e := exchangeOf(req.Context()); e != nil {
		e.body = resp.Body
	}
	if err := odd(req, resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// odd returns why resp can't be passed on; nil: it can.
func odd(req *http.Request, resp *http.Response) error {
	switch {
	case resp.StatusCode < 100:
		// net/http's server panics if it is to answer with such a status.
		return fmt.Errorf("%w: %d", errStatus, resp.StatusCode)
	case resp.StatusCode != http.StatusSwitchingProtocols:
		return nil
	}
	// ReverseProxy would leave the body open.
	wish := req.Header.Get("Upgrade")
	got := resp.Header.Get("Upgrade")
	if wish == "" || !strings.EqualFold(wish, got) {
		return fmt.Errorf("%w: %q", errUpgrade, got)
	}
	return nil
}
