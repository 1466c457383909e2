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
// used again once the body before was read to its end. A request without one dials, and takes
// whichever is there first: its own, one that becomes free, or one that was dialed for a request
// that took another. Its fields are guarded by web.mu.
type pool struct {
	dial    time.Duration // what a new connection takes
	idle    []conn        // free connections, the last one used last
	waiters []*dialing    // requests that wait for a connection, first come first
	// orphans are when the connections are there that were dialed for requests that took another, in
	// that order.
	orphans []time.Time
}

// A dialing is a request that waits for a connection.
type dialing struct {
	at    time.Time // when its own connection is there
	given chan conn // another one, that has become free
}

// A conn is a connection that a request is sent over.
type conn struct {
	reused bool // a request was sent over it before
	lost   bool // the site has closed it, and the client doesn't know yet
}

// Dial makes each new connection to the site take d. This time stands for the DNS, the connection
// and TLS. If no connection is free, a request waits for a new one. Request.Start is the time at
// which the request reaches the site after that wait. If the site is down, it refuses after d.
// Without Dial, connections take no time.
//
// Connections are kept and used again as in an http.Transport, without a bound on their number. Of
// a request's [httptrace.ClientTrace], these hooks are called as in an http.Transport: GetConn,
// ConnectStart, ConnectDone, GotConn, WroteRequest and GotFirstResponseByte. A request whose
// context is done before GotConn returns never reaches the site and isn't recorded.
func (s *Site) Dial(d time.Duration) *Site {
	return s.set(func() { s.pool.dial = max(d, 0) })
}

// HangUp makes the site close the connections that are free at the moment, as servers do with idle
// ones. The client finds out when it sends the next request over one. That request is recorded as
// failed, and sent again over another connection, as http.Transport does if it may be repeated.
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
	d := &dialing{at: time.Now().Add(p.dial), given: make(chan conn, 1)}
	p.waiters = append(p.waiters, d)
	s.web.mu.Unlock()

	if trace.ConnectStart != nil {
		trace.ConnectStart("tcp", address)
	}
	c, err := s.await(ctx, d)
	if trace.ConnectDone != nil && !c.reused {
		trace.ConnectDone("tcp", address, err)
	}
	return c, err
}

// take returns a connection that is free: the one that was used last, or an orphan.
func (p *pool) take() (conn, bool) {
	last := len(p.idle) - 1
	if last >= 0 {
		c := p.idle[last]
		p.idle = p.idle[:last]
		return c, true
	}
	if len(p.orphans) > 0 && !p.orphans[0].After(time.Now()) {
		p.orphans = p.orphans[1:]
		return conn{reused: true}, true // as http.Transport says of all that lay idle
	}
	return conn{}, false
}

// await waits until d's connection is there, or another one.
func (s *Site) await(ctx context.Context, d *dialing) (conn, error) {
	for {
		c, left, err := s.look(d)
		if left == 0 {
			return c, err
		}
		timer := time.NewTimer(left)
		select {
		case c := <-d.given:
			timer.Stop()
			return c, nil
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return conn{}, s.leave(d, context.Cause(ctx))
		}
	}
}

// look returns a connection if there is one, and otherwise how long to wait for the next.
func (s *Site) look(d *dialing) (c conn, left time.Duration, err error) {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	p := &s.pool
	select {
	case c := <-d.given:
		return c, 0, nil
	default:
	}
	left = time.Until(d.at)
	if left <= 0 {
		p.forget(d)
		return conn{}, 0, s.down
	}
	for _, at := range p.orphans {
		next := time.Until(at)
		switch {
		case next > 0:
			return conn{}, min(left, next), nil
		case p.waiters[0] == d:
			c, _ := p.take()
			p.orphan(d)
			return c, 0, nil
		}
	}
	return conn{}, left, nil
}

// leave takes d out of the line, and leaves its connection to others.
func (s *Site) leave(d *dialing, cause error) error {
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	select {
	case c := <-d.given: // its own is an orphan already
		s.pool.put(c)
	default:
		s.pool.orphan(d)
	}
	return cause
}

// orphan takes d out of the line; the connection that is dialed for it goes to the next request.
func (p *pool) orphan(d *dialing) {
	p.forget(d)
	i, _ := slices.BinarySearchFunc(p.orphans, d.at, time.Time.Compare)
	p.orphans = slices.Insert(p.orphans, i, d.at)
}

func (p *pool) forget(d *dialing) {
	i := slices.Index(p.waiters, d)
	if i >= 0 {
		p.waiters = slices.Delete(p.waiters, i, i+1)
	}
}

// put gives a free connection to the first that waits for one, or keeps it.
func (p *pool) put(c conn) {
	if len(p.waiters) == 0 {
		p.idle = append(p.idle, c)
		return
	}
	first := p.waiters[0]
	first.given <- c // buffered, and given only once, so this never blocks
	p.orphan(first)
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
	trace := traceOf(ctx)
	address := addressOf(req.URL)
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
	trace := httptrace.ContextClientTrace(ctx)
	if trace == nil {
		trace = new(httptrace.ClientTrace)
	}
	return trace
}

// addressOf is what a connection for u is dialed by.
func addressOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
