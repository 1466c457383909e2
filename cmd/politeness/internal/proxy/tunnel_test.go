package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/netutil"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/localsite"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/publicnet"
)

// authority opens a new authority and returns it with what trusts it.
func authority(t *testing.T) (*Authority, *x509.CertPool) {
	t.Helper()
	a, err := OpenAuthority(filepath.Join(t.TempDir(), "ca"))
	if err != nil {
		t.Fatal(err)
	}
	return a, pool(t, a.Certificate)
}

func pool(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatalf("%s holds no certificate", file)
	}
	return pool
}

// trusting returns a Base that trusts a site.
func trusting(t *testing.T, s *localsite.Site) *http.Transport {
	t.Helper()
	base := Base()
	base.TLSClientConfig = &tls.Config{RootCAs: pool(t, s.Certificate)}
	return base
}

// run serves p on a listener until the test ends.
func run(t *testing.T, p *Proxy, l net.Listener) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	messages := &output{to: t.Output()}
	go func() { done <- p.serve(ctx, l, messages) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		messages.end()
	})
}

// An output is that of a test until its end: the goroutine of a tunnel that broke off in its handshake
// may speak later, and a test's own output panics then.
type output struct {
	mu sync.Mutex
	to io.Writer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.to.Write(p)
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to = io.Discard
}

// start serves a proxy with an authority on loopback.
func start(t *testing.T, base http.RoundTripper) (url string, trust *x509.CertPool) {
	t.Helper()
	a, trust := authority(t)
	l, err := Listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	run(t, New(polite(t, nil, base), a), l)
	return "http://" + l.Addr().String(), trust
}

func TestHTTPSThroughATunnelIsPolite(t *testing.T) {
	t.Parallel()
	s := localsite.NewTLS(t, 0)
	proxy, trust := start(t, trusting(t, s))
	client := through(t, proxy)
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: trust}
	getAll(t, client, s.URL)
	if found := s.Violations(); found != nil {
		t.Error(found)
	}
	for _, v := range s.Visits() {
		if v.Header.Get("User-Agent") != agent || "https://"+v.Host != s.URL {
			t.Errorf("%s was asked for at %s by %q", v.Target, v.Host, v.Header.Get("User-Agent"))
		}
	}
}

func TestCurlThroughATunnel(t *testing.T) {
	t.Parallel()
	s := localsite.NewTLS(t, 0)
	a, _ := authority(t)
	l, err := Listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	run(t, New(polite(t, nil, trusting(t, s)), a), l)
	out, ok := curl(t, "--proxy", "http://"+l.Addr().String(), "--cacert", a.Certificate, "--write-out", `%{http_code} %{ssl_verify_result}\n`,
		s.URL+"/a", "--output", os.DevNull, s.URL+"/private/diary", "--output", os.DevNull)
	if ok && out != "200 0\n403 0\n" {
		t.Errorf("curl says %q", out)
	}
	if found := s.Violations(); found != nil {
		t.Error(found)
	}
}

// tunnelTo opens a tunnel and speaks TLS in it, asking for the certificate of name.
func tunnelTo(t *testing.T, proxy string, trust *x509.CertPool, authority, name string) (*tls.Conn, error) {
	t.Helper()
	resp, conn, reader := dialogue(t, proxy, "CONNECT "+authority+" HTTP/1.1\r\nHost: "+authority+"\r\n\r\n")
	if resp.StatusCode != http.StatusOK || reader.Buffered() > 0 {
		t.Fatalf("%s, and %d bytes", resp.Status, reader.Buffered())
	}
	c := tls.Client(conn, &tls.Config{RootCAs: trust, ServerName: name})
	return c, c.HandshakeContext(t.Context())
}

