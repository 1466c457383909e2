package politenesstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// A Web is a set of fake sites and the record of all requests to them. It is the
// [http.RoundTripper] to test with. Pass it as Base to politeness.New, or to an http.Client. It is
// safe for concurrent use, and needs no closing.
type Web struct {
	mu    sync.Mutex // never held across a wait
	sites map[string]*Site
	log   []*exchange // in order of their starts
	open  map[*exchange]struct{}
	now   instant

	robotsAt map[string]struct{} // URLs that a robots.txt was redirected to
}

// An instant numbers what happens, so that things at the same time keep their order. The zero
// instant stands for never.
type instant int64

// NewWeb returns a web without sites. Call it at the start of a test, and add sites with Web.Site.
func NewWeb() *Web {
	return &Web{
		sites:    make(map[string]*Site),
		open:     make(map[*exchange]struct{}),
		robotsAt: make(map[string]struct{}),
	}
}

// Site returns the site of an origin such as "https://example.com" or
// "http://example.com:8080", and makes it if there is none. It panics if origin
// has no host, another scheme than http and https, or a path.
//
// If an origin isn't in the web, requests to it fail with a [net.DNSError], as for an unknown name.
func (w *Web) Site(origin string) *Site {
	u, err := url.Parse(origin)
	if err != nil || !isOrigin(u) {
		panic(fmt.Sprintf("politenesstest: %q is not an origin, such as https://example.com", origin))
	}
	key := originOf(u)
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sites[key]
	if s == nil {
		s = &Site{
			web:       w,
			origin:    key,
			handlers:  make(map[string]http.Handler),
			sequences: make(map[string]http.Handler),
		}
		w.sites[key] = s
	}
	return s
}

// isOrigin reports whether u is a scheme of the web, a host and nothing more.
func isOrigin(u *url.URL) bool {
	more := strings.Trim(u.Path, "/") + u.RawQuery + u.Fragment
	return isWeb(u) && u.Host != "" && more == ""
}

// isWeb reports whether u is a URL of the web.
func isWeb(u *url.URL) bool { return u.Scheme == "http" || u.Scheme == "https" }

// RoundTrip implements [http.RoundTripper].
func (w *Web) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close() // read whole below, so done with on every return
	}
	if err := valid(req); err != nil {
		return nil, err
	}
	ctx := req.Context()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	site := w.find(req.URL)
	for {
		c, failure := w.connect(req, site)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx) // nothing reached the site
		}
		x := w.start(req, site, c)
		resp, err := x.run(failure)
		if err == nil {
			return resp, nil
		}
		x.end(err)
		if !c.lost || !repeatable(req) {
			return nil, err
		}
	}
}

// find returns the site that u leads to, nil if the web has none for it.
func (w *Web) find(u *url.URL) *Site {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sites[originOf(u)]
}

// valid returns the error that an http.Transport has for a malformed request.
func valid(req *http.Request) error {
	switch {
	case req.URL == nil:
		return errors.New("http: nil Request.URL")
	case req.Header == nil:
		return errors.New("http: nil Request.Header")
	case !isWeb(req.URL):
		return fmt.Errorf("unsupported protocol scheme %q", req.URL.Scheme)
	case req.Method != "" && !httpguts.ValidHeaderFieldName(req.Method):
		return fmt.Errorf("net/http: invalid method %q", req.Method)
	case req.URL.Host == "":
		return errors.New("http: no Host in request URL")
	}
	for name, values := range req.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("net/http: invalid header field name %q", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("net/http: invalid header field value for %q", name)
			}
		}
	}
	return nil
}

// start records that req goes out to site over c now. The site is nil if the web has none for it.
func (w *Web) start(req *http.Request, site *Site, c conn) *exchange {
	u := *req.URL
	x := &exchange{web: w, site: site, conn: c, req: req, url: &u, host: req.Host, origin: originOf(&u)}
	header := req.Header.Clone()
	_, named := header["User-Agent"]
	if !named {
		header.Set("User-Agent", "Go-http-client/1.1") // as http.Transport sends it
	}
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// A client that cancels a request may start the next one at the same instant,
	// before the end of the first has been noted.
	for o := range w.open {
		ctx := o.req.Context()
		if ctx.Err() != nil {
			o.endLocked(context.Cause(ctx))
		}
	}
	x.record = Request{
		Seq:    len(w.log) + 1,
		Start:  time.Now(),
		Method: method,
		URL:    req.URL.String(),
		Header: header,
	}
	x.started = w.tick()
	_, redirected := w.robotsAt[targetOf(x.url)]
	x.isRobots = redirected || req.URL.EscapedPath() == robotsPath
	x.stop = context.AfterFunc(req.Context(), func() { x.end(context.Cause(req.Context())) })
	w.log = append(w.log, x)
	w.open[x] = struct{}{}
	return x
}

func (w *Web) tick() instant {
	w.now++
	return w.now
}

// A Request is the record of one request that came to a [Web].
type Request struct {
	// Seq is its number in the order of starts, from 1.
	Seq int
	// Start is when the request was sent, after GotConn had returned. If there was no connection,
	// Start is when the connection failed.
	Start time.Time
	// Answered is when the response's headers were handed over. It is zero before, and if the
	// request failed.
	Answered time.Time
	// End is when its body was at its end or closed, or the request failed. It is zero while open.
	End time.Time

	Method string
	URL    string
	Header http.Header // as sent, by default Go-http-client/1.1

	Status   int         // zero without a response
	Response http.Header // the response's, nil without a response
	Bytes    int64       // bytes of the response's body, as read
	Err      error       // why it failed, in RoundTrip or in the body

	at time.Duration // of Start, since the first request
}

// String names r by its number, method, URL, and its time since the web's first request.
func (r Request) String() string {
	return fmt.Sprintf("request %d (%s %s at %v)", r.Seq, r.Method, r.URL, r.at)
}

// Requests returns the records of all requests so far, in the order of their starts. Those that
// were malformed or cancelled before they began are left out. Use it to check the order and the
// headers of requests.
func (w *Web) Requests() []Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]Request, len(w.log))
	for i, x := range w.log {
		all[i] = x.snapshot()
	}
	return all
}

// snapshot returns a copy of x's record that the caller may keep and change.
func (x *exchange) snapshot() Request {
	r := x.record
	r.Header = r.Header.Clone()
	r.Response = r.Response.Clone()
	r.at = r.Start.Sub(x.web.log[0].record.Start)
	return r
}

// noSuchHost is the error of a dial to a name that isn't in the DNS.
func noSuchHost(u *url.URL) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
		Err: "no such host", Name: u.Hostname(), IsNotFound: true,
	}}
}

// readAll reads the whole request body, which must be as long as it was announced.
func readAll(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	announced := req.ContentLength
	if announced > 0 && announced != int64(len(body)) {
		return nil, fmt.Errorf("http: ContentLength=%d with Body length %d", announced, len(body))
	}
	return body, nil
}

// sleep waits for d, or returns the cause of ctx's end.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
