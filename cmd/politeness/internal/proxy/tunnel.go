package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-politeness/politeness/cmd/politeness/internal/hostname"
)

// A target is where a tunnel leads.
type target struct {
	name   string // of the certificate: a name in ASCII, or an IP address
	host   string // of the CONNECT request, with its port
	port   int
	scheme string // http or https; empty until the program has sent a byte
}

// parseTarget reads the authority of a CONNECT request, which has a port always.
func parseTarget(authority string) (target, error) {
	_, port, err := net.SplitHostPort(authority)
	if err != nil {
		return target{}, fmt.Errorf("CONNECT wants host:port, not %q", authority)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return target{}, fmt.Errorf("CONNECT wants a port, not %q", port)
	}
	spelled := hostname.Authority("https", authority)
	name := strings.TrimSuffix(strings.TrimPrefix(spelled, "["), "]")
	if host, _, err := net.SplitHostPort(spelled); err == nil {
		name = host
	}
	if net.ParseIP(name) == nil && !isDomain(name) {
		return target{}, fmt.Errorf("CONNECT wants the name of a host, not %q", name)
	}
	return target{name: name, host: authority, port: int(number)}, nil
}

// authority returns the host as it stands in the URLs of the site.
func (t target) authority() string { return hostname.Authority(t.scheme, t.host) }

// isDomain reports whether a certificate can be made for name.
func isDomain(name string) bool {
	return name != "" && len(name) <= 253 && strings.Trim(name, domainChars) == ""
}

const domainChars = "abcdefghijklmnopqrstuvwxyz0123456789-._"

// connect opens a tunnel: from here on the connection is one of a site's server, which is the proxy
// under the site's name. The program's first byte shows whether that site is one of https.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	to, err := parseTarget(r.URL.Host)
	if err == nil && r.URL.User != nil {
		err = errors.New("CONNECT wants host:port, without a user")
	}
	if err != nil {
		answer(w, http.StatusBadRequest, "http_request_error", err.Error())
		return
	}
	if r.ContentLength != 0 { // what follows would be both its body and the tunnel
		answer(w, http.StatusBadRequest, "http_request_error", "a CONNECT request has no body")
		return
	}
	// A refusal in plain text is better than one inside of the tunnel, which the program can't read.
	if p.authority == nil && to.port == portOfHTTPS {
		w.Header().Set("Allow", allowed)
		answer(w, http.StatusMethodNotAllowed, "http_request_denied", noConnect)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		answer(w, http.StatusInternalServerError, "proxy_internal_error", err.Error())
		return
	}
	defer context.AfterFunc(r.Context(), func() { conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(headerTimeout))
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection Established\r\n\r\n"); err != nil {
		conn.Close()
		return
	}
	p.quiet.state(conn, http.StateNew)
	first, err := buffered.Reader.Peek(1)
	p.quiet.state(conn, http.StateHijacked)
	if err != nil {
		conn.Close()
		return
	}
	_ = conn.SetDeadline(time.Time{}) // the server of the tunnels sets its own
	to.scheme = "http"
	if first[0] == tlsHandshake {
		to.scheme = "https"
	}
	inside := &tunnel{Conn: conn, in: buffered.Reader, to: to}
	switch {
	case to.scheme == "http":
		p.tunnels.add(inside)
	case p.authority == nil:
		//nolint:forbidigo // the messages of Serve
		p.forward.ErrorLog.Printf("tunnel to %s: https needs -ca DIR: %s", to.host, noConnect)
		_ = conn.SetWriteDeadline(time.Now().Add(headerTimeout))
		_, _ = conn.Write(accessDenied)
		conn.Close()
	default:
		p.secure(r.Context(), inside)
	}
}

// secure answers the beginning of TLS in a tunnel, and hands the tunnel to its server.
func (p *Proxy) secure(ctx context.Context, inside *tunnel) {
	conn := tls.Server(inside, p.authority.config)
	_ = conn.SetDeadline(time.Now().Add(headerTimeout))
	p.quiet.state(conn, http.StateNew)
	err := conn.HandshakeContext(ctx)
	p.quiet.state(conn, http.StateHijacked)
	if err != nil {
		//nolint:forbidigo // the messages of Serve
		p.forward.ErrorLog.Printf("http: TLS handshake error from %s: %v", inside.RemoteAddr(), err)
		inside.Close()
		return
	}
	_ = conn.SetDeadline(time.Time{})
	p.tunnels.add(conn)
}

const (
	portOfHTTPS  = 443
	tlsHandshake = 0x16 // type of a TLS record (RFC 8446, section 5.1); no method begins with this byte
)

// accessDenied is a fatal TLS alert (RFC 8446, section 6).
var accessDenied = []byte{0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 49}

// A tunnel is a connection that a program believes to end at the site.
type tunnel struct {
	net.Conn
	in io.Reader // the connection, with bytes that were read ahead
	to target
}

func (t *tunnel) Read(p []byte) (int, error) { return t.in.Read(p) }

type targetKey struct{}

// withTarget is a ConnContext of the server of the tunnels.
func withTarget(ctx context.Context, c net.Conn) context.Context {
	if t, ok := beneath(c).(*tunnel); ok {
		return context.WithValue(ctx, targetKey{}, t.to)
	}
	return ctx
}

func targetOf(ctx context.Context) target {
	to, _ := ctx.Value(targetKey{}).(target)
	return to
}

// tunnels are the net.Listener of the server of all tunnels.
type tunnels struct {
	opened chan net.Conn
	closed chan struct{}
	close  func()
}

func newTunnels() *tunnels {
	closed := make(chan struct{})
	return &tunnels{opened: make(chan net.Conn), closed: closed, close: sync.OnceFunc(func() { close(closed) })}
}

func (t *tunnels) add(c net.Conn) {
	select {
	case t.opened <- c:
	case <-t.closed:
		c.Close()
	}
}

// Accept implements net.Listener.
func (t *tunnels) Accept() (net.Conn, error) {
	select {
	case c := <-t.opened:
		return c, nil
	case <-t.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (t *tunnels) Close() error {
	t.close()
	return nil
}

// Addr implements net.Listener.
func (t *tunnels) Addr() net.Addr { return &net.TCPAddr{} }

var errOtherName = errors.New("the certificate that is asked for is of another host than the tunnel")

// certificateFor answers the beginning of a TLS connection: the program must ask for the site that
// the tunnel was opened to.
func (a *Authority) certificateFor(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	t, ok := hello.Conn.(*tunnel)
	if !ok {
		return nil, errOtherName
	}
	// A program that asks for an IP address names none.
	name := hello.ServerName
	if name != "" && hostname.Key(name) != hostname.Key(t.to.name) {
		return nil, errOtherName
	}
	return a.leaf(t.to.name)
}