// say sends a request as it is written, and returns the answer's status.
func say(t *testing.T, conn net.Conn, request string) int {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// plainly opens a tunnel to a site of http.
func plainly(t *testing.T, proxy, authority string) net.Conn {
	t.Helper()
	resp, conn, reader := dialogue(t, proxy, "CONNECT "+authority+" HTTP/1.1\r\nHost: "+authority+"\r\n\r\n")
	if resp.StatusCode != http.StatusOK || reader.Buffered() > 0 {
		t.Fatalf("%s, and %d bytes", resp.Status, reader.Buffered())
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// serveBase serves a proxy on loopback, which has an authority or none.
func serveBase(t *testing.T, base http.RoundTripper, a *Authority) (url string) {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	run(t, New(polite(t, nil, base), a), l)
	return "http://" + l.Addr().String()
}

// TestHTTPThroughATunnelIsPolite: programs that ask for a tunnel to an http site get one, without an
// authority as well, and it leads nowhere else.
func TestHTTPThroughATunnelIsPolite(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	for name, a := range map[string]*Authority{"without an authority": nil, "with one": a} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, other := localsite.New(t, 0), localsite.New(t, 0)
			proxy := serveBase(t, Base(), a)
			host, otherHost := strings.TrimPrefix(s.URL, "http://"), strings.TrimPrefix(other.URL, "http://")
			for request, want := range map[string]int{
				"GET /a HTTP/1.1\r\nHost: " + host + "\r\n\r\n":                         200,
				"GET /private/diary HTTP/1.1\r\nHost: " + host + "\r\n\r\n":             403,
				"GET http://" + host + "/a HTTP/1.1\r\nHost: " + otherHost + "\r\n\r\n": 200,
				"GET /a HTTP/1.1\r\nHost: " + otherHost + "\r\n\r\n":                    421,
				"GET http://" + otherHost + "/a HTTP/1.1\r\nHost: " + host + "\r\n\r\n": 421,
				"GET https://" + host + "/a HTTP/1.1\r\nHost: " + host + "\r\n\r\n":     421,
				"GET /a HTTP/1.1\r\n\r\n":                                               400,
				"CONNECT " + host + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n":           405,
				"\x80\x2e\x01\x03\x01 no letter\r\n\r\n":                                400,
			} {
				if got := say(t, plainly(t, proxy, host), request); got != want {
					t.Errorf("%.80q: status %d, want %d", request, got, want)
				}
			}
			if n := len(other.Visits()); n > 0 {
				t.Errorf("the other site saw %d requests", n)
			}
			for _, v := range s.Visits() {
				if v.Host != host || v.Header.Get("User-Agent") != agent {
					t.Errorf("the site was asked for %s of %s by %q", v.Target, v.Host, v.Header.Get("User-Agent"))
				}
			}
			if found := s.Violations(); found != nil {
				t.Error(found)
			}
		})
	}
}

// TestUpgradeInATunnel: a connection in a plain tunnel can be switched to another protocol, as ws://
// URLs ask for.
func TestUpgradeInATunnel(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	handleEcho(t, s)
	host := strings.TrimPrefix(s.URL, "http://")
	conn := plainly(t, serveBase(t, Base(), nil), host)
	fmt.Fprintf(conn, "GET /echo HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", host)
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", resp, err)
	}
	fmt.Fprintln(conn, "hello")
	if line, err := reader.ReadString('\n'); line != "hello\n" {
		t.Errorf("echo of %q, %v", line, err)
	}
}

// TestTunnelToPort80: the port of the scheme isn't a part of the site's name, and that of the other
// scheme is.
func TestTunnelToPort80(t *testing.T) {
	for authority, want := range map[string]string{
		"example.com:80": "http://example.com/", "EXAMPLE.com:0080": "http://example.com/", "example.com:8080": "http://example.com:8080/",
	} {
		web := politenesstest.NewWeb()
		web.Site(strings.TrimSuffix(want, "/")).Page("/", "hello")
		conn := plainly(t, serveBase(t, web, nil), authority)
		if got := say(t, conn, "GET / HTTP/1.1\r\nHost: "+authority+"\r\n\r\n"); got != http.StatusOK {
			t.Errorf("%s: status %d", authority, got)
		}
		if asked := web.Requests(); len(asked) != 2 || asked[1].URL != want {
			t.Errorf("%s: the web was asked for %v", authority, asked)
		}
	}
}

