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
	name      string // of the certificate: a name in ASCII, or an IP address
	authority string // as in the site's URLs: with the port unless it is 443
}

// parseTarget reads the authority of a CONNECT request, which has a port always.
func parseTarget(authority string) (target, error) {
	_, port, err := net.SplitHostPort(authority)
	if err != nil {
		return target{}, fmt.Errorf("CONNECT wants host:port, not %q", authority)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return target{}, fmt.Errorf("CONNECT wants a port, not %q", port)
	}
	spelled := hostname.Authority(authority)
	name := strings.TrimSuffix(strings.TrimPrefix(spelled, "["), "]")
	if host, _, err := net.SplitHostPort(spelled); err == nil {
		name = host
	}
	if net.ParseIP(name) == nil && !isDomain(name) {
		return target{}, fmt.Errorf("CONNECT wants the name of a host, not %q", name)
	}
	return target{name, spelled}, nil
}

// isDomain reports whether a certificate can be made for name.
func isDomain(name string) bool {
	return name != "" && len(name) <= 253 && strings.Trim(name, domainChars) == ""
}

const domainChars = "abcdefghijklmnopqrstuvwxyz0123456789-._"

// connect opens a tunnel: from here on the connection is one of an https site's server, which is
// the proxy under the site's name.
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
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		answer(w, http.StatusInternalServerError, "proxy_internal_error", err.Error())
		return
	}
	_ = conn.SetWriteDeadline(time.Now().Add(headerTimeout)) // the TLS handshake sets its own
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection Established\r\n\r\n"); err != nil {
		conn.Close()
		return
	}
	// The program may have begun to speak TLS before it was told that it may.
	ahead := io.LimitReader(buffered.Reader, int64(buffered.Reader.Buffered()))
	p.tunnels.add(tls.Server(&tunnel{Conn: conn, in: io.MultiReader(ahead, conn), to: to}, p.authority.config))
}

// A tunnel is a connection that a program believes to end at the site.
type tunnel struct {
	net.Conn
	in io.Reader
	to target
}

func (t *tunnel) Read(p []byte) (int, error) { return t.in.Read(p) }

type targetKey struct{}

// withTarget is a ConnContext of the server of the tunnels.
func withTarget(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*tls.Conn); ok {
		if t, ok := c.NetConn().(*tunnel); ok {
			return context.WithValue(ctx, targetKey{}, t.to)
		}
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

// certificateFor answers the beginning of a TLS connection: the one who asks must want the site
// that the tunnel was opened to.
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
