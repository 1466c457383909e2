package politeness

import (
	"errors"
	"net/http"

	"github.com/go-politeness/politeness/internal/problems"
	"github.com/go-politeness/politeness/internal/weburl"
)

// Over returns an http.RoundTripper that is t, except that base sends the requests instead of
// Config.Base. Limits, robots.txt, budget and evidence are those of t. Use it in a program that
// makes a transport for each request, target, proxy or worker. Make one Transport for the program,
// and call Over with each of these:
//
//	client := &http.Client{Transport: t.Over(&http.Transport{Proxy: http.ProxyURL(proxy)})}
//
// All of them may be used at the same time. If Config.RobotsBase is set, it fetches every
// robots.txt. Otherwise a robots.txt that t doesn't know yet is fetched by the base of the first
// request that needs it. Transport.Check, Filter and Sitemaps use Config.Base. CloseIdleConnections
// is passed on to base.
//
// If base is nil, http.DefaultTransport is used, as for Config.Base. base must not be a nil
// pointer, a Transport, or a wrapper of a Transport (see Config.Base). If it is, nothing is sent,
// and each request returns an *Error of StageRequest.
func (t *Transport) Over(base http.RoundTripper) http.RoundTripper {
	found := problems.List{Prefix: "politeness: "}
	// A nil pointer in an interface isn't nil, and would panic at each request.
	base = problems.OrNil("Over: base", base, &found)
	found.Add("Over: base", checkBase(base))
	return &over{t: t, base: base, wrong: found.Err()}
}

// over is a Transport with another base.
type over struct {
	t     *Transport
	base  http.RoundTripper // nil: http.DefaultTransport
	wrong error             // of base; nil: it may be used
}

// RoundTrip implements http.RoundTripper.
func (o *over) RoundTrip(req *http.Request) (*http.Response, error) {
	return o.t.roundTrip(req, o)
}

// usable returns the error of a request by o; nil: o may send it. o may be nil.
func (o *over) usable() error {
	if o == nil {
		return nil
	}
	return o.wrong
}

// CloseIdleConnections implements the optional interface of http.Client.
func (o *over) CloseIdleConnections() { closeIdle(baseOf(o.t, o)) }

// A fetchOver is a key of the context of a fetch of robots.txt: the value is the *over by which the
// request that started the fetch was sent.
type fetchOver struct{}

// baseOf returns the transport that sends the requests of t, or of o unless that is nil.
func baseOf(t *Transport, o *over) http.RoundTripper {
	base := t.cfg.Base
	if o != nil {
		base = o.base
	}
	if base == nil {
		return t.defaultBase()
	}
	return base
}

// closeIdle closes the idle connections of base, if it has a method for that.
func closeIdle(base http.RoundTripper) {
	if b, ok := base.(interface{ CloseIdleConnections() }); ok {
		b.CloseIdleConnections()
	}
}

// defaultBase returns http.DefaultTransport, as http.Client does at each request: a test may have
// replaced it since New. A program may also have set it to t. The one of New is returned then.
func (t *Transport) defaultBase() http.RoundTripper {
	base := http.DefaultTransport
	if checkBase(base) != nil {
		return t.firstDefault
	}
	return base
}

// isReturning reports whether req has come back to t from its own base: http.DefaultTransport was
// replaced by a wrapper around t that has no Unwrap, and t has no other base.
func (t *Transport) isReturning(req *http.Request, o *over) bool {
	isDefault := t.cfg.Base == nil
	if o != nil {
		isDefault = o.base == nil
	}
	if !isDefault {
		return false
	}
	// Nearly always nothing has replaced it, and the request's context needn't be searched.
	if _, ok := http.DefaultTransport.(*http.Transport); ok {
		return false
	}
	sending, ok := req.Context().Value((*sendContext)(nil)).(*sendContext)
	if !ok || req.URL == nil {
		return false
	}
	s := sending.turn.subject
	// Base may as well ask for another URL on behalf of the request, such as that of a token.
	return s.tally == &t.tally && weburl.Hash(s.target) == weburl.Hash(req.URL)
}

// errPoliteBase: the base is a Transport, or leads to one.
var errPoliteBase = errors.New("is a *politeness.Transport itself, or http.DefaultTransport is, " +
	"so each page would wait twice for its host. Use a transport that sends requests, such as an *http.Transport")

// checkBase refuses a Transport over a Transport.
func checkBase(base http.RoundTripper) error {
	for {
		switch b := base.(type) {
		case *http.Transport:
			return nil // nearly always
		case *Transport, *over:
			return errPoliteBase
		case interface{ Unwrap() http.RoundTripper }:
			base = b.Unwrap()
		default:
			return nil
		}
	}
}
