package politenesstest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"time"
)

// A pool holds the connections to one site, as an [http.Transport] keeps them: a connection is
// used again once the body before was read to its end, a request without one dials, and takes
// whatever connection is free first. Its fields are guarded by web.mu.
type pool struct {
	dial    time.Duration // what a new connection takes
	idle    []conn        // free connections, the last one used last
	dials   []time.Time   // when the connections that are being dialed are there; one for each waiter at least
	waiters []chan conn   // requests that wait for a connection, first come first
}

// A conn is a connection that a request is sent over.
type conn struct {
	reused bool // a request was sent over it before
	lost   bool // the site has closed it, and the client doesn't know yet
}

// Dial makes each new connection to the site take d: the name, the connection and its TLS. A
// request waits for it unless a connection is free, and reaches the site after it: that is its
// Request.Start. A site that is down refuses after d. Without Dial, connections take no time.
//
// Connections are kept and used again as http.Transport does, without a bound on how many. The
// hooks GetConn, ConnectStart, ConnectDone, GotConn, WroteRequest and GotFirstResponseByte of a
// request's [httptrace.ClientTrace] are called as there. A request whose context is done before
// GotConn returns never reaches the site and isn't recorded.
func (s *Site) Dial(d time.Duration) *Site {
	return s.set(func() { s.pool.dial = max(d, 0) })
}

// HangUp makes the site close the connections that are free at the moment, as servers do with
// idle ones. The client finds out when it sends the next request over one: that request is
// recorded as failed, and sent again over another connection, as http.Transport does if it may
// be repeated.
func (s *Site) HangUp() *Site {
	return s.set(func() {
		for i := range s.pool.idle {
			s.pool.idle[i].lost = true
		}
	})
}

// connect returns a connection for a request to s, once there is one.
func (s *Site) connect(ctx context.Context, address string, trace *httptrace.ClientTrace) (conn, error) {
	s.web.mu.Lock()
	p := &s.pool
	if c, ok := p.take(); ok {
		s.web.mu.Unlock()
		return c, nil
	}
	given := make(chan conn, 1)
	p.waiters = append(p.waiters, given)
	p.dials = append(p.dials, time.Now().Add(p.dial))
	s.web.mu.Unlock()

	if trace.ConnectStart != nil {
		trace.ConnectStart("tcp", address)
	}
	c, err := s.await(ctx, given)
	if trace.ConnectDone != nil && !c.reused {
		trace.ConnectDone("tcp", address, err)
	}
	return c, err
}

// take returns a connection that is free: the one that was used last, or one that was dialed
// for a request that took another.
func (p *pool) take() (conn, bool) {
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c, true
	}
	if len(p.dials) == len(p.waiters) {
		return conn{}, false // whatever is being dialed is waited for
	}
	i := p.first()
	if p.dials[i].After(time.Now()) {
		return conn{}, false
	}
	p.dials = slices.Delete(p.dials, i, i+1)
	return conn{reused: true}, true // as http.Transport says of all that lay idle
}

// first is the dial that is over first, of at least one.
func (p *pool) first() int {
	first := 0
	for i, at := range p.dials {
		if at.Before(p.dials[first]) {
			first = i
		}
	}
	return first
}

// await waits until a connection is given or the next dial is over.
func (s *Site) await(ctx context.Context, given chan conn) (conn, error) {
	for {
		c, left, err := s.look(given)
		if left == 0 {
			return c, err
		}
		timer := time.NewTimer(left)
		select {
		case c := <-given:
			timer.Stop()
			return c, nil
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return conn{}, s.stopWaiting(given, context.Cause(ctx))
		}
	}
}

// look returns a connection if there is one, and otherwise how long the next dial takes.
func (s *Site) look(given chan conn) (c conn, left time.Duration, err error) {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	p := &s.pool
	select {
	case c := <-given:
		return c, 0, nil
	default:
	}
	i := p.first()
	if left := time.Until(p.dials[i]); left > 0 {
		return conn{}, left, nil
	}
	p.dials = slices.Delete(p.dials, i, i+1)
	p.forget(given)
	return conn{}, 0, s.down
}

// stopWaiting leaves the dial to others: it goes on, and whoever comes next may have its
// connection.
func (s *Site) stopWaiting(given chan conn, cause error) error {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	s.pool.forget(given)
	select {
	case c := <-given:
		s.pool.put(c)
	default:
	}
	return cause
}

func (p *pool) forget(given chan conn) {
	if i := slices.Index(p.waiters, given); i >= 0 {
		p.waiters = slices.Delete(p.waiters, i, i+1)
	}
}

// put gives a free connection to the first that waits for one, or keeps it.
func (p *pool) put(c conn) {
	if len(p.waiters) > 0 {
		p.waiters[0] <- c // buffered, and taken out of the line, so this never blocks
		p.waiters = slices.Delete(p.waiters, 0, 1)
		return
	}
	p.idle = append(p.idle, c)
}

// repeatable reports whether http.Transport sends req again by itself when its connection
// turns out to be lost.
func repeatable(req *http.Request) bool {
	if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return false
	}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	_, key := req.Header["Idempotency-Key"]
	_, xKey := req.Header["X-Idempotency-Key"]
	return key || xKey
}

// connect returns a connection for req, as an http.Transport does, whose hooks it calls. A nil
// site is one that DNS doesn't know.
func (w *Web) connect(req *http.Request, site *Site) (conn, error) {
	ctx := req.Context()
	trace, address := traceOf(ctx), addressOf(req.URL)
	if trace.GetConn != nil {
		trace.GetConn(address)
	}
	if site == nil {
		return conn{}, noSuchHost(req.URL)
	}
	c, err := site.connect(ctx, address, trace)
	if err != nil {
		return conn{}, err
	}
	if trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Reused: c.reused, WasIdle: c.reused})
	}
	if ctx.Err() != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		site.pool.put(c)
		return conn{}, context.Cause(ctx)
	}
	return c, nil
}

// traceOf returns the hooks of ctx, none if it has none.
func traceOf(ctx context.Context) *httptrace.ClientTrace {
	if trace := httptrace.ContextClientTrace(ctx); trace != nil {
		return trace
	}
	return new(httptrace.ClientTrace)
}

// addressOf is what a connection for u is dialed by.
func addressOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
