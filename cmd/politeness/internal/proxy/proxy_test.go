package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/localsite"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/publicnet"
)

const agent = "ProxyTest/1.0 (+https://example.com/bot; bot@example.com)"

// polite returns a Transport over base.
func polite(t *testing.T, proof evidence.Evidence, base http.RoundTripper) *politeness.Transport {
	t.Helper()
	cfg := politeness.Config{UserAgent: agent, Base: base, Evidence: proof}
	cfg.Hosts.MaxWait = time.Minute
	cfg.Hosts.Delay.Min, cfg.Hosts.Delay.Max = 20*time.Millisecond, 40*time.Millisecond
	transport, err := politeness.New(cfg.WithState(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

// startProxy starts the proxy and returns its URL, and what audits its log once
// all clients are done.
func startProxy(t *testing.T) (proxyURL string, prove func() *audit.Report) {
	t.Helper()
	var log bytes.Buffer
	proof := evidence.JSONLines(&log)
	transport := polite(t, proof, Base())
	var handlers sync.WaitGroup
	proxy := New(transport, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() *audit.Report {
		t.Helper()
		server.Close()  // waits for the handlers, and so for the last records,
		handlers.Wait() // but for those whose connections were switched
		if err := proof.Close(); err != nil {
			t.Fatal(err)
		}
		report, err := audit.Check(&log)
		if err != nil {
			t.Fatal(err)
		}
		if !report.OK() {
			t.Error(report)
		}
		return report
	}
}

// through returns a client of the proxy that follows no redirects.
func through(t *testing.T, proxy string) *http.Client {
	t.Helper()
	u, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = http.ProxyURL(u)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// want is what the paths of the site are answered by, if each is asked for once.
var want = map[string]int{
	"/a": 200, "/b": 200, "/c": 200, "/d": 200, "/moved": 301, "/trap": 302, "/busy": 429, "/private/diary": 403,
}

// checkSite holds what the site saw against want.
func checkSite(t *testing.T, s *localsite.Site, want map[string]int, report *audit.Report) {
	t.Helper()
	for path, status := range want {
		times := 1
		if status == http.StatusForbidden {
			times = 0
		}
		if n := len(s.Visits(path)); n != times {
			t.Errorf("%s was asked for %d times, not %d", path, n, times)
		}
	}
	for _, v := range s.Visits() {
		if got := v.Header.Get("User-Agent"); got != agent {
			t.Errorf("%s was asked for by %q", v.Target, got)
		}
	}
	if found := s.Violations(); found != nil {
		t.Error(found)
	}
	if logged, seen := report.Records[evidence.Started], len(s.Visits()); logged != seen {
		t.Errorf("the log knows of %d requests, the site of %d", logged, seen)
	}
}

// getAll gets all of want at once, and checks what comes.
func getAll(t *testing.T, client *http.Client, site string) {
	t.Helper()
	var group sync.WaitGroup
	for path, status := range want {
		group.Go(func() {
			resp, err := client.Get(site + path)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != status {
				t.Errorf("%s: status %d, not %d; %v", path, resp.StatusCode, status, err)
			}
			if refused := status == http.StatusForbidden; ours(resp.Header) != refused || bytes.Contains(body, []byte("Disallow: /private")) != refused {
				t.Errorf("%s: Proxy-Status %q, %s", path, resp.Header.Get("Proxy-Status"), body)
			}
		})
	}
	group.Wait()
}

func TestGoClient(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	proxy, prove := startProxy(t)
	client := through(t, proxy)
	getAll(t, client, s.URL)
	checkSite(t, s, want, prove())
}

// curl runs curl, or reports that this machine has none: the Go client has been
// through the same.
func curl(t *testing.T, args ...string) (output string, ok bool) {
	t.Helper()
	path, err := exec.LookPath("curl")
	if err != nil {
		t.Log(err)
		return "", false
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{"--disable", "--silent", "--show-error", "--noproxy", ""}, args...)...)
	cmd.Env = []string{} // no http_proxy of this machine
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v\n%s", cmd, err, out)
	}
	return string(out), true
}

// curl needs real connections and so real time: the paths are a few, all of them with
// POLITENESS_LONG=1 (make test).
func TestCurl(t *testing.T) {
	t.Parallel()
	want := want
	if os.Getenv("POLITENESS_LONG") == "" {
		want = map[string]int{"/a": 200, "/trap": 302, "/private/diary": 403}
	}
	s := localsite.New(t, 0)
	proxy, prove := startProxy(t)
	args := []string{"--proxy", proxy, "--parallel", "--write-out", `%{http_code} %{url_effective}\n`}
	for path := range want {
		args = append(args, s.URL+path, "--output", os.DevNull)
	}
	out, ok := curl(t, args...)
	report := prove()
	if !ok {
		return
	}
	for path, status := range want {
		if line := fmt.Sprintf("%d %s%s\n", status, s.URL, path); !strings.Contains(out, line) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
	checkSite(t, s, want, report)
}

// https through a tunnel is refused, with a text that says why and what to do.
func TestConnect(t *testing.T) {
	proxy, prove := startProxy(t)
	resp, err := through(t, proxy).Get("https://site.example/")
	if err == nil {
		resp.Body.Close()
		t.Fatal("a tunnel was opened")
	}
	if !strings.Contains(err.Error(), http.StatusText(http.StatusMethodNotAllowed)) {
		t.Errorf("error is %v", err)
	}
	answer := raw(t, proxy, "CONNECT site.example:443 HTTP/1.1\r\nHost: site.example:443\r\n\r\n")
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") == "" || !ours(answer.Header) ||
		!strings.Contains(string(body), "--request-target") {
		t.Errorf("%v: %s", answer, body)
	}
	prove()
}

// raw sends a request as it is written.
func raw(t *testing.T, server, request string) *http.Response {
	t.Helper()
	resp, _, _ := dialogue(t, server, request)
	return resp
}

// dialogue is raw with the connection, and what was read of it beyond the response.
func dialogue(t *testing.T, server, request string) (*http.Response, net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp, conn, reader
}

// An https URL in the open works: the proxy speaks TLS to the site.
func TestHTTPSInTheOpen(t *testing.T) {
	t.Parallel()
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			fmt.Fprint(w, "User-agent: *\nDisallow: /private\n")
			return
		}
		fmt.Fprintf(w, "over TLS: %v, host %s", r.TLS != nil, r.Host)
	}))
	defer site.Close()
	server := httptest.NewServer(New(polite(t, nil, site.Client().Transport), nil))
	defer server.Close()
	host := strings.TrimPrefix(site.URL, "https://")
	page := "over TLS: true, host " + host

	resp := raw(t, server.URL, fmt.Sprintf("GET %s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", site.URL, host))
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != page {
		t.Errorf("%s: %s", resp.Status, body)
	}
	for path, want := range map[string]string{"/": page, "/private": "Disallow: /private"} {
		out, ok := curl(t, "--proxy", server.URL, "--request-target", site.URL+path, "http://"+host+path)
		if ok && !strings.Contains(out, want) {
			t.Errorf("%s: %s", path, out)
		}
	}
}

