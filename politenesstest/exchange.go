package politenesstest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"time"
)

// An exchange is one request on its way: the record of it, and what ends it.
type exchange struct {
	web    *Web
	site   *Site // nil for an origin that isn't in the web
	conn   conn
	req    *http.Request
	url    *url.URL // of the request, ours
	host   string   // Host of the request
	origin string

	// Under web.mu.
	record                   Request
	started, answered, ended instant
	isRobots                 bool        // whether it asks for a robots.txt, as far as can be known
	robots                   []byte      // the body as read, if isRobots
	whole                    bool        // the body was read to its end
	left                     bool        // the client had given it up when it ended
	keeps                    bool        // the connection can be used again
	stop                     func() bool // no longer wait for the end of the request's context
}

// errHungUp is what a request fails with that is sent over a connection which its site has closed.
var errHungUp = errors.New("politenesstest: the site has closed the idle connection")

// errThrown is what a request fails with whose body, or another function of the client's, panics.
var errThrown = errors.New("politenesstest: the client has panicked")

// maxRobots is how much of a robots.txt is kept, which is as much as crawlers parse.
const maxRobots = 500 << 10

// run sends the request to its site, and returns the response once its headers are there. A
// failure is why there is no connection.
func (x *exchange) run(failure error) (_ *http.Response, err error) {
	err = errThrown
	defer func() {
		if err == errThrown { //nolint:errorlint // our own, unwrapped
			x.end(err)
		}
	}()
	ctx := x.req.Context()
	switch {
	case failure != nil:
		return nil, failure
	case x.conn.lost:
		return nil, errHungUp // the request's body is left for the next connection
	}
	body, err := readAll(x.req)
	trace := traceOf(ctx)
	if trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{Err: err})
	}
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, x.site.currentLatency()); err != nil {
		return nil, err
	}
	handler, err := x.site.handler(x.url)
	if err != nil {
		return nil, err
	}

	// From here on ctx is done when the handler's answer is no longer wanted.
	ctx, cancel := context.WithCancelCause(ctx)
	s := newStream(ctx, x.record.Method)
	go s.serve(handler, serverRequest(ctx, x, body))
	if err := s.awaitHeaders(); err != nil {
		cancel(err)
		return nil, err
	}
	if trace.GotFirstResponseByte != nil {
		trace.GotFirstResponseByte()
	}
	resp := s.response(x.req)
	if resp.ContentLength == 0 || x.record.Method == http.MethodHead {
		cancel(errGone) // without anything to read it isn't closed by the caller
		resp.Body = http.NoBody
		x.answer(resp)
		x.keep()
		x.end(nil)
		return resp, nil
	}
	resp.Body = &responseBody{exchange: x, stream: s, cancel: cancel, left: resp.ContentLength}
	x.answer(resp)
	return resp, nil
}

// serverRequest is x's request as a server's handler sees it.
func serverRequest(ctx context.Context, x *exchange, body []byte) *http.Request {
	u := x.url
	r := (&http.Request{
		Method:        x.record.Method,
		URL:           &url.URL{Path: u.Path, RawPath: u.RawPath, ForceQuery: u.ForceQuery, RawQuery: u.RawQuery},
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        x.record.Header.Clone(),
		Body:          http.NoBody,
		ContentLength: int64(len(body)),
		Host:          x.host,
		RemoteAddr:    "192.0.2.1:1234", // TEST-NET-1, as in net/http/httptest
		RequestURI:    u.RequestURI(),
	}).WithContext(ctx)
	if r.URL.Path == "" {
		r.URL.Path = "/"
	}
	if r.Host == "" {
		r.Host = u.Host
	}
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if u.Scheme == "https" {
		r.TLS = tlsState(u)
	}
	return r
}

// response is the response to req at the moment its headers are handed over.
func (s *stream) response(req *http.Request) *http.Response {
	resp := &http.Response{
		Status:        fmt.Sprintf("%d %s", s.status, http.StatusText(s.status)),
		StatusCode:    s.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        s.sent,
		ContentLength: -1,
		Request:       req,
	}
	length, err := strconv.ParseInt(s.sent.Get("Content-Length"), 10, 64)
	switch {
	case s.method != http.MethodHead && !bodyAllowedFor(s.status):
		resp.ContentLength = 0
	case err == nil:
		resp.ContentLength = length
	case s.method != http.MethodHead:
		resp.TransferEncoding = []string{"chunked"}
	}
	if req.URL.Scheme == "https" {
		resp.TLS = tlsState(req.URL)
	}
	return resp
}

// tlsState is the state of a connection to the host of u.
func tlsState(u *url.URL) *tls.ConnectionState {
	return &tls.ConnectionState{
		Version:           tls.VersionTLS13,
		HandshakeComplete: true,
		ServerName:        u.Hostname(),
	}
}

// answer records that the response's headers are handed over now.
func (x *exchange) answer(resp *http.Response) {
	x.web.mu.Lock()
	defer x.web.mu.Unlock()
	x.record.Answered = time.Now()
	x.record.Status = resp.StatusCode
	x.record.Response = resp.Header.Clone()
	x.answered = x.web.tick()
	if x.isRobots {
		location := x.location()
		if location != "" {
			x.web.robotsAt[location] = struct{}{}
		}
	}
}

// end records that the exchange is over now, and why if it failed. Only the first end counts.
func (x *exchange) end(err error) {
	x.web.mu.Lock()
	defer x.web.mu.Unlock()
	x.endLocked(err)
}

func (x *exchange) endLocked(err error) {
	if x.ended != 0 {
		return
	}
	x.stop()
	x.left = x.req.Context().Err() != nil
	x.record.End = time.Now()
	x.record.Err = err
	x.ended = x.web.tick()
	delete(x.web.open, x)
	if x.keeps {
		x.site.pool.put(conn{reused: true})
	}
}

// keep records that the connection is free for others once the exchange is over.
func (x *exchange) keep() {
	x.web.mu.Lock()
	defer x.web.mu.Unlock()
	x.keeps = true
}

// readWhole records that the response's body was read to its end.
func (x *exchange) readWhole() {
	x.web.mu.Lock()
	defer x.web.mu.Unlock()
	x.whole = true
	x.keeps = true
}

// read records that p of the response's body was read.
func (x *exchange) read(p []byte) {
	x.web.mu.Lock()
	defer x.web.mu.Unlock()
	x.record.Bytes += int64(len(p))
	if x.isRobots {
		x.robots = append(x.robots, p[:min(len(p), maxRobots-len(x.robots))]...)
	}
}
