package promises_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
)

// arrivals are the times at which requests came to a server, by the server's own clock.
type arrivals struct {
	mu    sync.Mutex
	times []time.Time
	paths []string
}

func (a *arrivals) note(r *http.Request) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times, a.paths = append(a.times, now), append(a.paths, r.URL.Path)
}

// leastGap returns the shortest time between two arrivals.
func (a *arrivals) leastGap() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	least := time.Hour
	for i := 1; i < len(a.times); i++ {
		least = min(least, a.times[i].Sub(a.times[i-1]))
	}
	return least
}

func (a *arrivals) count(path string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.paths {
		if p == path {
			n++
		}
	}
	return n
}

// lateness measures by how much the machine wakes sleepers too late, until the returned function
// is called, which returns the worst. What a busy machine does to arrivals isn't the limiter's.
func lateness() func() time.Duration {
	var mu sync.Mutex
	var worst time.Duration
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				before := time.Now()
				time.Sleep(time.Millisecond)
				late := time.Since(before) - time.Millisecond
				mu.Lock()
				worst = max(worst, late)
				mu.Unlock()
			}
		})
	}
	return func() time.Duration {
		close(done)
		wg.Wait()
		return worst
	}
}

// slowDial is a DialContext that takes as long as a far server's handshake.
func slowDial(d time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
}

// Delay and dial of the tests whose delay is not said by a robots.txt: the dial is longer.
const (
	socketDelay = 120 * time.Millisecond
	socketDial  = 150 * time.Millisecond
)

// paced is a Config that keeps socketDelay between starts, whatever robots.txt says.
func paced(base http.RoundTripper) politeness.Config {
	return politeness.Config{
		UserAgent: agent, Base: base, DangerouslyIgnoreRobots: true,
		Hosts: hostlimit.Config{Concurrency: 4, Delay: hostlimit.Delay{Min: socketDelay}},
	}
}

func fetchAll(t *testing.T, client *http.Client, urls ...string) {
	t.Helper()
	var wg sync.WaitGroup
	for _, u := range urls {
		wg.Go(func() {
			resp, err := client.Get(u)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	}
	wg.Wait()
}

// robots.txt and the page that follows it are on connections of their own, as the first requests of
// a crawl are: twenty hosts, a dial of 450 ms and a crawl-delay of 0.4 s.
func TestColdConnectionsKeepTheCrawlDelayAtTheServer(t *testing.T) {
	t.Parallel()
	const hosts = 20
	late := lateness()
	var seen [hosts]arrivals
	var log bytes.Buffer
	sink := evidence.JSONLines(&log)
	transport := mustNew(t, politeness.Config{
		UserAgent: agent, Evidence: sink,
		Base:  &http.Transport{DialContext: slowDial(450 * time.Millisecond), DisableKeepAlives: true},
		Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: 10 * time.Millisecond}},
	})
	client := &http.Client{Transport: transport}
	var wg sync.WaitGroup
	for i := range hosts {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen[i].note(r)
			if r.URL.Path == "/robots.txt" {
				fmt.Fprint(w, "User-agent: *\nCrawl-delay: 0.4\n")
			}
		}))
		defer server.Close()
		wg.Go(func() { fetchAll(t, client, server.URL+"/a", server.URL+"/b") })
	}
	wg.Wait()
	slack := 3*late() + 5*time.Millisecond
	for i := range seen {
		if gap := seen[i].leastGap(); gap < wireDelay-slack {
			t.Errorf("host %d: two arrivals %v apart (the machine is up to %v late)", i, gap, slack)
		}
		if len(seen[i].times) != 3 {
			t.Errorf("host %d: %d arrivals", i, len(seen[i].times))
		}
	}
	if err := sink.Close(); err != nil {
		t.Error(err)
	}
	if report, err := audit.Check(&log); err != nil || !report.OK() {
		t.Errorf("%v\n%s", err, report)
	}
}

// However a transport comes to its connections, two arrivals are never close together.
func TestWiresOfAllKinds(t *testing.T) {
	t.Parallel()
	var kinds sync.WaitGroup // they wait more than they work, so all at once
	for _, c := range []struct {
		name   string
		server func(*httptest.Server)
		base   func(*http.Transport)
	}{
		{"HTTP/1.1, a connection for each", (*httptest.Server).Start, func(tr *http.Transport) { tr.DisableKeepAlives = true }},
		{"HTTP/1.1, kept alive", (*httptest.Server).Start, func(*http.Transport) {}},
		{"one connection for all", (*httptest.Server).Start, func(tr *http.Transport) { tr.MaxConnsPerHost = 1 }},
		{"TLS", (*httptest.Server).StartTLS, func(tr *http.Transport) { tr.DisableKeepAlives = true }},
		{"HTTP/2", func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }, func(tr *http.Transport) { tr.ForceAttemptHTTP2 = true }},
	} {
		kinds.Go(func() {
			t.Run(c.name, func(t *testing.T) {
				late := lateness()
				var seen arrivals
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					seen.note(r)
					time.Sleep(10 * time.Millisecond)
				}))
				c.server(server)
				defer server.Close()
				base := server.Client().Transport.(*http.Transport).Clone()
				c.base(base)
				base.DialContext = slowDial(socketDial)
				defer base.CloseIdleConnections()
				fetchAll(t, &http.Client{Transport: mustNew(t, paced(base))}, slices.Repeat([]string{server.URL + "/"}, 4)...)
				slack := 3*late() + 5*time.Millisecond
				if gap := seen.leastGap(); gap < socketDelay-slack {
					t.Errorf("two arrivals %v apart (the machine is up to %v late)", gap, slack)
				}
			})
		})
	}
	kinds.Wait()
}