// TestHTTPSWithoutAnAuthority is refused in plain text at its own port, and at another port as soon
// as the program speaks TLS, with a line of why.
func TestHTTPSWithoutAnAuthority(t *testing.T) {
	t.Parallel()
	s := localsite.NewTLS(t, 0)
	l, err := Listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	p := New(polite(t, nil, trusting(t, s)), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var messages bytes.Buffer
	done := make(chan error)
	go func() { done <- p.Serve(ctx, l, &messages) }()
	proxy := "http://" + l.Addr().String()
	resp := raw(t, proxy, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("port 443: %s", resp.Status)
	}
	conn := plainly(t, proxy, strings.TrimPrefix(s.URL, "https://"))
	err = tls.Client(conn, &tls.Config{ServerName: "127.0.0.1"}).HandshakeContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("TLS: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if said := messages.String(); !strings.Contains(said, "-ca DIR") || strings.Count(said, "\n") != 1 {
		t.Errorf("messages: %q", said)
	}
	if n := len(s.Visits()); n > 0 {
		t.Errorf("the site saw %d requests", n)
	}
}

// TestCurlThroughAPlainTunnel: curl asks for a tunnel to http sites too, if told so.
func TestCurlThroughAPlainTunnel(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	out, ok := curl(t, "--proxy", serveBase(t, Base(), nil), "--proxytunnel", "--write-out", `%{http_code}\n`,
		s.URL+"/a", "--output", os.DevNull, s.URL+"/private/diary", "--output", os.DevNull)
	if ok && out != "200\n403\n" {
		t.Errorf("curl says %q", out)
	}
	if found := s.Violations(); found != nil {
		t.Error(found)
	}
}

// A tunnel leads where it was opened to, whatever is said inside of it.
func TestATunnelLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	s, other := localsite.NewTLS(t, 0), localsite.NewTLS(t, 0)
	proxy, trust := start(t, trusting(t, s))
	host, otherHost := strings.TrimPrefix(s.URL, "https://"), strings.TrimPrefix(other.URL, "https://")
	for _, name := range []string{"other.example", "example.com", "localhost"} {
		if c, err := tunnelTo(t, proxy, trust, host, name); err == nil {
			t.Errorf("the tunnel to %s has a certificate for %s", host, name)
			c.Close()
		}
	}
	for request, want := range map[string]int{
		"GET /a HTTP/1.1\r\nHost: " + host + "\r\n\r\n":                                                200,
		"GET https://" + host + "/a HTTP/1.1\r\nHost: " + otherHost + "\r\n\r\n":                       200,
		"GET /a HTTP/1.1\r\nHost: " + otherHost + "\r\n\r\n":                                           421,
		"GET /a HTTP/1.1\r\nHost: other.example\r\n\r\n":                                               421,
		"GET https://" + otherHost + "/a HTTP/1.1\r\nHost: " + host + "\r\n\r\n":                       421,
		"GET http://" + host + "/a HTTP/1.1\r\nHost: " + host + "\r\n\r\n":                             421,
		"GET ftp://" + host + "/a HTTP/1.1\r\nHost: " + host + "\r\n\r\n":                              421,
		"GET /a HTTP/1.1\r\n\r\n":                                                                      400,
		"GET /a HTTP/1.1\r\nHost: " + host + "\r\nHost: " + otherHost + "\r\n\r\n":                     400,
		"CONNECT " + otherHost + " HTTP/1.1\r\nHost: " + otherHost + "\r\n\r\n":                        405,
		"GET https://u:p@" + host + "/a HTTP/1.1\r\nHost: " + host + "\r\n\r\n":                        200,
		"GET /a HTTP/1.1\r\nHost: " + host + "\r\nX: " + strings.Repeat("a", 2*maxHeader) + "\r\n\r\n": 431,
	} {
		c, err := tunnelTo(t, proxy, trust, host, "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		if got := say(t, c, request); got != want {
			t.Errorf("%.80q: status %d, want %d", request, got, want)
		}
		c.Close()
	}
	if n := len(other.Visits()); n > 0 {
		t.Errorf("the other site saw %d requests", n)
	}
	for _, v := range s.Visits() {
		if v.Host != host {
			t.Errorf("the site was asked for %s", v.Host)
		}
	}
}

func TestConnectWantsAHostAndAPort(t *testing.T) {
	t.Parallel()
	a, _ := authority(t)
	p := New(polite(t, nil, politenesstest.NewWeb()), a)
	p.stalled = 300 * time.Millisecond // for those that announce a body
	l, err := Listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	run(t, p, l)
	for _, request := range []string{
		"CONNECT example.com HTTP/1.1", "CONNECT example.com:0 HTTP/1.1", "CONNECT example.com:99999 HTTP/1.1", "CONNECT :443 HTTP/1.1",
		"CONNECT /x HTTP/1.1", "CONNECT https://example.com:443/ HTTP/1.1", "CONNECT a%20b:443 HTTP/1.1", "CONNECT *.example.com:443 HTTP/1.1",
		"CONNECT " + strings.Repeat("a", 300) + ":443 HTTP/1.1", "CONNECT u@example.com:443 HTTP/1.1",
		"CONNECT example.com:443 HTTP/1.1\r\nContent-Length: 5", "CONNECT example.com:443 HTTP/1.1\r\nTransfer-Encoding: chunked",
	} {
		resp := raw(t, "http://"+l.Addr().String(), request+"\r\nHost: example.com\r\n\r\n")
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%.60q: %s", request, resp.Status)
		}
	}
}