func TestListenOnLoopbackUnlessTold(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "10.0.0.1:0", "169.254.0.1:0"} {
		if l, err := Listen(t.Context(), address, false); err == nil {
			t.Errorf("listens on %s", l.Addr())
			l.Close()
		} else if !strings.Contains(err.Error(), "a loopback address") {
			t.Error(err)
		}
	}
	for address, remote := range map[string]bool{"127.0.0.1:0": false, "localhost:0": false, "127.3.2.1:0": false, "0.0.0.0:0": true} {
		l, err := Listen(t.Context(), address, remote)
		if err != nil {
			t.Error(err)
			continue
		}
		l.Close()
	}
}

// TestPrivateTargetsOnlyByFlag: a program that is led astray reaches nothing on this machine.
func TestPrivateTargetsOnlyByFlag(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	proxy := httptest.NewServer(New(polite(t, nil, publicnet.Transport(Base())), nil))
	defer proxy.Close()
	client := through(t, proxy.URL)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"} {
		resp, err := client.Get("http://" + net.JoinHostPort(strings.Trim(host, "[]"), port) + "/a")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if status := resp.Header.Get("Proxy-Status"); resp.StatusCode != http.StatusForbidden || !strings.Contains(status, "destination_ip_prohibited") {
			t.Errorf("%s: %s, %s", host, resp.Status, status)
		}
	}
	if n := len(s.Visits()); n != 0 {
		t.Errorf("the site saw %d requests", n)
	}
}