func TestWireThroughAProxy(t *testing.T) {
	t.Parallel()
	late := lateness()
	var seen arrivals
	site := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen.note(r) }))
	defer site.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(socketDial) // the proxy's own dial
		there, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer there.Close()
		here, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer here.Close()
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(there, buffered) }()
		_, _ = io.Copy(here, there)
	}))
	defer proxy.Close()
	address, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	base := site.Client().Transport.(*http.Transport).Clone()
	base.Proxy, base.DisableKeepAlives = http.ProxyURL(address), true
	fetchAll(t, &http.Client{Transport: mustNew(t, paced(base))}, slices.Repeat([]string{site.URL + "/"}, 3)...)
	slack := 3*late() + 5*time.Millisecond
	if gap := seen.leastGap(); gap < socketDelay-slack {
		t.Errorf("two arrivals %v apart (the machine is up to %v late)", gap, slack)
	}
}

// A refusing limiter says no at the connection: nothing may be written to it, in HTTP/1 or 2.
func TestNothingIsWrittenAfterARefusalAtTheWire(t *testing.T) {
	t.Parallel()
	var kinds sync.WaitGroup // they wait more than they work, so all at once
	for _, secure := range []bool{false, true} {
		kinds.Go(func() {
			t.Run(fmt.Sprintf("HTTP/2 %v", secure), func(t *testing.T) {
				var seen arrivals
				var open atomic.Int32
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen.note(r) }))
				server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
					switch state {
					case http.StateNew:
						open.Add(1)
					case http.StateClosed, http.StateHijacked:
						open.Add(-1)
					}
				}
				if server.EnableHTTP2 = secure; secure {
					server.StartTLS()
				} else {
					server.Start()
				}
				defer server.Close()
				base := server.Client().Transport.(*http.Transport).Clone()
				base.DialContext, base.ForceAttemptHTTP2 = slowDial(20*time.Millisecond), secure
				defer base.CloseIdleConnections()
				cfg := paced(base)
				limiter := &refusesTheSecondStart{Limiter: mustLimiter(t, cfg.Hosts)}
				cfg.Limiter = limiter
				client := &http.Client{Transport: mustNew(t, cfg)}
				for range 8 {
					resp, err := client.Get(server.URL + "/refused")
					if err == nil {
						resp.Body.Close()
					}
					if !errors.Is(err, politeness.ErrBlocked) {
						t.Fatalf("%v", err)
					}
					if secure { // a connection that HTTP/2 shares goes on working
						limiter.lenient.Store(true)
						fetchAll(t, client, server.URL+"/fine")
						limiter.lenient.Store(false)
						for open.Load() > 0 { // that of an answer is idle a moment after its end
							base.CloseIdleConnections()
							time.Sleep(time.Millisecond)
						}
					}
				}
				if n := seen.count("/refused"); n != 0 {
					t.Errorf("%d requests reached the server", n)
				}
			})
		})
	}
	kinds.Wait()
}

func mustLimiter(t *testing.T, cfg hostlimit.Config) hostlimit.Limiter {
	t.Helper()
	cfg.Delay = hostlimit.Delay{DangerouslyNone: true}
	limiter, err := memory.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// refusesTheSecondStart lets each turn start once, when Base is called, and not again.
type refusesTheSecondStart struct {
	hostlimit.Limiter
	lenient atomic.Bool
}

func (l *refusesTheSecondStart) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	lease, err := l.Limiter.Acquire(ctx, key, floor)
	return &startsOnce{Lease: lease, lenient: l.lenient.Load()}, err
}

type startsOnce struct {
	hostlimit.Lease
	lenient, started bool
}

func (l *startsOnce) Start(ctx context.Context) (hostlimit.Grant, error) {
	if l.started && !l.lenient {
		return hostlimit.Grant{}, &hostlimit.Error{Key: "site", Err: hostlimit.ErrBlocked}
	}
	l.started = true
	return l.Lease.Start(ctx)
}

