package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
)

// A lineSite is a site that notes the first line of each request as it comes over the wire.
type lineSite struct {
	address string
	trusted *x509.CertPool // has its certificate; nil: it speaks no TLS
	robots  string         // target of robots.txt
	status  string         // of all answers

	mu    sync.Mutex
	lines []string
}

func newLineSite(t *testing.T, robots string, secure bool) *lineSite {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	s := &lineSite{address: l.Addr().String(), robots: "/robots.txt", status: "200 OK"}
	if secure {
		own := httptest.NewTLSServer(nil) // for its certificate
		defer own.Close()
		s.trusted = x509.NewCertPool()
		s.trusted.AddCert(own.Certificate())
		l = tls.NewListener(l, &tls.Config{Certificates: own.TLS.Certificates})
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.answer(conn, robots)
		}
	}()
	return s
}

func (s *lineSite) answer(conn net.Conn, robots string) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	first, err := r.ReadString('\n')
	if err != nil {
		return
	}
	var length int
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		_, _ = fmt.Sscanf(line, "Content-Length: %d", &length)
		if line == "\r\n" {
			break
		}
	}
	sent := make([]byte, length)
	_, _ = io.ReadFull(r, sent)
	target := strings.TrimSuffix(strings.SplitN(first, " ", 2)[1], " HTTP/1.1\r\n")
	text := string(sent)
	if target == s.robots {
		text = robots
	} else {
		s.mu.Lock()
		s.lines = append(s.lines, target)
		s.mu.Unlock()
	}
	fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Length: %d\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n%s", s.status, len(text), text)
}

// asked returns the targets that the site was asked for since it was asked last.
func (s *lineSite) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.lines
	s.lines = nil
	return lines
}

// base is a transport that trusts the site.
func (s *lineSite) base() *http.Transport {
	b := Base()
	if s.trusted != nil {
		b.TLSClientConfig = &tls.Config{RootCAs: s.trusted}
	}
	return b
}

// oddTargets are sent by browsers, curl or scripts, and net/http can't parse them or writes them
// otherwise.
var oddTargets = []string{
	"/50%-off", "/%zz", "/%", "/%4", "/a%%20b", "/a|b", "/a^b`c", "/{id}", "/caf\xc3\xa9", "/caf\xe9", `/a"b`, "/<b>", "/a#b", `/x\y`,
	"/50%-off?q=%", "/a|b?", "/a|b??c=|", "/%zz?redirect=http://other.example/%zz",
}

// plainTargets pass as they are.
var plainTargets = []string{"/", "/a%2fb", "/a?%", "/a?|", "/a;b=c,d", "/a?", "/%E9", "/a/http://b/"}

