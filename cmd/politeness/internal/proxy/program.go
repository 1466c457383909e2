package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// A program is one connection of a program to the proxy, or one of its tunnels. All its requests
// come from the same program.
type program struct {
	conn net.Conn // of the server

	mu  sync.Mutex
	own *http.Transport // sends its requests, once one of them logs in a connection; nil: none has
}

// programs are the program of each connection.
type programs struct{ of sync.Map }

type programKey struct{}

// with is a ConnContext of an http.Server.
func (p *programs) with(ctx context.Context, c net.Conn) context.Context {
	joined := &program{conn: c}
	p.of.Store(c, joined)
	return context.WithValue(ctx, programKey{}, joined)
}

// state is a ConnState of an http.Server: what a program has logged in ends with its connection.
func (p *programs) state(c net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	if left, ok := p.of.LoadAndDelete(c); ok {
		left.(*program).leave() //nolint:forcetypeassert // with stores nothing else
	}
}

// sends returns the transport that sends req: shared, or one of the program's own.
func (p *program) sends(req *http.Request, shared *http.Transport) *http.Transport {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own == nil && logsInConnection(req.Header) {
		p.own = shared.Clone()
		// A login of a connection is one of HTTP/1.1: HTTP/2 has many requests on one.
		p.own.ForceAttemptHTTP2 = false
		p.own.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		if config := p.own.TLSClientConfig; config != nil {
			config.NextProtos = nil // Clone has that of a transport for HTTP/2, and sites would speak it
		}
		p.own.Protocols = nil
	}
	if p.own != nil {
		return p.own
	}
	return shared
}

func (p *program) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own != nil {
		p.own.CloseIdleConnections()
	}
}

// requestSchemes are those that authenticate a request. NTLM and Negotiate authenticate the
// connection that the request comes by, and so may any scheme that isn't known here.
var requestSchemes = []string{"basic", "bearer", "digest"}

// logsInConnection reports whether a request with header h may authenticate its connection to the
// site: a later request on that connection gets the pages of the user who has logged in.
func logsInConnection(h http.Header) bool {
	return slices.ContainsFunc(h["Authorization"], authenticatesConnection)
}

// authenticatesConnection reports whether the value of an Authorization or WWW-Authenticate field
// begins with a scheme that may be one of connections.
func authenticatesConnection(value string) bool {
	scheme, _, _ := strings.Cut(strings.TrimSpace(value), " ")
	return !slices.Contains(requestSchemes, strings.ToLower(scheme))
}

// ByProgram returns a transport over shared that keeps logins apart: a connection to a site that a
// program may have logged in, as with NTLM or Negotiate, sends requests of that program alone. Use
// it below the Transport of a Proxy. A request of a program that isn't known closes the connection
// that it may have logged in.
func ByProgram(shared *http.Transport) http.RoundTripper { return &byProgram{shared} }

type byProgram struct{ shared *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b *byProgram) RoundTrip(req *http.Request) (*http.Response, error) {
	if joined, ok := req.Context().Value(programKey{}).(*program); ok {
		return send(joined.sends(req, b.shared), req)
	}
	if !logsInConnection(req.Header) {
		return send(b.shared, req)
	}
	alone := *req
	alone.Close = true
	return send(b.shared, &alone)
}

// CloseIdleConnections closes those that nobody has logged in.
func (b *byProgram) CloseIdleConnections() { b.shared.CloseIdleConnections() }