func TestRefuse(t *testing.T) {
	soon := time.Now().Add(90*time.Second + 500*time.Millisecond)
	transport := polite(t, nil, Base())
	if err := transport.Limiter().Block(t.Context(), "site.example", soon, "the owner has called"); err != nil {
		t.Fatal(err)
	}
	proxy := New(transport, nil)
	for _, test := range []struct {
		name       string
		err        error
		status     int
		retryAfter string
		kind       string
	}{
		{"robots.txt", &politeness.Error{Stage: politeness.StageRobots, Err: politeness.ErrDisallowed}, 403, "", "http_request_denied"},
		{"robots.txt down", &politeness.Error{Stage: politeness.StageRobots, RetryAt: soon, Err: politeness.ErrDisallowed}, 503, "91", "http_request_denied"},
		{"blocked", &politeness.Error{Stage: politeness.StageTurn, Host: "site.example", RetryAt: soon, Err: politeness.ErrBlocked}, 503, "91", "http_request_denied"},
		{"busy", &politeness.Error{Stage: politeness.StageTurn, Host: "busy.example", RetryAt: soon, Err: politeness.ErrBusy}, 503, "91", "http_request_denied"},
		{"just now", &politeness.Error{Stage: politeness.StageTurn, RetryAt: time.Now(), Err: politeness.ErrBusy}, 503, "1", "http_request_denied"},
		{"no slot", &politeness.Error{Stage: politeness.StageTurn, Err: politeness.ErrBusy}, 503, "", "http_request_denied"},
		{"budget", &politeness.Error{Stage: politeness.StageBudget, Err: budget.ErrExceeded}, 403, "", "http_request_denied"},
		{"too large", &politeness.Error{Stage: politeness.StageResponse, Err: politeness.ErrTooLarge}, 403, "", "http_request_denied"},
		{"another type", &politeness.Error{Stage: politeness.StageResponse, Err: politeness.ErrContentType}, 403, "", "http_request_denied"},
		{"no URL", &politeness.Error{Stage: politeness.StageRequest, Err: errors.New("no host")}, 400, "", "http_request_error"},
		{"timeout", context.DeadlineExceeded, 504, "", "connection_timeout"},
		{"no network", errors.New(`dial "tcp": ünreachable`), 502, "", ""},
		{"something else", io.ErrUnexpectedEOF, 502, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			proxy.refuse(w, httptest.NewRequest(http.MethodGet, "/", nil), test.err)
			status := w.Header().Get("Proxy-Status")
			if w.Code != test.status || w.Header().Get("Retry-After") != test.retryAfter || !ours(w.Header()) {
				t.Errorf("status %d, headers %v", w.Code, w.Header())
			}
			if test.kind != "" && !strings.Contains(status, "; error="+test.kind+"; details=") {
				t.Errorf("Proxy-Status: %s", status)
			}
			want := test.err.Error()
			switch until := soon.Format(time.TimeOnly); test.name {
			case "blocked":
				want = "site.example: blocked (by hand: the owner has called) until " + until + ", longer than -max-wait (1m0s)"
			case "busy":
				want = "busy.example: no start until " + until + ", longer than -max-wait (1m0s)"
			case "just now":
				want = "no start until "
			}
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("body: %s, want %s", w.Body, want)
			}
		})
	}
	if got := quote(`dial "tcp" \ ünreachable` + "\n"); got != `"dial \"tcp\" \\ ?nreachable?"` {
		t.Errorf("quoted: %s", got)
	}
}

// What isn't meant for a proxy is no way into the network: a page in a browser can send
// that much to loopback.
func TestOriginForm(t *testing.T) {
	proxy, prove := startProxy(t)
	resp, err := http.Get(proxy + "/http://site.example/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest || !ours(resp.Header) {
		t.Errorf("%v", resp)
	}
	prove()
}

// What belongs to the connection between program and proxy stays there, and the rest
// passes as it is.
// TestDotSegmentsPassAsTheyCame: whoever resolved them would fetch another URL than robots.txt was
// asked about.
func TestDotSegmentsPassAsTheyCame(t *testing.T) {
	s := localsite.New(t, 0)
	url, _ := start(t, Base())
	if got := raw(t, url, "GET "+s.URL+"/a/../b/./c HTTP/1.1\r\nHost: x\r\n\r\n").StatusCode; got/100 == 5 {
		t.Errorf("status %d", got)
	}
	visits := s.Visits()
	if last := visits[len(visits)-1]; last.Target != "/a/../b/./c" {
		t.Errorf("the site was asked for %s", last.Target)
	}
}

