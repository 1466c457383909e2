package botauth_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
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
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/go-politeness/politeness/botauth"
)

// A site checks the signatures of all requests that come to it.
type site struct {
	t *testing.T
	*httptest.Server

	mu     sync.Mutex
	nonces map[string]bool
	count  int
	oldest time.Duration // of a signature on arrival
	covers []string
}

func newSite(t *testing.T, h2 bool, h http.Handler) *site {
	t.Helper()
	s := &site{t: t, nonces: map[string]bool{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.check(r)
		h.ServeHTTP(w, r)
	}))
	s.EnableHTTP2 = h2
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *site) check(r *http.Request) {
	c, err := verify(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if err != nil {
		s.t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	if s.nonces[c.nonce] {
		s.t.Errorf("%s: the nonce came before", r.URL)
	}
	s.nonces[c.nonce] = true
	s.oldest = max(s.oldest, time.Since(c.created))
	s.covers = append(s.covers, c.covers)
}

func get(t *testing.T, client *http.Client, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp
}

// TestEachHopIsSigned: requests over HTTP/1 and HTTP/2, in both profiles, many at once, with redirects.
func TestEachHopIsSigned(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		for _, profile := range []botauth.Profile{botauth.Draft, botauth.Cloudflare} {
			s := newSite(t, h2, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/old" {
					http.Redirect(w, r, "/new", http.StatusFound)
				}
			}))
			client := &http.Client{Transport: signerOf(t, profile).Transport(s.Client().Transport)}
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					resp := get(t, client, s.URL+"/old")
					if resp.StatusCode != 200 || resp.Request.URL.Path != "/new" || resp.ProtoMajor == 2 != h2 {
						t.Errorf("%s %s, %s", resp.Status, resp.Request.URL, resp.Proto)
					}
					if len(resp.Request.Header["Signature"]) > 0 {
						t.Error("the request that the caller sees has a signature")
					}
				})
			}
			all.Wait()
			if s.count != 40 {
				t.Errorf("%d requests, want 40", s.count)
			}
			want := `"@authority" "signature-agent";key="sig1"`
			if profile == botauth.Cloudflare {
				want = `"@authority" "signature-agent"`
			}
			if slices.ContainsFunc(s.covers, func(c string) bool { return c != want }) {
				t.Errorf("covers %q, want %s", s.covers, want)
			}
		}
	}
}

// TestSignedOnceTheConnectionIsThere: what delays a request between the call and its connection (a
// limiter's hook here) doesn't age its signature, over HTTP/1 and HTTP/2, cold and warm.
func TestSignedOnceTheConnectionIsThere(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %t", h2), func(t *testing.T) {
			t.Parallel()
			signedOnceTheConnectionIsThere(t, h2)
		})
	}
}

func signedOnceTheConnectionIsThere(t *testing.T, h2 bool) {
	s := newSite(t, h2, http.NotFoundHandler())
	client := &http.Client{Transport: testSigner(t).Transport(s.Client().Transport)}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 2 {
				held := 0
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
					held++
					time.Sleep(1100 * time.Millisecond) // what is under test is real time on real connections
				}})
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				if held != 1 {
					t.Errorf("the caller's hook was called %d times", held)
				}
			}
		})
	}
	all.Wait()
	// A second of the clock that begins between the signature and its arrival makes it look that old.
	if s.count != 16 || s.oldest >= 2*time.Second {
		t.Errorf("HTTP/2 %t: %d requests, the oldest signature of %v", h2, s.count, s.oldest)
	}
}

// TestResentOverHTTP1 loses the connection under the second request, which net/http sends again: with
// a signature of its own.
func TestResentOverHTTP1(t *testing.T) {
	var drop sync.Once
	s := newSite(t, false, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/b" {
			drop.Do(func() { panic(http.ErrAbortHandler) })
		}
	}))
	client := &http.Client{Transport: testSigner(t).Transport(s.Client().Transport)}
	get(t, client, s.URL+"/a")
	get(t, client, s.URL+"/b")
	if s.count != 3 {
		t.Errorf("%d requests, want 3", s.count)
	}
}

