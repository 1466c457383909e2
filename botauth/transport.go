package botauth

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/go-politeness/politeness/internal/conntrace"
	"github.com/go-politeness/politeness/internal/hostname"
)

// SignedContextKey is a context key. If the context of a request has a func(keyID string) under it,
// that is called for each signature of the request, before the request is sent. politeness records
// signatures by it.
var SignedContextKey = &contextKey{"signed"}

type contextKey struct{ name string }

func (k *contextKey) String() string { return "botauth context value " + k.name }

// maxOrigins is the largest number of origins whose demands a transport remembers.
const maxOrigins = 1024

// A transport signs what it sends.
type transport struct {
	signer *Signer
	base   http.RoundTripper

	mu      sync.Mutex
	demands map[string]*demand // by authority, what Accept-Signature has asked for; at most maxOrigins
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	signed := len(req.Header["Signature-Input"]) > 0
	if signed || req.Header == nil || req.URL == nil || req.URL.Scheme != "https" {
		return t.base.RoundTrip(req)
	}
	d := t.demandOf(req)
	resp, err := t.send(req, d)
	if err != nil {
		return nil, err
	}
	next, ok := t.signer.accept(resp, req, d)
	if !ok {
		return resp, nil
	}
	if next.nonce == "" { // which is for one request alone
		t.remember(req, &next)
	}
	if resp.StatusCode == http.StatusTooManyRequests { // it isn't sent again into a limit
		return resp, nil
	}
	again, ok := replay(req)
	if !ok {
		return resp, nil
	}
	// The response that asks is dropped: the caller gets the response to the request as it was
	// wanted.
	resp.Body.Close()
	resp, err = t.send(again, &next)
	if resp != nil && resp.Request == again {
		resp.Request = req
	}
	return resp, err
}

// Unwrap returns the transport that is wrapped.
func (t *transport) Unwrap() http.RoundTripper { return t.base }

// CloseIdleConnections closes those of the transport that is wrapped.
func (t *transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// demandOf returns the form of a signature of req: the one that its origin has asked for, or the
// Signer's own.
func (t *transport) demandOf(req *http.Request) *demand {
	t.mu.Lock()
	d := t.demands[authority(req.URL.Host)]
	t.mu.Unlock()
	// A request that lacks a field which the site wants covered can't be signed that way.
	if d != nil && has(req, d) {
		return d
	}
	standard := t.signer.standard()
	return &standard
}

// remember keeps what the origin of req asks for, in the place of any other one if there are too
// many: that one asks again.
func (t *transport) remember(req *http.Request, d *demand) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.demands == nil {
		t.demands = make(map[string]*demand)
	}
	if len(t.demands) >= maxOrigins {
		for other := range t.demands {
			delete(t.demands, other)
			break
		}
	}
	t.demands[authority(req.URL.Host)] = d
}

// replay returns req with a body that hasn't been read; ok is false if there can't be one.
func replay(req *http.Request) (again *http.Request, ok bool) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	again = new(*req)
	again.Body = body
	return again, true
}

// send signs a copy of req and sends that.
func (t *transport) send(req *http.Request, d *demand) (*http.Response, error) {
	s := newSending(t.signer, req, d)
	if err := s.sign(); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	resp, err := t.base.RoundTrip(s.req)
	s.close()
	if resp != nil && resp.Request == s.req {
		resp.Request = req
	}
	return resp, err
}

// A sending is a signed request on its way. Its signature is made when the transport below is
// called, and again when the request has its connection, if time has passed since: a dial may take
// long, a limiter may hold the request back with the connection at hand, and a connection that was
// lost is followed by another one.
//
// For that it is the context of the request and has a hook there, GotConn of httptrace. What others
// do in that hook (politeness waits there) comes first. net/http calls it in the goroutine that
// continues to send the request, so that the header, which is a copy of our own, may be written to:
// no other goroutine reads it before the hook has returned, or after an attempt has failed.
type sending struct {
	context.Context // of the caller's request
	hooks           httptrace.ClientTrace
	signer          *Signer
	req             *http.Request // what is sent
	demand          *demand

	mu     sync.Mutex
	made   int64 // second in which the signature was made
	conns  int   // number of connections so far
	closed bool  // whether the transport has returned
}

func newSending(signer *Signer, req *http.Request, d *demand) *sending {
	s := &sending{Context: req.Context(), signer: signer, demand: d}
	s.hooks = conntrace.Hooks(s.Context, nil, s.gotConn)
	s.req = req.WithContext(s)
	// In the one spelling, so that what is signed as @authority is what is sent.
	s.req.URL = hostname.URL(req.URL)
	s.req.Host = hostname.Authority(req.URL.Scheme, req.Host)
	s.req.Header = make(http.Header, len(req.Header)+3)
	maps.Copy(s.req.Header, req.Header)
	return s
}

// sign makes the signature.
func (s *sending) sign() error {
	now := time.Now()
	if err := s.signer.sign(s.req, s.demand, now); err != nil {
		return err
	}
	s.made = now.Unix()
	if signed, ok := s.Context.Value(SignedContextKey).(func(keyID string)); ok {
		signed(s.signer.id)
	}
	return nil
}

// gotConn makes the signature anew if the second in which it was made is over, and for each further
// connection. If the key fails now, the request keeps the signature that it has.
func (s *sending) gotConn(info httptrace.GotConnInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns++
	// A dial may end after its request has: the signature would be for nobody.
	if s.closed || s.Err() != nil {
		return
	}
	// On the first connection a signature of this second is as good as a new one.
	if s.conns == 1 && time.Now().Unix() == s.made {
		return
	}
	_ = s.sign()
}

// close makes later calls of gotConn do nothing: the transport has returned.
func (s *sending) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// Value implements context.Context.
func (s *sending) Value(key any) any {
	if key == conntrace.Key {
		return &s.hooks
	}
	return s.Context.Value(key)
}
