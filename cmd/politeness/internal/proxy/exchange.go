package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
)

// An exchange is one request of a program: what it holds of the site is given back when it ends,
// in whichever way.
type exchange struct {
	answer  *spoken     // nil: no words can be set
	request uint64      // hash by which the hall recognizes the request
	host    string      // by which it waits
	ticket  ticket      // that it came with
	trailer http.Header // of the request, complete at the end of its body
	body    io.Closer   // of the site's answer; nil: there is none
	endless bool        // the site's answer doesn't state its length
}

type exchangeKey struct{}

// exchangeOf returns the exchange of a request. A request that pass hasn't made gets a new
// exchange.
func exchangeOf(ctx context.Context) *exchange {
	if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return e
	}
	return new(exchange)
}

// end closes what is still open. To close it twice does nothing.
func (e *exchange) end() {
	if e.body != nil {
		e.body.Close()
	}
}

// A sender is the Transport of the ReverseProxy.
type sender struct {
	polite http.RoundTripper
	hall   *hall
	hold   time.Duration // longest wait of a request, one that is refused included
}

var (
	// errStatus is an answer that is none of HTTP (RFC 9110, section 15).
	errStatus = errors.New("the site's response has a status below 100")
	// errUpgrade is an answer of 101 that the request hasn't asked for.
	errUpgrade = errors.New("the site has switched to another protocol than was asked for")
)

// RoundTrip implements http.RoundTripper.
func (s *sender) RoundTrip(req *http.Request) (*http.Response, error) {
	e := exchangeOf(req.Context())
	e.host = politeness.ByHost(req)
	e.request = requestOf(req)
	if goesRound(req.Header) {
		return nil, errLoop
	}
	if !s.hall.enter(e.host) {
		return nil, errFull
	}
	defer s.hall.leave(e.host)
	e.ticket = s.hall.take(e.request)
	arrived := time.Now()
	// Those who have been refused before go first, or they would never have their turn.
	ctx := hostlimit.WithPriority(req.Context(), e.ticket.refused)
	resp, err := s.polite.RoundTrip(req.WithContext(ctx))
	if err != nil {
		s.holdBack(req, err, arrived)
		return nil, err
	}
	e.body = resp.Body
	e.answer.say(resp.StatusCode, wordsOf(resp))
	if err := odd(req, resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// mostTries is how often most programs try, at most. A turn that is further away than so many waits
// is no use to them.
const mostTries = 5

// holdBack waits with a refusal until the request has waited for as long as any other. Many
// programs don't read Retry-After: they would use up their tries at once, and lose a page that has
// its turn soon. If no try would help, a browser gets the refusal immediately, because a person may
// be looking.
func (s *sender) holdBack(req *http.Request, err error, arrived time.Time) {
	again, ok := comesBack(err)
	isBrowser := req.Header.Get("Sec-Fetch-Mode") == "navigate" // or has its headers, as crawlee has
	isFar := again.Sub(arrived) > mostTries*s.hold
	isUpgrade := req.Header.Get("Upgrade") != ""
	if !ok || isUpgrade || isBrowser && isFar {
		return
	}
	timer := time.NewTimer(s.hold - time.Since(arrived))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-req.Context().Done():
	}
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
