package robotscache

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// These tests run on a real server on the loopback interface. They assert results, never speed.

// serve starts a server, and returns a rig that reaches it.
func serve(t *testing.T, cfg Config, handler http.HandlerFunc) (r *rig, base string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return newRig(t, cfg, transport.RoundTrip), server.URL
}

// hijack takes over the connection, and writes bytes past the HTTP server.
func hijack(t *testing.T, w http.ResponseWriter, raw string) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return nil
	}
	_, _ = io.WriteString(conn, raw)
	return conn
}

func TestNetworkAnswers(t *testing.T) {
	r, base := serve(t, Config{}, func(w http.ResponseWriter, req *http.Request) {
		if req.UserAgent() != userAgent || req.Header.Get("Cookie")+req.Header.Get("Authorization")+req.Header.Get("Referer") != "" {
			t.Errorf("header %v", req.Header)
		}
		switch {
		case req.URL.Path == "/robots.txt":
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
			http.Redirect(w, req, "/rules", http.StatusFound)
		case req.Header.Get("If-None-Match") == `"1"`:
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("ETag", `"1"`)
			_, _ = io.WriteString(w, private)
		}
	})
	r.cfg.TTL = time.Microsecond
	for i := range 3 {
		if e := r.get(t, base); allowed(e, "/private") || e.Denied {
			t.Errorf("%+v", e)
		}
		if ev := r.event(t); ev.Revalidated != (i > 0) || ev.SHA256 != sum(private) || ev.Hops != 1 || ev.URL != base+"/rules" {
			t.Errorf("event %+v", ev)
		}
	}
}

func TestNetworkFailures(t *testing.T) {
	tests := map[string]struct {
		handler func(http.ResponseWriter, *http.Request)
		reason  string
	}{
		"closed without a word": {func(w http.ResponseWriter, _ *http.Request) {
			hijack(t, w, "").Close()
		}, "network: "},
		"reset": {func(w http.ResponseWriter, _ *http.Request) {
			conn := hijack(t, w, "")
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}, "network: "},
		"reset in the body": {func(w http.ResponseWriter, req *http.Request) {
			conn := hijack(t, w, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"+private)
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}, ""}, // the reset may overtake the headers
		"not HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			hijack(t, w, "SSH-2.0-OpenSSH_9.9\r\n\r\n").Close()
		}, "network: "},
		"shorter than its Content-Length": {func(w http.ResponseWriter, _ *http.Request) {
			hijack(t, w, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"+private).Close()
		}, "status 200 with a broken body: unexpected EOF"},
		"Content-Length that is none": {func(w http.ResponseWriter, _ *http.Request) {
			hijack(t, w, "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"+private).Close()
		}, "network: "},
		"chunks without an end": {func(w http.ResponseWriter, _ *http.Request) {
			hijack(t, w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nUser-\r\n").Close()
		}, "status 200 with a broken body: unexpected EOF"},
		"broken chunks": {func(w http.ResponseWriter, _ *http.Request) {
			hijack(t, w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nUser-\r\n").Close()
		}, "status 200 with a broken body: "},
		"half gzip": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, compressed(t, "gzip", private)[:30])
		}, "status 200 with a broken body: "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, base := serve(t, Config{}, tt.handler)
			e := r.get(t, base)
			if !e.Denied || !strings.HasPrefix(e.Reason, tt.reason) {
				t.Errorf("%+v", e)
			}
			if got := time.Until(e.Expires); got > 5*time.Minute || got < 4*time.Minute {
				t.Errorf("asked again after %v", got)
			}
			if ev := r.event(t); !ev.Unreachable || ev.SHA256 != "" || ev.Reason != e.Reason {
				t.Errorf("event %+v", ev)
			}
		})
	}
}

func TestNetworkLongerThanItsContentLength(t *testing.T) {
	r, base := serve(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		hijack(t, w, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 32\r\n\r\nUser-agent: *\nDisallow: /private\nAllow: /\n").Close()
	})
	if e := r.get(t, base); e.Denied || allowed(e, "/private") || r.event(t).Bytes != 32 {
		t.Errorf("%+v, event %+v", e, r.event(t))
	}
}

func TestNetworkRefusedConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	// Nobody listens on the port of a connection's other end, and nobody else gets that port.
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	base := "http://" + conn.LocalAddr().String()
	r := newRig(t, Config{}, (&http.Transport{}).RoundTrip)
	for range 2 { // the second gets the cached one
		e := r.get(t, base)
		var cause *net.OpError
		if !e.Denied || !strings.Contains(e.Reason, "refused") || !errors.As(e.Err, &cause) || e.Err.Error() != e.Reason {
			t.Errorf("%+v", e)
		}
	}
}