// A program gets no path that robots.txt forbids in the reading of a server, however it spells it.
func TestAForbiddenPathInOtherWords(t *testing.T) {
	s := localsite.New(t, 0)
	url, _ := start(t, Base())
	for _, path := range []string{
		"/a/%2e%2e/private", "/a/../private/x", "//private", "/a%5c..%5cprivate", `/a\..\private`, "/%70rivate",
		"/a/..;/private", "/private;x", "/a/%252e%252e/private", "/%2570rivate",
	} {
		resp := raw(t, url, "GET "+s.URL+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: status %d", path, resp.StatusCode)
		}
	}
	for _, visit := range s.Visits() {
		if visit.Target != "/robots.txt" {
			t.Errorf("the site was asked for %s", visit.Target)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	s.Handle("/headers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "X-Site-Hop")
		w.Header().Set("X-Site-Hop", "1")
		w.Header().Set("X-Site", "2")
		for _, lie := range []string{"other", "politeness; error=http_request_denied", "other, politeness", `"politeness"; error=http_request_denied`} {
			w.Header().Add("Proxy-Status", lie)
		}
		w.WriteHeader(http.StatusTeapot)
	})
	proxy, prove := startProxy(t)
	target := s.URL + "/headers?a=1;b=%zz&&c"
	resp := raw(t, proxy, "GET "+target+" HTTP/1.1\r\nHost: other.example\r\nUser-Agent: curl\r\nConnection: close, X-Hop\r\n"+
		"X-Hop: 1\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\nKeep-Alive: 5\r\nX-End: 2\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n")
	resp.Body.Close()
	if resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Site-Hop") != "" || resp.Header.Get("X-Site") != "2" || strings.Contains(fmt.Sprint(resp.Header["Proxy-Status"]), self) {
		t.Errorf("%s: %v", resp.Status, resp.Header)
	}
	visits := s.Visits("/headers*")
	if len(visits) != 1 || visits[0].Target != strings.TrimPrefix(target, s.URL) {
		t.Fatalf("the site saw %v", visits)
	}
	if visits[0].Host != strings.TrimPrefix(s.URL, "http://") {
		t.Errorf("the site was asked for %s", visits[0].Host)
	}
	seen := visits[0].Header
	for name, want := range map[string]string{
		"User-Agent": agent, "X-End": "2", "Via": "1.1 politeness",
		"X-Hop": "", "Proxy-Connection": "", "Proxy-Authorization": "", "Keep-Alive": "", "X-Forwarded-For": "10.0.0.1", "Accept-Encoding": "",
	} {
		if got := seen.Get(name); got != want {
			t.Errorf("the site saw %s: %q, not %q", name, got, want)
		}
	}
	prove()
}

// Bodies pass in both directions while they come.
func TestStreaming(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	got, more := make(chan string), make(chan bool)
	s.Handle("/upload", func(w http.ResponseWriter, r *http.Request) {
		half := make([]byte, 5)
		for range 2 {
			if _, err := io.ReadFull(r.Body, half); err != nil {
				t.Error(err)
			}
			got <- string(half)
		}
	})
	s.Handle("/download", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "first")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-more
		fmt.Fprint(w, "other")
	})
	proxy, prove := startProxy(t)
	client := through(t, proxy)

	body, write := io.Pipe()
	done := make(chan error)
	go func() {
		resp, err := client.Post(s.URL+"/upload", "text/plain", body)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	for _, half := range []string{"first", "other"} { // the second is written when the first has arrived
		fmt.Fprint(write, half)
		if arrived := <-got; arrived != half {
			t.Errorf("%q arrived, not %q", arrived, half)
		}
	}
	write.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	resp, err := client.Get(s.URL + "/download")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	half := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, half); err != nil {
		t.Fatal(err)
	}
	more <- true
	rest, err := io.ReadAll(resp.Body)
	if err != nil || string(half)+string(rest) != "firstother" {
		t.Errorf("%q, %q, %v", half, rest, err)
	}
	prove()
}

// upgrade is a request for the /echo of handleEcho.
const upgrade = "GET %s/echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// handleEcho lets s switch to a protocol that sends a line back.
func handleEcho(t *testing.T, s *localsite.Site) {
	s.Handle("/echo", func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		line, _ := buffered.ReadString('\n')
		fmt.Fprint(conn, line)
	})
}

