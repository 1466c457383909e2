package promises_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
)

// stuck is longer than a try takes on a busy machine: without a bound net/http goes on opening
// connections until then.
const stuck = 30 * time.Second

// An h2Site is a server that speaks HTTP/2 and counts its connections.
type h2Site struct {
	*httptest.Server
	opened   atomic.Int64 // TLS connections
	mu       sync.Mutex
	requests []string // "HOST PATH" of each request, as it came
}

func newH2Site(t *testing.T, answer http.HandlerFunc) *h2Site {
	s := new(h2Site)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Host+" "+r.URL.Path)
		s.mu.Unlock()
		answer(w, r)
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		s.opened.Add(1)
		return nil, nil
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// base connects whatever host is asked for to s.
func (s *h2Site) base() *http.Transport {
	base := s.Client().Transport.(*http.Transport).Clone()
	base.TLSClientConfig.InsecureSkipVerify = true // whatever its name is
	base.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}
	return base
}

func (s *h2Site) polite(t *testing.T, cfg politeness.Config) *politeness.Transport {
	cfg.UserAgent, cfg.Base = agent, s.base()
	cfg.Hosts = hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond, Max: 2 * time.Millisecond}}
	polite, err := politeness.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(polite.CloseIdleConnections)
	return polite
}

// net/http's pool of HTTP/2 connections doesn't find those of a host in another than the one
// spelling, and opens one after the other.
func TestAHostIsAskedInItsOneSpelling(t *testing.T) {
	for _, host := range []string{"BÜCHER.example", "example。com", "EXAMPLE.com:443", "example.com:", "bücher.example:0443", "example.com."} {
		t.Run(host, func(t *testing.T) {
			site := newH2Site(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })
			log := &evidence.Recorder{}
			client := &http.Client{Transport: site.polite(t, politeness.Config{Evidence: log}), Timeout: stuck}
			resp, err := client.Get("https://" + host + "/page")
			if err != nil {
				t.Fatalf("%v, after %d connections", err, site.opened.Load())
			}
			resp.Body.Close()
			if resp.Request.URL.Host != strings.TrimSuffix(host, ":") {
				t.Errorf("the response is to a request of %s: the caller's is %s", resp.Request.URL.Host, host)
			}
			if n := site.opened.Load(); n > 2 { // robots.txt and the page, or one for both
				t.Errorf("%d connections", n)
			}
			want := "example.com"
			if strings.Contains(strings.ToLower(host), "b") {
				want = "xn--bcher-kva.example"
			}
			site.mu.Lock()
			defer site.mu.Unlock()
			if got := strings.Join(site.requests, ", "); got != want+" /robots.txt, "+want+" /page" {
				t.Errorf("the site has got: %s", got)
			}
			for _, d := range log.Decisions() {
				if d.Connections != 0 {
					t.Errorf("on record: %d connections", d.Connections)
				}
			}
		})
	}
}

func TestARedirectToAnotherSpellingIsAskedInTheOne(t *testing.T) {
	site := newH2Site(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/":
			w.Header().Set("Location", "https://victim。example/page")
			w.WriteHeader(http.StatusFound)
		case r.URL.Path == "/robots.txt" && r.Host == "moved.example":
			w.Header().Set("Location", "https://VICTIM。example/rules")
			w.WriteHeader(http.StatusFound)
		}
	})
	client := &http.Client{Transport: site.polite(t, politeness.Config{}), Timeout: stuck}
	for _, u := range []string{"https://any.example/", "https://moved.example/page"} {
		resp, err := client.Get(u)
		if err != nil {
			t.Fatalf("%s: %v, after %d connections", u, err, site.opened.Load())
		}
		resp.Body.Close()
	}
	if n := site.opened.Load(); n > 4 { // of three hosts
		t.Errorf("%d connections", n)
	}
}

// net/http goes on opening connections where a server says at once that each is at its end.
func TestNoTryOpensMoreThanThreeConnections(t *testing.T) {
	site := httptest.NewTLSServer(nil)
	certificates := site.TLS.Certificates
	site.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificates, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int64
	served, hangUp := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				if conn.(*tls.Conn).HandshakeContext(t.Context()) != nil {
					return
				}
				opened.Add(1)
				_, _ = io.WriteString(conn, "\x00\x00\x00\x04\x00\x00\x00\x00\x00"+ // SETTINGS
					"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00") // GOAWAY
				// Where the server hangs up, a client on a busy machine may not have read that yet.
				context.AfterFunc(served, func() { conn.Close() })
				_, _ = io.Copy(io.Discard, conn)
			})
		}
	})
	defer serving.Wait()
	defer listener.Close()
	defer hangUp()

	log := &evidence.Recorder{}
	cfg := politeness.Config{
		UserAgent: agent, Evidence: log, DangerouslyIgnoreRobots: true,
		Base:  &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond, Max: 2 * time.Millisecond}},
	}
	polite, err := politeness.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&http.Client{Transport: polite, Timeout: stuck}).Get("https://" + listener.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "3 connections") {
		t.Errorf("error: %v", err)
	}
	if n := opened.Load(); n > 3 {
		t.Errorf("%d connections", n)
	}
	if failed := log.Decisions(evidence.Failed); len(failed) != 1 || failed[0].Connections != 3 {
		t.Errorf("on record: %+v", failed)
	}
	if s := polite.Status(t.Context()); len(s.Hosts) != 1 || s.Hosts[0].InFlight > 0 {
		t.Errorf("hosts: %+v", s.Hosts)
	}
}