// An Entry has an error if its origin is unreachable, and only then.
func TestEntryOfAnUnreachableOriginHasAnError(t *testing.T) {
	status := 0
	r, base := serve(t, Config{DenyTTL: time.Microsecond}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	for _, status = range []int{503, 404} {
		e := r.get(t, base)
		if unreachable := status == 503; (e.Err != nil) != unreachable || unreachable && e.Err.Error() != e.Reason {
			t.Errorf("status %d: %+v", status, e)
		}
	}
}

// A name that doesn't exist has another Reason than a network that fails.
func TestNameWithoutAddressIsNamed(t *testing.T) {
	lookup := &net.DNSError{Err: "no such host", Name: "no\x1bsuch.example", Server: "192.0.2.53:53", IsNotFound: true}
	for want, notFound := range map[string]bool{
		`no address for the name no\x1bsuch.example`:                                  true,
		`network: dial tcp: lookup no\x1bsuch.example on 192.0.2.53:53: no such host`: false,
	} {
		lookup.IsNotFound = notFound
		r := newRig(t, Config{}, func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: lookup}
		})
		if e := r.get(t, site); !e.Denied || e.Reason != want || !errors.Is(e.Err, lookup) {
			t.Errorf("%+v, want the reason %q", e, want)
		}
	}
}

func TestNetworkTimeouts(t *testing.T) {
	for name, before := range map[string]string{
		"silence":           "",
		"half a header":     "HTTP/1.1 200 OK\r\nContent-",
		"headers, no body":  "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
		"half a body":       "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + private,
		"a body for ever":   "HTTP/1.1 200 OK\r\n\r\n" + private,
		"half an error":     "HTTP/1.1 500 Oops\r\nContent-Length: 1000\r\n\r\nSorry",
		"redirected, stuck": "HTTP/1.1 302 Found\r\nLocation: /robots.txt\r\nContent-Length: 1000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r, base := serve(t, Config{Timeout: 50 * time.Millisecond}, func(w http.ResponseWriter, _ *http.Request) {
				conn := hijack(t, w, before)
				defer conn.Close()
				_, _ = io.Copy(io.Discard, conn) // until the client closes
			})
			e := r.get(t, base)
			if !e.Denied || name != "half an error" && e.Reason != "no complete response within 50ms" {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestNetworkDrip: a byte now and then, which no idle timeout would catch.
func TestNetworkDrip(t *testing.T) {
	r, base := serve(t, Config{Timeout: 100 * time.Millisecond}, func(w http.ResponseWriter, req *http.Request) {
		for req.Context().Err() == nil {
			_, _ = io.WriteString(w, "#")
			_ = http.NewResponseController(w).Flush()
			_ = pass(req.Context(), 5*time.Millisecond)
		}
	})
	if e := r.get(t, base); !e.Denied || e.Reason != "no complete response within 100ms" {
		t.Errorf("%+v", e)
	}
}

func TestNetworkTLSFailure(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	r := newRig(t, Config{}, (&http.Transport{}).RoundTrip) // doesn't trust it
	var cause *tls.CertificateVerificationError
	if e := r.get(t, server.URL); !e.Denied || !strings.Contains(e.Reason, "certificate") || !errors.As(e.Err, &cause) {
		t.Errorf("%+v", e)
	}
	// TLS to a server of plain HTTP, and the other way round.
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	if e := r.get(t, strings.Replace(plain.URL, "http:", "https:", 1)); !e.Denied {
		t.Errorf("%+v", e)
	}
	// Go's server answers plain HTTP on its TLS port with a 400: there are no rules.
	if e := r.get(t, strings.Replace(server.URL, "https:", "http:", 1)); e.Denied || r.event(t).Status != 400 {
		t.Errorf("%+v", e)
	}
	// The same server, trusted.
	r = newRig(t, Config{}, server.Client().Transport.RoundTrip)
	if e := r.get(t, server.URL); e.Denied || r.event(t).Status != 404 {
		t.Errorf("%+v", e)
	}
}

func TestNetworkRedirectLoop(t *testing.T) {
	var requests atomic.Int32
	r, base := serve(t, Config{}, func(w http.ResponseWriter, req *http.Request) {
		requests.Add(1)
		http.Redirect(w, req, "/robots.txt", http.StatusMovedPermanently)
	})
	if e := r.get(t, base); e.Denied || !allowed(e, "/private") {
		t.Errorf("%+v", e)
	}
	if ev := r.event(t); requests.Load() != 6 || ev.Hops != 5 || ev.Status != 301 {
		t.Errorf("%d requests, event %+v", requests.Load(), ev)
	}
}

// TestNetworkRedirectAcrossHosts: from http to https and back, to other ports.
func TestNetworkRedirectAcrossHosts(t *testing.T) {
	var plain *httptest.Server
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, plain.URL+"/rules", http.StatusPermanentRedirect)
	}))
	defer secure.Close()
	plain = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/rules" {
			_, _ = io.WriteString(w, private)
			return
		}
		u, _ := url.Parse(secure.URL)
		u.User = url.UserPassword("user", "secret")
		http.Redirect(w, req, u.String(), http.StatusTemporaryRedirect)
	}))
	defer plain.Close()
	r := newRig(t, Config{}, secure.Client().Transport.RoundTrip)
	if e := r.get(t, plain.URL); e.Denied || allowed(e, "/private") {
		t.Errorf("%+v", e)
	}
	if ev := r.event(t); ev.Hops != 2 || ev.Origin != plain.URL || ev.URL != plain.URL+"/rules" {
		t.Errorf("event %+v", ev)
	}
}

