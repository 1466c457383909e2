package proxy

import (
	"bufio"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/internal/localsite"
)

// TestSection7Dot6: RFC 9110, section 7.6, line by line, of a request.
func TestSection7Dot6(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	s.Handle("/p", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("Via", "1.0 fred")
		w.Header().Set("X-End", "1")
	})
	proxy := serveBase(t, Base(), nil)
	for i, test := range []struct {
		line, header, name string
		want               string // that the site sees of the field
	}{
		{"7.6.1: fields that Connection names are taken out", "Connection: close, X-Hop\r\nX-Hop: 1\r\n", "X-Hop", ""},
		{"7.6.1: in any case", "Connection: close, x-HOP\r\nX-Hop: 1\r\n", "X-Hop", ""},
		{"7.6.1: on several lines", "Connection: close\r\nConnection: X-Hop\r\nX-Hop: 1\r\n", "X-Hop", ""},
		{"7.6.1: also those of forwarding", "Connection: X-Forwarded-For\r\nX-Forwarded-For: 192.0.2.7\r\n", "X-Forwarded-For", ""},
		{"7.6.1: Connection itself", "Connection: X-Hop\r\n", "Connection", ""},
		{"7.6.1: Proxy-Connection", "Proxy-Connection: keep-alive\r\n", "Proxy-Connection", ""},
		{"7.6.1: Keep-Alive", "Keep-Alive: timeout=5\r\n", "Keep-Alive", ""},
		{"7.6.1: TE but for trailers", "TE: trailers, gzip\r\n", "Te", "trailers"},
		{"7.6.1: Upgrade to what isn't forwarded", "Connection: Upgrade\r\nUpgrade: h2c\r\n", "Upgrade", ""},
		{"7.6.1: what is the program's stays", "X-Forwarded-For: 192.0.2.7\r\n", "X-Forwarded-For", "192.0.2.7"},
		{"and", "X-Forwarded-Proto: https\r\n", "X-Forwarded-Proto", "https"},
		{"and", "X-Forwarded-Host: a.example\r\n", "X-Forwarded-Host", "a.example"},
		{"and", "Forwarded: for=192.0.2.7\r\n", "Forwarded", "for=192.0.2.7"},
		{"7.6.3: an entry of Via", "", "Via", "1.1 politeness"},
		{"7.6.3: behind those before", "Via: 1.0 fred\r\n", "Via", "1.0 fred, 1.1 politeness"},
		{"11.7: Proxy-Authorization is for the proxy", "Proxy-Authorization: Basic eDp5\r\n", "Proxy-Authorization", ""},
		{"11.6: Authorization isn't", "Authorization: Basic eDp5\r\n", "Authorization", "Basic eDp5"},
	} {
		resp := raw(t, proxy, fmt.Sprintf("GET %s/p?%d HTTP/1.1\r\nHost: x\r\n%s\r\n", s.URL, i, test.header))
		resp.Body.Close()
		visits := s.Visits(fmt.Sprintf("/p?%d", i))
		if len(visits) != 1 {
			t.Fatalf("%s: %d visits, %s", test.line, len(visits), resp.Status)
		}
		if got := strings.Join(visits[0].Header[test.name], ", "); got != test.want {
			t.Errorf("%s: the site saw %s: %q, not %q", test.line, test.name, got, test.want)
		}
		for name, want := range map[string]string{"X-Hop": "", "Keep-Alive": "", "Via": "1.0 fred, 1.1 politeness", "X-End": "1"} {
			if got := strings.Join(resp.Header[name], ", "); got != want {
				t.Errorf("%s: the program saw %s: %q, not %q", test.line, name, got, want)
			}
		}
	}
}

// TestMaxForwards: RFC 9110, section 7.6.2.
func TestMaxForwards(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	proxy := serveBase(t, Base(), nil)
	for _, test := range []struct {
		method, given, seen string // seen: by the site; empty: it isn't asked
	}{
		{"OPTIONS", "0", ""},
		{"TRACE", "0", ""},
		{"OPTIONS", "2", "1"},
		{"TRACE", "1", "0"},
		{"GET", "0", "0"},
		{"OPTIONS", "x", "x"},
	} {
		path := "/" + test.method + test.given
		resp := raw(t, proxy, test.method+" "+s.URL+path+" HTTP/1.1\r\nHost: x\r\nMax-Forwards: "+test.given+"\r\nCookie: secret=1\r\n\r\n")
		body, _ := io.ReadAll(resp.Body)
		seen := ""
		if visits := s.Visits(path); len(visits) == 1 {
			seen = visits[0].Header.Get("Max-Forwards")
		}
		if seen != test.seen || ours(resp.Header) != (test.seen == "") {
			t.Errorf("%s, Max-Forwards: %s: the site saw %q, %s", test.method, test.given, seen, resp.Status)
		}
		if test.seen == "" && strings.Contains(string(body), "secret") {
			t.Errorf("%s: %s", test.method, body)
		}
	}
}