// TestTargetsPassByteForByte: in the open, in a tunnel, and in one of TLS.
func TestTargetsPassByteForByte(t *testing.T) {
	t.Parallel()
	plain := newLineSite(t, "", false)
	secure := newLineSite(t, "", true)
	inTheOpen, _ := start(t, plain.base())
	toSecure, trust := start(t, secure.base())
	for _, target := range append(oddTargets, plainTargets...) {
		for name, ask := range map[string]func() int{
			"in the open": func() int {
				return raw(t, inTheOpen, "GET http://"+plain.address+target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").StatusCode
			},
			"in a tunnel": func() int {
				conn := plainly(t, inTheOpen, plain.address)
				defer conn.Close()
				return say(t, conn, "GET "+target+" HTTP/1.1\r\nHost: "+plain.address+"\r\n\r\n")
			},
			"in a tunnel of TLS": func() int {
				conn, err := tunnelTo(t, toSecure, trust, secure.address, "127.0.0.1")
				must(t, err)
				defer conn.Close()
				return say(t, conn, "GET "+target+" HTTP/1.1\r\nHost: "+secure.address+"\r\n\r\n")
			},
		} {
			status := ask()
			asked := append(plain.asked(), secure.asked()...)
			if status != http.StatusOK || len(asked) != 1 || asked[0] != target {
				t.Errorf("%s, %q: status %d, the site was asked for %q", name, target, status, asked)
			}
		}
	}
}

// TestCurlSendsABarePercentSign, several on one connection, which curl keeps open.
func TestCurlSendsABarePercentSign(t *testing.T) {
	t.Parallel()
	plain := newLineSite(t, "", false)
	secure := newLineSite(t, "", true)
	a, _ := authority(t)
	inTheOpen := serveBase(t, plain.base(), a)
	toSecure := serveBase(t, secure.base(), a)
	paths := []string{"/50%-off", "/%zz", "/a|b", "/plain", "/%"}
	for _, via := range []struct {
		site  *lineSite
		flags []string
		url   string
	}{
		{plain, []string{"--proxy", inTheOpen}, "http://" + plain.address},
		{plain, []string{"--proxy", inTheOpen, "--proxytunnel"}, "http://" + plain.address},
		{secure, []string{"--proxy", toSecure, "--cacert", a.Certificate}, "https://" + secure.address},
	} {
		args := append(via.flags, "--globoff", "--write-out", `%{http_code}:%{num_connects}\n`)
		for _, path := range paths {
			args = append(args, via.url+path)
		}
		out, ok := curl(t, args...)
		if !ok {
			return
		}
		want := "200:1\n" + strings.Repeat("200:0\n", len(paths)-1)
		if got := via.site.asked(); out != want || strings.Join(got, " ") != strings.Join(paths, " ") {
			t.Errorf("%v: the site was asked for %q, and curl says %q", via.flags, got, out)
		}
	}
}

// TestOddTargetsAreForbiddenInEitherReading: as they are sent, and as a URL has them.
func TestOddTargetsAreForbiddenInEitherReading(t *testing.T) {
	t.Parallel()
	s := newLineSite(t, "User-agent: *\nDisallow: /50%-off\nDisallow: /60%25-off\nDisallow: /private\nDisallow: /caf%C3%A9\nDisallow: /a%7Cb\n", false)
	proxy, _ := start(t, s.base())
	for _, target := range []string{
		"/50%-off", "/50%-off/%zz", "/60%-off", "/x%/../private", `/%zz\..\private`, "/%zz/%2e%2e/private", "//private/%", "/caf\xc3\xa9", "/a|b",
	} {
		resp := raw(t, proxy, "GET http://"+s.address+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
		if resp.StatusCode != http.StatusForbidden || !ours(resp.Header) {
			t.Errorf("%q: %s", target, resp.Status)
		}
	}
	if asked := s.asked(); asked != nil {
		t.Errorf("the site was asked for %q", asked)
	}
}

// TestOddTargetsAreProved: the log has each under a URL that others can parse.
func TestOddTargetsAreProved(t *testing.T) {
	t.Parallel()
	s := newLineSite(t, "", false)
	var log bytes.Buffer
	sink, err := evidence.NewLog(&log, evidence.LogConfig{})
	must(t, err)
	l, err := Listen(t.Context(), "127.0.0.1:0", false)
	must(t, err)
	run(t, New(polite(t, sink, s.base()), nil), l)
	resp := raw(t, "http://"+l.Addr().String(), "GET http://"+s.address+"/50%-off?a=% HTTP/1.1\r\nHost: x\r\n\r\n")
	_, _ = io.Copy(io.Discard, resp.Body)
	must(t, sink.Close())
	if url := "http://" + s.address + "/50%25-off?a=%"; !strings.Contains(log.String(), `"`+url+`"`) {
		t.Errorf("no %s in\n%s", url, &log)
	}
	report, err := audit.Check(&log)
	must(t, err)
	if len(report.Violations) > 0 {
		t.Errorf("%v", report)
	}
}

// TestBodiesAreNoRequestLines: only the first line of a request is changed, however the bytes come.
func TestBodiesAreNoRequestLines(t *testing.T) {
	t.Parallel()
	s := newLineSite(t, "", false)
	proxy, _ := start(t, s.base())
	const sent = "\r\n\r\nGET /50%-off HTTP/1.1\r\n\r\nGET /%zz HTTP/1.1\r\nX: "
	conn, err := net.Dial("tcp", strings.TrimPrefix(proxy, "http://"))
	must(t, err)
	defer conn.Close()
	r := bufio.NewReader(conn)
	for range 3 {
		fmt.Fprintf(conn, "POST http://%s/%%zz HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", s.address, len(sent), sent)
		resp, err := http.ReadResponse(r, nil)
		must(t, err)
		body, _ := io.ReadAll(resp.Body)
		if string(body) != sent {
			t.Errorf("the site got %q", body)
		}
	}
	// Two at once, as few programs send them.
	get := "GET http://" + s.address + "/%zz HTTP/1.1\r\nHost: x\r\n\r\n"
	_, err = io.WriteString(conn, get+get)
	must(t, err)
	for i := range 2 {
		resp, err := http.ReadResponse(r, nil)
		must(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%d of two at once: %s", i+1, resp.Status)
		}
	}
	asked := s.asked()
	if len(asked) != 5 {
		t.Errorf("the site was asked for %q", asked)
	}
	for _, target := range asked {
		if target != "/%zz" {
			t.Errorf("the site was asked for %q", target)
		}
	}
}

// TestTheWrappingStaysASecret: a program that knew how targets are wrapped up could send some that
// net/http refuses for good reasons.
func TestTheWrappingStaysASecret(t *testing.T) {
	t.Parallel()
	proxy := serveBase(t, Base(), nil)
	const line = "TRACE http://site.example/a|b HTTP/1.1"
	resp := raw(t, proxy, line+"\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n")
	echo, _ := io.ReadAll(resp.Body)
	if !strings.HasPrefix(string(echo), line+"\r\n") {
		t.Errorf("it came as %q", echo)
	}
}

// TestOddTargetsOfTwoSitesAreTwoRequests: whoever is told when to come back has no other site's time.
func TestOddTargetsOfTwoSitesAreTwoRequests(t *testing.T) {
	t.Parallel()
	wraps := newWrapping()
	known := map[uint64]string{}
	for _, target := range []string{
		"http://a.example/a|b", "http://b.example/a|b", "https://a.example/a|b", "http://a.example/a|b?", "http://a.example/a%7Cb",
	} {
		req := httptest.NewRequest(http.MethodGet, wraps.wrap(target), nil)
		wraps.unwrap(req)
		id := requestOf(req)
		if other, ok := known[id]; ok {
			t.Errorf("%s is taken for %s", target, other)
		}
		known[id] = target
	}
}

// FuzzRequestConn: whatever comes, in whatever pieces, the bytes pass as they came but for the
// target of the first line.
func FuzzRequestConn(f *testing.F) {
	for _, target := range oddTargets {
		f.Add("GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\nGET /%zz HTTP/1.1", 3)
	}
	f.Add("\x16\x03\x01 \x00", 1)
	f.Add("\r\nPOST /a HTTP/1.1\n\nGET % ", 1)
	f.Add("GET /a HTTP/1.1\r\nHost: x\r\n\r\n", 0)
	f.Fuzz(func(t *testing.T, text string, size int) {
		wraps := newWrapping()
		pass := func(pieces func(io.Reader) io.Reader) string {
			c := &requestConn{Conn: &readConn{Reader: pieces(strings.NewReader(text))}, wraps: wraps}
			var r io.Reader = c
			if size%2 == 1 {
				r = iotest.OneByteReader(c)
			}
			got, err := io.ReadAll(r)
			must(t, err)
			c.state(http.StateHijacked) // what was held back comes then
			rest, _ := io.ReadAll(c)
			return string(got) + string(rest)
		}
		all := pass(func(r io.Reader) io.Reader { return r })
		if slowly := pass(iotest.OneByteReader); slowly != all {
			t.Fatalf("%q became %q, and byte by byte %q", text, all, slowly)
		}
		if !strings.Contains(all, string(wraps)) {
			if all != text {
				t.Fatalf("%q became %q", text, all)
			}
			return
		}
		before, wrapped, _ := strings.Cut(all, string(wraps))
		wrapped, after, _ := strings.Cut(wrapped, " ")
		req := httptest.NewRequest(http.MethodGet, string(wraps)+wrapped, nil)
		wraps.unwrap(req)
		unwrapped := req.URL
		if want := before + unwrapped.RequestURI() + " " + after; unwrapped.Opaque != "" && want != text {
			t.Fatalf("%q became %q", text, want)
		}
	})
}

// A readConn is a connection that a text comes from.
type readConn struct {
	net.Conn
	io.Reader
}

func (r *readConn) Read(p []byte) (int, error) { return r.Reader.Read(p) }