// TestNetworkGzip: decompressed by the transport, or by the cache if DisableCompression is set.
func TestNetworkGzip(t *testing.T) {
	for _, disabled := range []bool{false, true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if got := req.Header.Get("Accept-Encoding"); (got == "gzip") == disabled {
				t.Errorf("Accept-Encoding: %q", got)
			}
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, compressed(t, "gzip", private))
		}))
		transport := &http.Transport{DisableCompression: disabled}
		r := newRig(t, Config{}, transport.RoundTrip)
		if e := r.get(t, server.URL); e.Denied || allowed(e, "/private") || r.event(t).SHA256 != sum(private) {
			t.Errorf("compression disabled %v: %+v", disabled, e)
		}
		transport.CloseIdleConnections()
		server.Close()
	}
}

// TestNetworkGzipBomb: at most MaxBody of 10 MB is decompressed, and of an endless body no more is
// read than that takes.
func TestNetworkGzipBomb(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	_, _ = io.WriteString(w, private)
	_, _ = io.WriteString(w, strings.Repeat("Disallow: /\n", 10<<20/12))
	w.Close()
	for _, disabled := range []bool{false, true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		}))
		transport := &http.Transport{DisableCompression: disabled}
		unpacked := 0
		r := newRig(t, Config{}, func(req *http.Request) (*http.Response, error) {
			resp, err := transport.RoundTrip(req)
			if err == nil && resp.Uncompressed {
				body := resp.Body
				resp.Body = struct {
					io.Reader
					io.Closer
				}{readerFunc(func(p []byte) (int, error) {
					n, err := body.Read(p)
					unpacked += n
					return n, err
				}), body}
			}
			return resp, err
		})
		e := r.get(t, server.URL)
		if e.Denied || allowed(e, "/") || unpacked > MaxBody+1 || r.event(t).Bytes > MaxBody {
			t.Errorf("compression disabled %v: %d bytes unpacked, %d kept, %+v", disabled, unpacked, r.event(t).Bytes, e)
		}
		transport.CloseIdleConnections()
		server.Close()
	}

	// Of an endless plain body the server can't send all.
	sent := make(chan int64, 1)
	r, base := serve(t, Config{}, func(w http.ResponseWriter, req *http.Request) {
		var n int64
		for req.Context().Err() == nil && n < 1<<30 {
			m, err := io.WriteString(w, "User-agent: *\nDisallow: /private\n")
			n += int64(m)
			if err != nil {
				break
			}
		}
		sent <- n
	})
	if e := r.get(t, base); e.Denied || allowed(e, "/private") || !allowed(e, "/") {
		t.Errorf("%+v", e)
	}
	if n := <-sent; n == 1<<30 {
		t.Errorf("the server sent all of its %d bytes", n)
	}
}

// TestNetworkLeaving: the server sees the request end when the last caller leaves.
func TestNetworkLeaving(t *testing.T) {
	gone := make(chan struct{})
	arrived := make(chan struct{})
	r, base := serve(t, Config{}, func(_ http.ResponseWriter, req *http.Request) {
		close(arrived)
		<-req.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := r.Get(ctx, parse(t, base)); err == nil {
		t.Error("an answer that was never given")
	}
	<-gone
}

// TestNetworkMiscoded: net/http fails at a plain text that is called gzip, and at what follows a gzip
// file. A second request asks for the text as it is, once.
func TestNetworkMiscoded(t *testing.T) {
	for name, body := range map[string]string{
		"plain text": private,
		"line ends":  compressed(t, "gzip", private) + "\r\n",
	} {
		var requests atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, body)
		}))
		transport := &http.Transport{}
		r := newRig(t, Config{}, transport.RoundTrip)
		if e := r.get(t, server.URL); e.Denied || allowed(e, "/private") || r.event(t).SHA256 != sum(private) {
			t.Errorf("%s: %+v", name, e)
		}
		if n := requests.Load(); n != 2 {
			t.Errorf("%s: %d requests", name, n)
		}
		transport.CloseIdleConnections()
		server.Close()
	}
}
