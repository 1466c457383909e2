package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/internal/localsite"
)

// oddSite answers each request but the ones for robots.txt and /page with the same bytes, and leaves
// it to the other side to hang up.
func oddSite(t *testing.T, answer string) (url string) {
	t.Helper()
	return rawSite(t, func(conn net.Conn) {
		fmt.Fprint(conn, answer)
		_, _ = io.Copy(io.Discard, conn)
	})
}

// rawSite answers each request but the ones for robots.txt and /page by a function, which writes the
// answer as it is.
func rawSite(t *testing.T, answer func(net.Conn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				if p := req.URL.Path; p == "/robots.txt" || p == "/page" {
					fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
					return
				}
				answer(conn)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// single serves a proxy that asks a site for one page at a time.
func single(t *testing.T) (url string) {
	t.Helper()
	cfg := politeness.Config{UserAgent: agent, Base: ByProgram(Base())}
	cfg.Hosts.Concurrency = 1
	transport, err := politeness.New(cfg)
	must(t, err)
	l, err := Listen(t.Context(), "127.0.0.1:0", false)
	must(t, err)
	run(t, New(transport, nil), l)
	return "http://" + l.Addr().String()
}

// TestAnOddAnswerHoldsNoSlot: whatever a site sends, the program gets an answer, and the next page
// of that site is fetched at once.
func TestAnOddAnswerHoldsNoSlot(t *testing.T) {
	t.Parallel()
	const body = "Content-Length: 2\r\n\r\nab"
	const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	for _, test := range []struct {
		name, header, answer string
		status               int
		kind                 string
	}{
		{"099", "", "HTTP/1.1 099 Odd\r\n" + body, 502, "http_protocol_error"},
		{"000", "", "HTTP/1.1 000 Odd\r\n" + body, 502, "http_protocol_error"},
		{"001, endless", "", "HTTP/1.1 001 Odd\r\n\r\nab", 502, "http_protocol_error"},
		{"600", "", "HTTP/1.1 600 Odd\r\nConnection: close\r\n" + body, 600, ""},
		{"999", "", "HTTP/1.1 999 Odd\r\nConnection: close\r\n" + body, 999, ""},
		{"101 unasked", "", "HTTP/1.1 101 Odd\r\n" + upgrade + "\r\n", 502, "http_upgrade_failed"},
		{"101 to another protocol", upgrade, "HTTP/1.1 101 Odd\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n", 502, "http_upgrade_failed"},
		{"101 to a name of bytes", upgrade, "HTTP/1.1 101 Odd\r\nConnection: Upgrade\r\nUpgrade: w\xffb\r\n\r\n", 502, "http_upgrade_failed"},
		{"101 to nothing", upgrade, "HTTP/1.1 101 Odd\r\n\r\n", 502, "http_upgrade_failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			site := oddSite(t, test.answer)
			proxy := single(t)
			resp := raw(t, proxy, "GET "+site+"/odd HTTP/1.1\r\nHost: x\r\n"+test.header+"\r\n")
			status := resp.Header.Get("Proxy-Status")
			if resp.StatusCode != test.status || !strings.Contains(status, test.kind) || (test.kind != "") != ours(resp.Header) {
				t.Errorf("%s, Proxy-Status: %s", resp.Status, status)
			}
			resp.Body.Close()
			if resp := raw(t, proxy, "GET "+site+"/page HTTP/1.1\r\nHost: x\r\n\r\n"); resp.StatusCode != http.StatusOK {
				t.Errorf("the next page: %s", resp.Status)
			}
		})
	}
}

// panics is a transport whose answers' bodies panic.
type panics struct{ http.RoundTripper }

type panickyBody struct{ io.ReadCloser }

func (panickyBody) Read([]byte) (int, error) { panic("odd body") }

func (p panics) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := p.RoundTripper.RoundTrip(req)
	if err == nil && req.URL.Path == "/odd" {
		resp.Body = panickyBody{resp.Body}
	}
	return resp, err
}

// TestAPanicHoldsNoSlot: if anything panics, the body is closed, and the program isn't left without
// an answer if none has begun.
func TestAPanicHoldsNoSlot(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	s.Handle("/odd", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html") // its first byte is waited for before the answer begins
		fmt.Fprint(w, strings.Repeat("a", 1<<20))
	})
	cfg := politeness.Config{UserAgent: agent, Base: Base()}
	cfg.Hosts.Concurrency = 1
	transport, err := politeness.New(cfg)
	must(t, err)
	p := New(transport, nil)
	p.forward.Transport = &sender{panics{transport}, newHall(), time.Second}
	server := httptest.NewServer(p)
	defer server.Close()
	resp := raw(t, server.URL, "GET "+s.URL+"/odd HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp.StatusCode != http.StatusInternalServerError || !strings.Contains(resp.Header.Get("Proxy-Status"), "proxy_internal_error") {
		t.Errorf("%s, %v", resp.Status, resp.Header)
	}
	if resp := raw(t, server.URL, "GET "+s.URL+"/a HTTP/1.1\r\nHost: x\r\n\r\n"); resp.StatusCode != http.StatusOK {
		t.Errorf("the next page: %s", resp.Status)
	}
}
