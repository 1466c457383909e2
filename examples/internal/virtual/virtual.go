// Package virtual lets the tests of the example programs finish without waiting. Client and server
// speak HTTP over a network in memory, and time is virtual.
package virtual

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness/internal/localsite"
)

// Run runs the test in a synctest bubble in which localsite.Serve and http.DefaultTransport
// meet in memory. With POLITENESS_LONG=1 (make test) it runs once more on real connections and
// real clocks, as a user of the program sees it. The caller must not be a parallel test.
func Run(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Run("in virtual time", func(t *testing.T) {
		serve := localsite.Serve
		transport := http.DefaultTransport
		t.Cleanup(func() {
			localsite.Serve = serve
			http.DefaultTransport = transport
		})
		synctest.Test(t, func(t *testing.T) {
			n := &network{listeners: make(map[string]*listener)}
			dialing := transport.(*http.Transport).Clone()
			dialing.DialContext = n.dial
			t.Cleanup(dialing.CloseIdleConnections)
			localsite.Serve = n.serve
			http.DefaultTransport = dialing
			test(t)
		})
	})
	if os.Getenv("POLITENESS_LONG") != "" {
		t.Run("in real time", test)
	}
}

// An Output keeps what a program's goroutines write at the same time.
type Output struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// A network connects those that dial with those that listen.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener // by address; kept after they are closed
}

func (n *network) serve(h http.Handler) *httptest.Server {
	server := &httptest.Server{Listener: n.listen(), Config: &http.Server{Handler: h}}
	server.Start()
	return server
}

func (n *network) listen() net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &listener{
		address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 49152 + len(n.listeners)},
		dialed:  make(chan net.Conn),
		closed:  make(chan struct{}),
	}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	n.listeners[l.address.String()] = l
	return l
}

var errRefused = errors.New("connection refused")

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s: %w", address, errRefused)
	}
	client, server := net.Pipe()
	select {
	case l.dialed <- server:
		return client, nil
	case <-l.closed:
		return nil, fmt.Errorf("dial %s: %w", address, errRefused)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type listener struct {
	address net.Addr
	dialed  chan net.Conn // the server's ends
	closed  chan struct{}
	close   func()
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.dialed:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.close()
	return nil
}

func (l *listener) Addr() net.Addr { return l.address }