// net/http sends again when a kept connection turns out to be closed: the server must not see the
// two close together, although it may have read the first.
func TestNetHTTPsOwnResendKeepsTheGap(t *testing.T) {
	t.Parallel()
	late := lateness()
	var seen arrivals
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { // answers once on each connection, reads one request more, and hangs up
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for i := range 2 {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					seen.note(req)
					if i == 0 {
						_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					}
				}
			}()
		}
	}()
	recorder := new(evidence.Recorder)
	cfg := paced(&http.Transport{})
	cfg.Evidence = recorder
	client := &http.Client{Transport: mustNew(t, cfg)}
	target := "http://" + listener.Addr().String() + "/"
	fetchAll(t, client, target)
	fetchAll(t, client, target)
	slack := 3*late() + 5*time.Millisecond
	if gap := seen.leastGap(); gap < socketDelay-slack || len(seen.times) != 3 {
		t.Errorf("%d arrivals, two of them %v apart (the machine is up to %v late)", len(seen.times), gap, slack)
	}
	if n := len(recorder.Decisions(evidence.Resent)); n != 1 {
		t.Errorf("%d records of a resend, want 1", n)
	}
}

// A server that wants to be asked with 100-continue sees one arrival for each request.
func TestWireWith100Continue(t *testing.T) {
	t.Parallel()
	var seen arrivals
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen.note(r)
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer server.Close()
	base := &http.Transport{ExpectContinueTimeout: time.Minute, DialContext: slowDial(100 * time.Millisecond)}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: mustNew(t, paced(base))}
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Expect", "100-continue")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if n := seen.count("/"); n != 2 {
		t.Errorf("%d arrivals, want 2", n)
	}
}

// A Base that traces nothing, and one that begins a trace of its own as otelhttp does.
func TestWireUnderOtherBases(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	slow := &http.Transport{DialContext: slowDial(50 * time.Millisecond), DisableKeepAlives: true}
	for _, c := range []struct {
		name  string
		base  http.RoundTripper
		waits bool // for a connection, as the log says
	}{
		{"without hooks", roundTripFunc(func(r *http.Request) (*http.Response, error) {
			return slow.RoundTrip(r.Clone(context.Background()))
		}), false},
		{"with a trace of its own", roundTripFunc(func(r *http.Request) (*http.Response, error) {
			return slow.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {}})))
		}), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorder := new(evidence.Recorder)
			cfg := paced(c.base)
			cfg.Evidence = recorder
			fetchAll(t, &http.Client{Transport: mustNew(t, cfg)}, server.URL)
			started := recorder.Decisions(evidence.Started)
			if len(started) != 1 || (started[0].WaitConnect > 0) != c.waits {
				t.Errorf("%+v", started)
			}
		})
	}
}

// A request that is given up is taken back from the machine: a site that a cut network hid doesn't
// get it later, beside the next one. A connection whose request was answered ends in peace.
func TestGivenUpRequestIsTakenBack(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) {
			t.Parallel()
			ends := make(chan error, 2) // of connections, as the site sees them
			came := make(chan struct{})
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, buffered, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				if r.URL.Path == "/answered" {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				} else {
					close(came)
				}
				_, err = io.Copy(io.Discard, buffered)
				if s, ok := conn.(*tls.Conn); ok && err == nil {
					_, err = io.Copy(io.Discard, s.NetConn()) // what comes after TLS's own good-bye
				}
				ends <- err
			}))
			if secure {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			base := server.Client().Transport.(*http.Transport)
			client := &http.Client{Transport: mustNew(t, paced(base))}

			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-came
				cancel()
			}()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/lost", nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Do(req); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if err := <-ends; err == nil {
				t.Error("the connection of the request that was given up was closed in peace, want a reset")
			}
			resp, err := client.Get(server.URL + "/answered")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			base.CloseIdleConnections()
			if err := <-ends; err != nil {
				t.Errorf("the connection whose request was answered ended with %v", err)
			}
		})
	}
}

// A caller who leaves between the start that was given up and the next one leaves no hole in the
// numbers that the log doesn't explain.
func TestLeavingAtTheWireIsOnRecord(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	left := false
	var log bytes.Buffer
	sink := evidence.JSONLines(&log)
	cfg := paced(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path != "/left" {
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
		}
		left = true
		leave()
		time.Sleep(10 * time.Millisecond) // a slow dial
		httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
		return nil, context.Cause(r.Context())
	}))
	cfg.Evidence = sink
	client := &http.Client{Transport: mustNew(t, cfg)}
	for _, path := range []string{"/", "/left", "/", "/"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.com"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if path == "/left" {
			req = req.WithContext(ctx)
		}
		resp, err := client.Do(req)
		if (err != nil) != (path == "/left") {
			t.Fatalf("%s: %v", path, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
	if err := sink.Close(); err != nil || !left {
		t.Fatal(err, left)
	}
	report, err := audit.Check(&log)
	if err != nil || !report.OK() {
		t.Error(err, report)
	}
}