// TestACircleEnds: a request that comes through a proxy of this name again and again is refused
// (RFC 9110, section 7.6).
func TestACircleEnds(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	proxy := serveBase(t, Base(), nil)
	for _, vias := range []string{strings.Repeat("Via: 1.1 politeness\r\n", mostVias), "Via: 1.1 politeness" + strings.Repeat(", 1.1 politeness (x)", mostVias) + "\r\n"} {
		resp := raw(t, proxy, "GET "+s.URL+"/a HTTP/1.1\r\nHost: x\r\n"+vias+"\r\n")
		if resp.StatusCode != http.StatusBadGateway || !strings.Contains(resp.Header.Get("Proxy-Status"), "proxy_loop_detected") {
			t.Errorf("%s %v", resp.Status, resp.Header)
		}
	}
	if n := len(s.Visits("/a")); n > 0 {
		t.Errorf("%d visits", n)
	}
}

// TestTrailersPass in both directions, announced or not.
func TestTrailersPass(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	s.Handle("/trailers/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Announced")
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("X-Announced", r.Trailer.Get("X-Announced"))
		w.Header().Set(http.TrailerPrefix+"X-Late", r.Trailer.Get("X-Late"))
	})
	proxy := serveBase(t, Base(), nil)
	for _, path := range []string{"/trailers/plain", "/trailers/a|b"} {
		for _, announcement := range []string{"Trailer: X-Announced\r\n", ""} {
			resp := raw(t, proxy, "POST "+s.URL+path+" HTTP/1.1\r\nHost: x\r\n"+announcement+"Transfer-Encoding: chunked\r\n\r\n"+
				"3\r\nabc\r\n0\r\nX-Announced: 1\r\nX-Late: 2\r\n\r\n")
			body, err := io.ReadAll(resp.Body)
			if string(body) != "abc" || err != nil || resp.Trailer.Get("X-Announced") != "1" || resp.Trailer.Get("X-Late") != "2" {
				t.Errorf("%s, %q: %q, %v, %v", path, announcement, body, err, resp.Trailer)
			}
		}
	}
}

// TestOptionsOfAServer: RFC 9112, section 3.2.4. Without a path it is the server that is asked.
func TestOptionsOfAServer(t *testing.T) {
	t.Parallel()
	s := newLineSite(t, "", false)
	proxy := serveBase(t, s.base(), nil)
	for target, want := range map[string]string{"": "*", "/": "/", "?a": "/?a"} {
		resp := raw(t, proxy, "OPTIONS http://"+s.address+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
		if asked := s.asked(); len(asked) != 1 || asked[0] != want {
			t.Errorf("%q: %s, the site was asked for %q, not %q", target, resp.Status, asked, want)
		}
	}
}

// TestBothDirectionsAtOnce: a site may answer while the program still sends.
func TestBothDirectionsAtOnce(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	s.Handle("/echo-bytes", func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		piece := make([]byte, 1)
		for {
			if _, err := io.ReadFull(r.Body, piece); err != nil {
				return
			}
			_, _ = w.Write(piece)
			_ = control.Flush()
		}
	})
	conn := call(t, serveBase(t, Base(), nil))
	fmt.Fprintf(conn.conn, "POST %s/echo-bytes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", s.URL)
	var resp *http.Response
	for _, piece := range []string{"a", "b", "c"} { // the next is sent when the one before has come back
		fmt.Fprintf(conn.conn, "1\r\n%s\r\n", piece)
		if resp == nil {
			var err error
			resp, err = http.ReadResponse(conn.read, nil)
			must(t, err)
			defer resp.Body.Close()
		}
		got := make([]byte, 1)
		if _, err := io.ReadFull(resp.Body, got); string(got) != piece {
			t.Fatalf("%q came back, not %q: %v", got, piece, err)
		}
	}
	fmt.Fprint(conn.conn, "0\r\n\r\n")
	if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if status, _ := conn.ask(s.URL+"/a", ""); status != http.StatusOK {
		t.Errorf("the next request of the connection: %d", status)
	}
}