// TestResentOverHTTP2 refuses the first stream, which net/http sends again: with a signature of its own.
func TestResentOverHTTP2(t *testing.T) {
	certified := httptest.NewUnstartedServer(nil)
	certified.EnableHTTP2 = true
	certified.StartTLS()
	defer certified.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	inputs := make(chan string, 2)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(conn, preface); err != nil {
			return
		}
		framer := http2.NewFramer(conn, conn)
		framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		_ = framer.WriteSettings()
		for streams := 0; ; {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			headers, ok := frame.(*http2.MetaHeadersFrame)
			if !ok {
				continue
			}
			for _, field := range headers.Fields {
				if field.Name == "signature-input" {
					inputs <- field.Value
				}
			}
			if streams++; streams == 1 {
				_ = framer.WriteRSTStream(headers.StreamID, http2.ErrCodeRefusedStream)
				continue
			}
			var block bytes.Buffer
			_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "204"})
			_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: headers.StreamID, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
		}
	}()
	base := certified.Client().Transport.(*http.Transport).Clone()
	defer base.CloseIdleConnections()
	resp := get(t, &http.Client{Transport: testSigner(t).Transport(base)}, "https://"+listener.Addr().String())
	if resp.StatusCode != 204 {
		t.Errorf("got %s", resp.Status)
	}
	if first, second := <-inputs, <-inputs; first == second || first == "" {
		t.Errorf("signed as %s and %s", first, second)
	}
}

// TestThroughAProxy: the proxy that a tunnel is asked of sees no signature, the site does.
func TestThroughAProxy(t *testing.T) {
	s := newSite(t, false, http.NotFoundHandler())
	tunnels := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tunnels++
		if r.Method != http.MethodConnect || len(r.Header["Signature"]) > 0 || len(r.Header["Signature-Input"]) > 0 {
			t.Errorf("the proxy got %s %v", r.Method, r.Header)
		}
		out, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
		if err != nil {
			t.Error(err)
			return
		}
		in, rest, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(in, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(out, rest)
			out.Close()
		}()
		_, _ = io.Copy(in, out)
		in.Close()
	}))
	defer proxy.Close()
	base := s.Client().Transport.(*http.Transport).Clone()
	base.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
	defer base.CloseIdleConnections()
	get(t, &http.Client{Transport: testSigner(t).Transport(base)}, s.URL+"/")
	if s.count != 1 || tunnels != 1 {
		t.Errorf("%d requests, %d tunnels", s.count, tunnels)
	}
}

// roundTripper is a base that answers by itself.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func answer(req *http.Request, status int, header ...string) *http.Response {
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Add(header[i], header[i+1])
	}
	return resp
}

// TestWhatIsSentAsItIs: plain http, and what the caller has signed; the caller's request is never
// changed, whatever is done.
func TestWhatIsSentAsItIs(t *testing.T) {
	for _, c := range []struct {
		url    string
		header http.Header
		signed bool
	}{
		{"https://example.com/", http.Header{"User-Agent": {"a"}, "Signature-Agent": {"mine"}}, true},
		{"http://example.com/", http.Header{"User-Agent": {"a"}}, false},
		{"https://example.com/", http.Header{"Signature-Input": {"sig1=()"}}, false},
	} {
		var sent *http.Request
		rt := testSigner(t).Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
			sent = req
			return answer(req, 200), nil
		}))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = c.header.Clone()
		resp, err := rt.RoundTrip(req)
		if err != nil || resp.Request != req {
			t.Errorf("%s: %v, the request of another", c.url, err)
		}
		if fmt.Sprint(req.Header) != fmt.Sprint(c.header) {
			t.Errorf("%s: changed to %v", c.url, req.Header)
		}
		if (sent == req) == c.signed || (len(sent.Header["Signature"]) == 1) != c.signed {
			t.Errorf("%s: sent %v", c.url, sent.Header)
		}
	}
}

// failing is a key service; it fails once so many signatures are made.
type failing struct {
	crypto.Signer
	left int
}

func (f *failing) Sign(random io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	if f.left--; f.left < 0 {
		return nil, errors.New("out of reach")
	}
	return f.Signer.Sign(random, digest, o)
}

// closeCounter counts how often a body is closed.
type closeCounter struct {
	io.Reader
	closed int
}

func (c *closeCounter) Close() error { c.closed++; return nil }