// Whatever a tunnel is said to lead to, nothing inside of one's own networks is reached.
func TestPrivateTargetsThroughTunnels(t *testing.T) {
	t.Parallel()
	s := localsite.NewTLS(t, 0)
	base := trusting(t, s)
	proxy, trust := start(t, publicnet.Transport(base))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "https://"))
	for _, name := range []string{"127.0.0.1", "localhost", "::1", "::ffff:127.0.0.1", "0.0.0.0", "169.254.169.254", "10.0.0.1"} {
		authority := net.JoinHostPort(name, port)
		c, err := tunnelTo(t, proxy, trust, authority, strings.TrimPrefix(name, "::ffff:"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := say(t, c, "GET /a HTTP/1.1\r\nHost: "+authority+"\r\n\r\n"); got != http.StatusForbidden {
			t.Errorf("%s: status %d", name, got)
		}
	}
	if n := len(s.Visits()); n > 0 {
		t.Errorf("the site saw %d requests", n)
	}
}

// No way of writing a request makes two of one, or one of half of another.
func TestRequestSmuggling(t *testing.T) {
	t.Parallel()
	s := localsite.NewTLS(t, 0)
	proxy, trust := start(t, trusting(t, s))
	host := strings.TrimPrefix(s.URL, "https://")
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, headers := range []string{
		"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"Content-Length: 0\r\nContent-Length: 35\r\n\r\n" + smuggled,
		"Content-Length: +0\r\n\r\n" + smuggled,
		"Transfer-Encoding: xchunked\r\n\r\n" + smuggled,
		"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + smuggled,
		"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"Transfer-Encoding: chunked\r\n\r\n0\n\n" + smuggled,
		"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + smuggled,
		"X: y\r\n\rContent-Length: 35\r\n\r\n" + smuggled,
		"X: y\x00\r\n\r\n" + smuggled,
		"X: y\r\n GET: /\r\nContent-Length: 35\r\n\r\n" + smuggled,
		"Connection: Content-Length\r\nContent-Length: 35\r\n\r\n" + smuggled,
		"Connection: Host\r\nContent-Length: 35\r\n\r\n" + smuggled,
		"Host: other.example\r\nContent-Length: 35\r\n\r\n" + smuggled,
		"Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\nContent-Length: 35\r\n\r\n" + smuggled,
		"Transfer-Encoding: chunked\r\n\r\n1;a\n\r\nx\r\n0\r\n\r\n" + smuggled,
		"Transfer-Encoding: chunked\n\n0\n\n" + smuggled,
		"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 35\r\n\r\n" + smuggled,
	} {
		c, err := tunnelTo(t, proxy, trust, host, "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		say(t, c, "POST /a HTTP/1.1\r\nHost: "+host+"\r\n"+headers)
		c.Close()
		_, conn, _ := dialogue(t, proxy, "POST "+s.URL+"/a HTTP/1.1\r\nHost: "+host+"\r\n"+headers)
		conn.Close()
	}
	for _, v := range s.Visits() {
		if v.Target != "/robots.txt" && (v.Target != "/a" || v.Method != "POST") || v.Host != host {
			t.Errorf("the site was asked: %s %s of %s", v.Method, v.Target, v.Host)
		}
	}
}

// A pipeListener is a listener in memory, for a bubble of virtual time.
type pipeListener struct {
	dialed chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{dialed: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	go func() {
		select {
		case l.dialed <- server:
		case <-l.closed:
			server.Close()
		}
	}()
	return client
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// Programs that open connections and say nothing, or nothing more, lose them, and others get their
// places.
func TestConnectionsAreBounded(t *testing.T) {
	for name, begin := range map[string]string{
		"nothing":                     "",
		"half a header":               "GET http://example.com/ HTTP/1.1\r\nHost:",
		"CONNECT without reading":     "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
		"CONNECT without handshake":   "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
		"CONNECT, and half a request": "CONNECT example.com:80 HTTP/1.1\r\nHost: example.com:80\r\n\r\nGET / HT",
		"CONNECT, and half a client":  "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n\x16\x03\x01",
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := authority(t)
			synctest.Test(t, func(t *testing.T) {
				l := newPipeListener()
				const places = 5
				web := politenesstest.NewWeb()
				web.Site("http://example.com").Page("/", "hello")
				run(t, New(polite(t, nil, web), a), netutil.LimitListener(l, places))
				for range places {
					conn := l.dial()
					defer conn.Close()
					go func() {
						_, _ = io.WriteString(conn, begin)
						if !strings.Contains(name, "reading") {
							_, _ = io.Copy(io.Discard, conn)
						}
					}()
				}
				synctest.Wait()
				begin := time.Now()
				conn := l.dial()
				defer conn.Close()
				if got := say(t, conn, "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"); got != 200 {
					t.Errorf("status %d", got)
				}
				if took := time.Since(begin); took < headerTimeout || took > 2*headerTimeout {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestSilentTunnelsLeaveRoom for those in which a request is under way: the one that has been silent
// for longest is closed, whether nothing was ever said in it or nothing any more.
func TestSilentTunnelsLeaveRoom(t *testing.T) {
	for _, spoken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, trust := authority(t)
			l := newPipeListener()
			const places = 5
			web := politenesstest.NewWeb()
			web.Site("https://example.com").Page("/", "hello")
			p := New(polite(t, nil, web), a)
			p.silent = places - 2
			run(t, p, netutil.LimitListener(l, places))
			began := time.Now()
			ask := func() (net.Conn, int) {
				conn := l.dial()
				t.Cleanup(func() { conn.Close() })
				if got := say(t, conn, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"); got != 200 {
					t.Fatalf("CONNECT: %d", got)
				}
				inside := tls.Client(conn, &tls.Config{ServerName: "example.com", RootCAs: trust})
				return inside, say(t, inside, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
			}
			for range 3 * places {
				if spoken {
					ask()
					continue
				}
				conn := l.dial()
				t.Cleanup(func() { conn.Close() })
				go func() {
					_, _ = io.WriteString(conn, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")
					_, _ = io.Copy(io.Discard, conn)
				}()
			}
			synctest.Wait()
			if _, got := ask(); got != 200 {
				t.Errorf("status %d", got)
			}
			if took := time.Since(began); took > headerTimeout {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A program that stops reading a page, or sending one, holds the site's slot for a while and no
// longer.
func TestStalledProgramsGiveTheSlotBack(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{
		"reading": "GET http://example.com/large HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"sending": "POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1000000\r\n\r\nbegin",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := politenesstest.NewWeb()
			web.Site("http://example.com").Page("/", "hello").Handle("/large", politenesstest.Bytes(1<<30))
			transport, err := politeness.New(politeness.Config{
				UserAgent: agent, Base: web, Hosts: hostlimit.Config{Concurrency: 1, LeaseTTL: time.Hour},
			})
			if err != nil {
				t.Fatal(err)
			}
			p := New(transport, nil)
			p.stalled = 300 * time.Millisecond
			l, err := Listen(t.Context(), "127.0.0.1:0", false)
			if err != nil {
				t.Fatal(err)
			}
			run(t, p, l)
			dial := func(request string) net.Conn {
				conn, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				if _, err := io.WriteString(conn, request); err != nil {
					t.Fatal(err)
				}
				return conn
			}
			dial(request)
			for len(web.Requests()) < 2 { // robots.txt, and this
				runtime.Gosched()
			}
			if got := say(t, dial(""), "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n"); got != 200 {
				t.Errorf("status %d", got)
			}
		})
	}
}

// A program that is slow, but goes on, gets all of its page, and one that waits for its turn waits.
func TestSlowProgramsAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("http://example.com").Handle("/", politenesstest.Slow(10*time.Minute, politenesstest.Drip("piece", 20, time.Minute)))
		l := newPipeListener()
		run(t, New(polite(t, nil, web), nil), l)
		conn := l.dial()
		defer conn.Close()
		if _, err := io.WriteString(conn, "POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != strings.Repeat("piece", 20) {
			t.Errorf("%d bytes, %v", len(body), err)
		}
	})
}

func TestAuthority(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	var group sync.WaitGroup
	opened := make([]*Authority, 8)
	for i := range opened { // all of them at once
		group.Go(func() {
			a, err := OpenAuthority(dir)
			if err != nil {
				t.Error(err)
			}
			opened[i] = a
		})
	}
	group.Wait()
	if t.Failed() {
		return
	}
	for _, a := range opened {
		if !a.cert.Equal(opened[0].cert) {
			t.Error("two authorities were made")
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Errorf("files: %v, %v", files, err)
	}
	key := filepath.Join(dir, keyFile)
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("the key: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 && runtime.GOOS != "windows" {
		t.Errorf("its directory: %v, %v", info.Mode(), err)
	}
	public, err := os.ReadFile(opened[0].Certificate)
	if err != nil || strings.Contains(string(public), "PRIVATE") {
		t.Errorf("the certificate: %s, %v", public, err)
	}

	trust := pool(t, opened[0].Certificate)
	for _, name := range []string{"example.com", "127.0.0.1", "::1", "under_score.example", strings.Repeat("a.", 60) + "example"} {
		leaf, err := opened[0].leaf(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		host := name
		if strings.Contains(name, ":") {
			host = "[" + name + "]"
		}
		if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: trust, DNSName: host}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: trust, DNSName: "other.example"}); err == nil {
			t.Errorf("the certificate of %s is good for another name", name)
		}
	}
	for i := range maxLeaves + 50 {
		if _, err := opened[0].leaf(fmt.Sprintf("%d.example", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(opened[0].leaves); n > maxLeaves {
		t.Errorf("%d certificates are kept", n)
	}
}

func TestOldCertificatesAreMadeAnew(t *testing.T) {
	a, _ := authority(t)
	synctest.Test(t, func(t *testing.T) { // in which it is the year 2000
		first, err := a.leaf("example.com")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(leafLife - time.Hour)
		second, err := a.leaf("example.com")
		if err != nil || second == first || second.Leaf.NotAfter.Before(time.Now().Add(leafLife-time.Hour)) {
			t.Errorf("until %v, %v", second.Leaf.NotAfter, err)
		}
	})
}

func TestAuthorityRefusesWhatItCannotTrust(t *testing.T) {
	for name, spoil := range map[string]struct {
		how  func(t *testing.T, key string)
		want string
	}{
		"readable by others": {func(t *testing.T, key string) { must(t, os.Chmod(key, 0o644)) }, "chmod 600"},
		"empty":              {func(t *testing.T, key string) { must(t, os.WriteFile(key, nil, 0o600)) }, "remove it"},
		"half":               {func(t *testing.T, key string) { must(t, os.Truncate(key, 100)) }, "remove it"},
		"a leaf's": {func(t *testing.T, key string) {
			a, err := loadAuthority(key, os.Geteuid())
			must(t, err)
			leaf, err := a.leaf("example.com")
			must(t, err)
			secret, err := x509.MarshalPKCS8PrivateKey(leaf.PrivateKey)
			must(t, err)
			text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
				pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Certificate[0]})...)
			must(t, os.WriteFile(key, text, 0o600))
		}, "remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "readable by others" && runtime.GOOS == "windows" {
				return // has no such modes
			}
			dir := t.TempDir()
			if _, err := OpenAuthority(dir); err != nil {
				t.Fatal(err)
			}
			spoil.how(t, filepath.Join(dir, keyFile))
			if _, err := OpenAuthority(dir); err == nil || !strings.Contains(err.Error(), spoil.want) || !strings.Contains(err.Error(), keyFile) {
				t.Errorf("error %v, want %q", err, spoil.want)
			}
		})
	}
}

func TestAuthorityWantsADirectoryOfItsOwn(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // has no such modes
	}
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777))
	if _, err := OpenAuthority(dir); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("error %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// TestAuthorityIsOnesOwn: another user's directory or key, or a link to one, is refused, and nothing
// is written there.
func TestAuthorityIsOnesOwn(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // has other owners
	}
	dir := t.TempDir()
	if _, err := openAuthority(dir, os.Geteuid()+1); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("another user's directory: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	for _, name := range []string{link, link + "/", link + "/."} {
		if _, err := OpenAuthority(name); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("a link: %v", err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}

	_, err := OpenAuthority(dir)
	must(t, err)
	key := filepath.Join(dir, keyFile)
	if _, err := loadAuthority(key, os.Geteuid()+1); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("another user's key: %v", err)
	}
	elsewhere := filepath.Join(t.TempDir(), "key")
	must(t, os.Rename(key, elsewhere))
	must(t, os.Symlink(elsewhere, key))
	if _, err := OpenAuthority(dir); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a link to a key: %v", err)
	}
}

// TestCertificateReplacesItsFile: nothing is written through a link, and nobody reads half of it.
func TestCertificateReplacesItsFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // links want a privilege there
	}
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	must(t, os.WriteFile(victim, []byte("precious"), 0o600))
	must(t, os.Symlink(victim, filepath.Join(dir, certificateFile)))
	a, err := OpenAuthority(dir)
	must(t, err)
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
	pool(t, a.Certificate)
	if info, err := os.Lstat(a.Certificate); err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("%v, %v", files, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
