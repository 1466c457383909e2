package proxy

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// Programs send paths such as "/50%-off", which browsers and curl send too. The server of net/http
// answers 400 to them before any handler runs, and others it doesn't keep as they came: "/a|b". So
// a requestConn wraps such a path up before the server reads it, and unwrap undoes that.

// A wrapping marks the targets that are wrapped up. It is random, so that no program can write it.
type wrapping string

func newWrapping() wrapping { return wrapping("/" + rand.Text() + "/") }

// wrap returns a target as the server of net/http reads it. A target that it would pass on as it
// stands, or that it refuses for more than its path, isn't wrapped up.
func (w wrapping) wrap(target string) string {
	origin := ""
	path := target
	if scheme, rest, ok := strings.Cut(target, "://"); ok && !strings.Contains(scheme, "/") {
		slash := strings.IndexByte(rest, '/')
		if slash < 0 {
			return target
		}
		origin = target[:len(target)-len(rest)+slash]
		path = rest[slash:]
	}
	isControl := func(r rune) bool { return r <= ' ' || r == 0x7f }
	if isPlain(path) || !strings.HasPrefix(path, "/") || strings.ContainsFunc(path, isControl) {
		return target
	}
	read, err := url.ParseRequestURI(path)
	if err == nil && read.RequestURI() == path {
		return target
	}
	return origin + string(w) + url.PathEscape(path)
}

// isPlain reports whether a path is one of those that most programs send, which pass as they are.
func isPlain(path string) bool {
	for i := range len(path) {
		b := path[i]
		isLetter := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
		if !isLetter && strings.IndexByte("/-_.~", b) < 0 {
			return false
		}
	}
	return true
}

// unwrap gives r the target that the program has sent.
func (w wrapping) unwrap(r *http.Request) {
	target, ok := strings.CutPrefix(r.URL.Path, string(w))
	if !ok {
		return
	}
	path, query, hasQuery := strings.Cut(target, "?")
	to := *r.URL
	to.Path = path
	to.RawPath = ""
	to.RawQuery = query
	to.ForceQuery = hasQuery && query == ""
	if !strings.HasPrefix(path, "//") { // which Opaque would make a host
		to.Opaque = path
	}
	r.URL = &to
	r.RequestURI = strings.Replace(r.RequestURI, string(w)+url.PathEscape(target), target, 1)
}

// A requestConn is a connection of a server of net/http. It wraps up the targets of its requests.
// The server says where a request ends, by its ConnState, so nothing but the first line after that
// is ever changed.
type requestConn struct {
	net.Conn
	wraps wrapping

	answering atomic.Bool                // a handler has begun the answer
	says      atomic.Pointer[statusLine] // of the answer that comes next; nil: the usual words

	part  part   // of the request that is read next
	size  int    // bytes of that part so far
	line  []byte // the target and what follows it in its line, as far as it has come
	ahead []byte // was read of the connection
	ready []byte // is for the server, before anything else
}

// A part of a request.
type part uint8

const (
	inMethod part = iota
	inTarget
	inHeader
	inBody // or behind it: as it comes
)

// maxMethod is the length of the longest method in front of a target that is looked at.
const maxMethod = 32