// TestKeyThatFails: the request fails, unsent, with its body closed; one that was signed already keeps
// that signature.
func TestKeyThatFails(t *testing.T) {
	key, err := botauth.ParseKey([]byte(testKeyPEM))
	if err != nil {
		t.Fatal(err)
	}
	for left := range 2 {
		synctest.Test(t, func(t *testing.T) {
			s, err := botauth.New(botauth.Config{Key: &failing{key, left}, Agent: "https://bot.example.com"})
			if err != nil {
				t.Fatal(err)
			}
			sent := 0
			rt := s.Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
				sent++
				time.Sleep(5 * time.Second)
				httptrace.ContextClientTrace(req.Context()).GotConn(httptrace.GotConnInfo{})
				if _, err := verify(req); err != nil {
					t.Error(err)
				}
				return answer(req, 200), nil
			}))
			body := &closeCounter{Reader: strings.NewReader("x")}
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://example.com/", body)
			req.Host = "example.com"
			_, err = rt.RoundTrip(req)
			if left == 0 && (err == nil || err.Error() != "botauth: key "+testKeyID+": out of reach" || body.closed != 1 || sent != 0) {
				t.Errorf("%v; sent %d times, body closed %d times", err, sent, body.closed)
			}
			if left == 1 && (err != nil || sent != 1) {
				t.Errorf("%v; sent %d times", err, sent)
			}
		})
	}
}

// TestAcceptSignatureIsAnsweredOnce: a site that wants more than the standard signature gets it with
// one further request, and at once from then on; one that is never content is asked twice at most.
func TestAcceptSignatureIsAnsweredOnce(t *testing.T) {
	const more = `sig1=("@authority" "@path" "signature-agent";key="sig1");tag="web-bot-auth"`
	var requests []string
	nonces := map[string]bool{}
	for _, c := range []struct {
		name    string
		wants   string
		content func(covers string) bool
		want    [2]int // how many requests the site gets for the first two pages
		status  int
	}{
		{"more", more, func(covers string) bool { return strings.Contains(covers, `"@path"`) }, [2]int{2, 1}, 200},
		{"never content", more, func(string) bool { return false }, [2]int{2, 1}, 401},
		{"nothing new", `sig1=("@authority" "signature-agent";key="sig1")`, func(string) bool { return false }, [2]int{1, 1}, 401},
		{"can't be met", `sig1=("x-secret")`, func(string) bool { return false }, [2]int{1, 1}, 401},
		{"no demand", ``, func(string) bool { return false }, [2]int{1, 1}, 401},
	} {
		rt := testSigner(t).Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
			checked, err := verify(req)
			if err != nil || nonces[checked.nonce] {
				t.Errorf("%s: %v", c.name, err)
			}
			nonces[checked.nonce] = true
			body := ""
			if req.Body != nil {
				text, _ := io.ReadAll(req.Body)
				body = string(text)
			}
			requests = append(requests, req.Method+" "+body)
			if c.content(checked.covers) {
				return answer(req, 200), nil
			}
			return answer(req, 401, "Accept-Signature", c.wants), nil
		}))
		for i, want := range c.want {
			requests = nil
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://example.com/", strings.NewReader("hello"))
			req.Host = "example.com"
			resp, err := rt.RoundTrip(req)
			if err != nil || resp.StatusCode != c.status || resp.Request != req {
				t.Fatalf("%s: %v, %v", c.name, resp, err)
			}
			if len(requests) != want || slices.ContainsFunc(requests, func(r string) bool { return r != "PUT hello" }) {
				t.Errorf("%s: page %d: %q", c.name, i, requests)
			}
		}
		// A body that is gone isn't sent again.
		requests = nil
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://other.example/", bufio.NewReader(strings.NewReader("hello")))
		req.Host = "other.example"
		if _, err := rt.RoundTrip(req); err != nil || len(requests) != 1 {
			t.Errorf("%s: %v, %q", c.name, err, requests)
		}
	}
}

// TestNonceOfTheSite: one that the site gives is used once, and isn't kept.
func TestNonceOfTheSite(t *testing.T) {
	given, seen := 0, []string(nil)
	rt := testSigner(t).Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
		input := req.Header.Get("Signature-Input")
		seen = append(seen, input)
		if strings.Contains(input, fmt.Sprintf(`;nonce="n%d"`, given)) && given > 0 {
			return answer(req, 200), nil
		}
		given++
		return answer(req, 403, "Accept-Signature", fmt.Sprintf(`sig1=("@authority");nonce="n%d"`, given)), nil
	}))
	for range 3 {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", nil)
		if resp, err := rt.RoundTrip(req); err != nil || resp.StatusCode != 200 {
			t.Errorf("%v, %v", resp, err)
		}
	}
	if len(seen) != 6 {
		t.Errorf("%d requests, want two for each page", len(seen))
	}
}

// quick is a key whose signatures are worth nothing and cost nothing.
type quick struct{ crypto.Signer }

func (quick) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) { return make([]byte, 64), nil }