// A connection that is switched to another protocol, as to WebSocket, goes through.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	handleEcho(t, s)
	proxy, prove := startProxy(t)
	resp, conn, reader := dialogue(t, proxy, fmt.Sprintf(upgrade, s.URL))
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp.Status)
	}
	fmt.Fprintln(conn, "hello")
	if line, err := reader.ReadString('\n'); line != "hello\n" {
		t.Errorf("echo of %q, %v", line, err)
	}
	conn.Close()
	if report := prove(); report.Records[evidence.Fetched] != 2 { // robots.txt, and this
		t.Errorf("the switched connection hasn't ended: %v", report.Records)
	}
}

// TestOnlyWebSocketSwitches: what passes after a switch of protocols is neither judged nor paced, so the
// site never hears of the wish for another one.
func TestOnlyWebSocketSwitches(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	s.Handle("/agreeable", func(w http.ResponseWriter, r *http.Request) {
		if wish := r.Header.Get("Upgrade"); wish != "" || r.Header.Get("Http2-Settings") != "" {
			w.WriteHeader(http.StatusSwitchingProtocols)
			return
		}
		fmt.Fprint(w, "plain HTTP/1.1")
	})
	proxy, prove := startProxy(t)
	for _, wish := range []string{"h2c", "tcp", "echo", "TLS/1.2", "websocket, h2c", "websocket2", "connect-udp"} {
		resp, conn, _ := dialogue(t, proxy, "GET "+s.URL+"/agreeable HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: "+wish+"\r\nHTTP2-Settings: AAMAAABk\r\n\r\n")
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", wish, resp.Status)
		}
		resp.Body.Close()
		conn.Close()
	}
	prove()
}

// TestEndEndsWhatIsUnderWay, connections that were switched and pages that don't come to their end in
// time included: when Serve returns, the log has all that there will be.
func TestEndEndsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	handleEcho(t, s)
	s.Handle("/endless", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	for name, request := range map[string]string{
		"switched": fmt.Sprintf(upgrade, s.URL), "endless": "GET " + s.URL + "/endless HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text bytes.Buffer
			log := logtest.New(t, &text, evidence.LogConfig{Chained: true})
			p := New(polite(t, log, Base()), nil)
			p.grace = 200 * time.Millisecond
			l, err := Listen(t.Context(), "127.0.0.1:0", false)
			must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- p.Serve(ctx, l, io.Discard) }()
			dialogue(t, "http://"+l.Addr().String(), request)
			cancel()
			must(t, <-done)
			must(t, log.Close())
			if report, err := audit.Check(&text); err != nil || !report.OK() || report.Records[evidence.Started] != 2 { // robots.txt, and this
				t.Errorf("%v\n%v", err, report)
			}
		})
	}
}

// TestMessagesHaveWhatWentWrongInAPage, as what went wrong with a connection.
func TestMessagesHaveWhatWentWrongInAPage(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	s.Handle("/broken", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		fmt.Fprint(w, "a")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	l, err := Listen(t.Context(), "127.0.0.1:0", false)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var said bytes.Buffer
	done := make(chan error)
	go func() { done <- New(polite(t, nil, Base()), nil).Serve(ctx, l, &said) }()
	resp := raw(t, "http://"+l.Addr().String(), "GET "+s.URL+"/broken HTTP/1.1\r\nHost: x\r\n\r\n")
	_, _ = io.ReadAll(resp.Body)
	cancel()
	must(t, <-done)
	if !strings.Contains(said.String(), "ReverseProxy read error") {
		t.Errorf("%q", said.String())
	}
}

// TestExpectIsRefusedAtOnce: a program that asks whether to send its body isn't waited for.
func TestExpectIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	p := New(polite(t, nil, Base()), nil)
	p.stalled = 20 * time.Second // longer than a busy machine stands still
	server := httptest.NewServer(p)
	defer server.Close()
	began := time.Now()
	resp := raw(t, server.URL, "PUT "+s.URL+"/private/x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
	if took := time.Since(began); resp.StatusCode != http.StatusForbidden || took > p.stalled/2 {
		t.Errorf("%s after %v", resp.Status, took)
	}
}

// TestEndOfAPageMayComeLate: a program that reads isn't cut off because the site is silent.
func TestEndOfAPageMayComeLate(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	s.Handle("/events", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "a")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(600 * time.Millisecond)
	})
	p := New(polite(t, nil, Base()), nil)
	p.stalled = 200 * time.Millisecond
	server := httptest.NewServer(p)
	defer server.Close()
	resp, err := through(t, server.URL).Get(s.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "a" {
		t.Errorf("%q, %v", body, err)
	}
}