// Read implements net.Conn. It returns the bytes of one head at most, so that the server holds none
// of the next request when it begins with that.
func (c *requestConn) Read(p []byte) (int, error) {
	for len(c.ready) == 0 {
		if len(c.ahead) == 0 {
			n, err := c.Conn.Read(p)
			c.lacksTLS(err)
			if n == 0 || c.part == inBody || c.isWhole(p[:n]) {
				return n, err
			}
			c.ahead = append(c.ahead, p[:n]...)
		}
		if c.part == inBody {
			// No more than is asked for: the rest may be the next request.
			n := copy(p, c.ahead)
			c.ahead = c.ahead[n:]
			return n, nil
		}
		c.step()
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	if len(c.ready) == 0 {
		c.ready = nil
	}
	return n, nil
}

// lacksTLS answers a program that speaks no TLS to a port that does, if err says so.
func (c *requestConn) lacksTLS(err error) {
	var record tls.RecordHeaderError
	if !errors.As(err, &record) || record.Conn == nil || c.part != inMethod {
		return
	}
	const reason = "this proxy speaks TLS: set http_proxy=https://HOST:PORT, and https_proxy too"
	_, _ = fmt.Fprintf(record.Conn, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n"+
		"Proxy-Status: %s; error=http_request_error; details=%s\r\nContent-Length: %d\r\n\r\n%s\n",
		self, quote(reason), len(reason)+1, reason)
}

// isWhole reports whether text is the head of a request, and nothing else, which passes as it is.
// Most are, and needn't be read byte by byte.
func (c *requestConn) isWhole(text []byte) bool {
	isStart := c.part == inMethod && c.size == 0 && 'A' <= text[0] && text[0] <= 'Z'
	if !isStart {
		return false
	}
	const end = "\n\r\n"
	isOne := bytes.Index(text, []byte(end)) == len(text)-len(end) && !bytes.Contains(text, []byte("\n\n"))
	line, _, _ := bytes.Cut(text, []byte("\n"))
	method, rest, isLine := bytes.Cut(line, []byte(" "))
	target, _, hasVersion := bytes.Cut(rest, []byte(" "))
	if !isOne || !isLine || !hasVersion || len(method) >= maxMethod || !isUpper(method) {
		return false
	}
	if c.wraps.wrap(string(target)) != string(target) {
		return false
	}
	c.begin(inBody)
	return true
}

func isUpper(method []byte) bool {
	for _, b := range method {
		if b < 'A' || b > 'Z' {
			return false
		}
	}
	return true
}

// step makes ready what may be of ahead.
func (c *requestConn) step() {
	for i, b := range c.ahead {
		if c.part == inBody {
			c.ready = append(c.ready, c.ahead[i:]...)
			c.ahead = nil
			return
		}
		c.take(b)
		if c.part == inBody { // the rest comes with another Read
			c.ahead = bytes.Clone(c.ahead[i+1:])
			return
		}
	}
	c.ahead = nil
}

// take reads the next byte of a head.
func (c *requestConn) take(b byte) {
	c.size++
	switch c.part {
	case inMethod:
		c.ready = append(c.ready, b)
		isLineEnd := b == '\r' || b == '\n' // servers pass over those in front of a request
		isLetter := 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z' || b == '-'
		switch {
		case b == ' ' && c.size > 1:
			c.begin(inTarget)
		case !isLetter && !isLineEnd, c.size > maxMethod:
			c.begin(inBody) // it is no HTTP
		}
	case inTarget:
		c.line = append(c.line, b)
		if b == '\n' || c.size > maxHeader {
			c.ready = append(c.ready, c.wrapped()...)
			c.line = nil
			c.begin(inHeader)
		}
	case inHeader:
		c.ready = append(c.ready, b)
		switch {
		case b == '\n' && c.size == 1:
			c.begin(inBody)
		case b == '\n':
			c.size = 0
		case b == '\r':
			c.size-- // part of the line's end
		}
	}
}

func (c *requestConn) begin(p part) {
	c.part = p
	c.size = 0
}

// wrapped returns the line with its target wrapped up.
func (c *requestConn) wrapped() []byte {
	target, rest, ok := bytes.Cut(c.line, []byte(" "))
	if !ok {
		return c.line
	}
	return append([]byte(c.wraps.wrap(string(target))+" "), rest...)
}

// state follows the server. It is called between two calls of Read.
func (c *requestConn) state(state http.ConnState) {
	switch state {
	case http.StateIdle:
		c.begin(inMethod)
		c.answering.Store(false)
		c.says.Store(nil)
	case http.StateHijacked:
		c.begin(inBody)
		c.says.Store(nil)
		c.ready = append(c.ready, c.line...)
		c.line = nil
	}
}

// follow tells a connection about its state in the server.
func follow(c net.Conn, state http.ConnState) {
	if r, ok := c.(*requestConn); ok {
		r.state(state)
	}
}

// CloseWrite ends what the server sends, if the connection can do that.
func (c *requestConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return http.ErrNotSupported
}

// requestConns is a listener whose connections are requestConns.
type requestConns struct {
	net.Listener
	wraps wrapping
}

// Accept implements net.Listener.
func (l *requestConns) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &requestConn{Conn: c, wraps: l.wraps}, nil
}

// beneath returns the connection under those of a server and of TLS.
func beneath(c net.Conn) net.Conn {
	if r, ok := c.(*requestConn); ok {
		c = r.Conn
	}
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return c
}