// TestDemandsAreBounded: what is remembered of sites doesn't grow with their number.
func TestDemandsAreBounded(t *testing.T) {
	key, err := botauth.ParseKey([]byte(testKeyPEM))
	if err != nil {
		t.Fatal(err)
	}
	s, err := botauth.New(botauth.Config{Key: quick{key}, Agent: "https://bot.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	rt := s.Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
		sent++
		if strings.Contains(req.Header.Get("Signature-Input"), "@path") {
			return answer(req, 200), nil
		}
		return answer(req, 401, "Accept-Signature", `s=("@path")`), nil
	}))
	ask := func(i int) int {
		before := sent
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://h%d.example/", i), nil)
		if _, err := rt.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		return sent - before
	}
	for i := range 1500 {
		ask(i)
	}
	remembered := 0
	for i := range 1500 {
		if ask(i) == 1 {
			remembered++
		}
	}
	if remembered > 1024 {
		t.Errorf("%d of 1500 sites were remembered", remembered)
	}
}

// TestSignedContextKeyIsCalledForEachSignature, and for no request without one.
func TestSignedContextKeyIsCalledForEachSignature(t *testing.T) {
	var ids []string
	ctx := context.WithValue(t.Context(), botauth.SignedContextKey, func(id string) { ids = append(ids, id) })
	rt := testSigner(t).Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(req.Context())
		trace.GotConn(httptrace.GotConnInfo{})
		trace.GotConn(httptrace.GotConnInfo{Reused: true}) // the first connection was lost
		return answer(req, 200), nil
	}))
	for _, url := range []string{"https://example.com/", "http://example.com/"} {
		ids = nil
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if strings.HasPrefix(url, "http://") {
			rt = testSigner(t).Transport(roundTripper(func(req *http.Request) (*http.Response, error) { return answer(req, 200), nil }))
		}
		if _, err := rt.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		if https := strings.HasPrefix(url, "https"); https != (len(ids) >= 2) || slices.ContainsFunc(ids, func(id string) bool { return id != testKeyID }) {
			t.Errorf("%s: called with %q", url, ids)
		}
	}
}

// TestALimitThatAsksForASignature: the 429 is passed on, which asks to wait, and later requests are signed
// as it wants it.
func TestALimitThatAsksForASignature(t *testing.T) {
	var covers []string
	rt := testSigner(t).Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
		covers = append(covers, req.Header.Get("Signature-Input"))
		if len(covers) == 1 {
			return answer(req, 429, "Accept-Signature", `sig1=("@authority" "@path" "signature-agent";key="sig1");tag="web-bot-auth"`), nil
		}
		return answer(req, 200), nil
	}))
	for i, want := range []int{429, 200} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", nil)
		resp, err := rt.RoundTrip(req)
		if err != nil || resp.StatusCode != want || len(covers) != i+1 {
			t.Fatalf("%v, %v after %d requests", resp, err, len(covers))
		}
	}
	if strings.Contains(covers[0], `"@path"`) || !strings.Contains(covers[1], `"@path"`) {
		t.Errorf("%q", covers)
	}
}

// What is signed as @authority is what is sent, so that a verifier that compares hosts as they stand
// agrees with one that normalises them.
func TestSignedHostIsTheOneThatIsSent(t *testing.T) {
	signer := testSigner(t)
	for _, host := range []string{"BÜCHER.example:443", "bücher.example:0443", "xn--bcher-kva.example."} {
		var sent *http.Request
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			sent = r
			return answer(r, http.StatusOK), nil
		})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+host+"/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := signer.Transport(base).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if want := "xn--bcher-kva.example"; sent.URL.Host != want || sent.Host != want {
			t.Errorf("sent to %s, as %s", sent.URL.Host, sent.Host)
		}
		if req.URL.Host != host || resp.Request != req {
			t.Error("the caller's request was changed, or isn't the response's")
		}
	}
}

// TestWhatASiteAsksForIsRememberedWhereTheBodyCannotBeSentAgain: the next request is signed so.
func TestWhatASiteAsksForIsRememberedWhereTheBodyCannotBeSentAgain(t *testing.T) {
	sent := 0
	rt := testSigner(t).Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
		sent++
		if checked, err := verify(req); err != nil || !strings.Contains(checked.covers, `"@path"`) {
			return answer(req, 401, "Accept-Signature", `sig1=("@authority" "@path" "signature-agent";key="sig1");tag="web-bot-auth"`), err
		}
		return answer(req, 200), nil
	}))
	for i, want := range []int{401, 200} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://example.com/", struct{ io.Reader }{strings.NewReader("x")})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want || sent != i+1 {
			t.Errorf("request %d: status %d, want %d; %d sent", i, resp.StatusCode, want, sent)
		}
	}
}