// hangingUp returns the URL of a server that does so, but for robots.txt if that is wanted.
func hangingUp(t *testing.T, robots bool) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/robots.txt" || !robots {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// expired returns the URL of a site whose certificate isn't valid any more.
func expired(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// TestADeadSiteIsNoQueue: whoever mistypes a name learns it at once, in words and as an error type of
// RFC 9209, the first time and while the answer is remembered.
func TestADeadSiteIsNoQueue(t *testing.T) {
	t.Parallel()
	talksNoHTTP, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { talksNoHTTP.Close() })
	go func() {
		for {
			conn, err := talksNoHTTP.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			fmt.Fprint(conn, "220 mail.example ESMTP\r\n")
			conn.Close()
		}
	}()
	proxy := serveBase(t, Base(), nil)
	for _, test := range []struct {
		name, url, kind, words string
		status                 int
	}{
		{"a name that doesn't exist", "http://nothing.invalid", "dns_error", "no site of this name", 502},
		{"a port that refuses", localsite.Closed(t), "connection_refused", "no server listens", 502},
		{"an expired certificate", expired(t), "tls_certificate_error", "isn't valid", 502},
		{"no TLS", "https://" + strings.TrimPrefix(hangingUp(t, true), "http://"), "tls_protocol_error", "TLS", 502},
		{"no HTTP", "http://" + talksNoHTTP.Addr().String(), "http_protocol_error", "isn't HTTP", 502},
		{"robots.txt hangs up", hangingUp(t, false), "connection_terminated", "closed without a response", 502},
		{"a page hangs up", hangingUp(t, true), "connection_terminated", "closed without a response", 502},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			resp := raw(t, proxy, "GET "+test.url+"/x HTTP/1.1\r\nHost: x\r\n\r\n")
			body, _ := io.ReadAll(resp.Body)
			status := resp.Header.Get("Proxy-Status")
			isKind := strings.Contains(status, "error="+test.kind+";")
			// A machine without a resolver says so instead.
			isKind = isKind || test.kind == "dns_error" && strings.Contains(status, "error=dns_timeout;")
			if !isKind || !strings.Contains(string(body), test.words) && test.kind != "dns_error" {
				t.Errorf("%s, Proxy-Status: %s\n%s", resp.Status, status, body)
			}
			if resp.StatusCode != test.status && test.kind != "dns_error" || resp.Header.Get("Retry-After") != "" {
				t.Errorf("%s, %v", resp.Status, resp.Header)
			}
		})
	}
}

// TestSitesWithRSAKeyExchangeAreRead, as by curl and browsers.
func TestSitesWithRSAKeyExchangeAreRead(t *testing.T) {
	t.Parallel()
	for _, suite := range []uint16{
		tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA,
	} {
		site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "old") }))
		site.TLS = &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}}
		site.StartTLS()
		defer site.Close()
		base := Base()
		base.TLSClientConfig.RootCAs = x509.NewCertPool()
		base.TLSClientConfig.RootCAs.AddCert(site.Certificate())
		resp := raw(t, serveBase(t, base, nil), "GET "+site.URL+"/ HTTP/1.1\r\nHost: x\r\n\r\n")
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %v", tls.CipherSuiteName(suite), resp.Status, resp.Header)
		}
	}
}

// TestWhatStaysOpenHoldsNoSlot: a page comes while as many sockets and streams are open as the site
// has slots.
func TestWhatStaysOpenHoldsNoSlot(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	handleEcho(t, s)
	for path, kind := range map[string]string{
		"/events": "text/event-stream", "/camera": "Multipart/X-Mixed-Replace; boundary=x",
	} {
		s.Handle(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
	}
	transport, err := politeness.New(politeness.Config{UserAgent: agent, Base: ByProgram(Base()), Streams: 4})
	must(t, err)
	l, err := Listen(t.Context(), "127.0.0.1:0", false)
	must(t, err)
	p := New(transport, nil)
	p.grace = time.Second
	run(t, p, l)
	proxy := "http://" + l.Addr().String()
	for range 2 {
		if resp := raw(t, proxy, fmt.Sprintf(upgrade, s.URL)); resp.StatusCode != http.StatusSwitchingProtocols {
			t.Error(resp.Status)
		}
		for _, path := range []string{"/events", "/camera"} {
			resp := raw(t, proxy, "GET "+s.URL+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
			if line, err := bufio.NewReader(resp.Body).ReadString('\n'); line != "data: 1\n" {
				t.Errorf("%s: %q, %v", path, line, err)
			}
		}
	}
	if resp := raw(t, proxy, "GET "+s.URL+"/a HTTP/1.1\r\nHost: x\r\n\r\n"); resp.StatusCode != http.StatusOK {
		t.Errorf("the page: %s", resp.Status)
	}
}
