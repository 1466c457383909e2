package politenesstest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/politenesstest"
)

const site = "https://a.example"

// send sends a request without a body and fails the test if that fails.
func send(t *testing.T, web *politenesstest.Web, method, rawURL string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, rawURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := web.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// get fetches rawURL and returns the status and the whole body.
func get(t *testing.T, web *politenesstest.Web, rawURL string, header ...string) (int, string) {
	t.Helper()
	resp := send(t, web, http.MethodGet, rawURL, header...)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestSiteAnswers(t *testing.T) {
	web := politenesstest.NewWeb()
	web.Site("https://a.example").
		Robots("User-agent: *\nDisallow: /b\n").
		Page("/", "home").
		Page("/q?x=1", "query").
		Page("/esc%2Faped", "escaped").
		Page("/white space", "decoded").
		Handle("/dir/", politenesstest.Text("dir")).
		Handle("/dir/deep/", politenesstest.Text("deep")).
		Page("/dir/page", "page")
	web.Site("HTTP://B.example:80/").Page("/", "b")
	web.Site("http://b.example:8080").Handle("/", politenesstest.Text("all"))
	web.Site("http://b.example").Page("/more", "more") // the same site again
	web.Site("http://bücher.example").Page("/", "books")

	tests := []struct {
		url    string
		status int
		body   string // "": any
	}{
		{"https://a.example", 200, "home"},
		{"https://a.example/", 200, "home"},
		{"https://A.example:443/?any=query", 200, "home"},
		{"https://a.example/unknown", 404, ""},
		{"https://a.example/q", 404, ""},
		{"https://a.example/q?x=1", 200, "query"},
		{"https://a.example/esc%2Faped", 200, "escaped"},
		{"https://a.example/esc/aped", 404, ""},
		{"https://a.example/white%20space", 200, "decoded"},
		{"https://a.example/dir", 404, ""},
		{"https://a.example/dir/", 200, "dir"},
		{"https://a.example/dir/x/y", 200, "dir"},
		{"https://a.example/dir/deep/y", 200, "deep"},
		{"https://a.example/dir/page", 200, "page"},
		{"https://a.example/robots.txt", 200, "User-agent: *\nDisallow: /b\n"},
		{"http://b.example/", 200, "b"},
		{"http://b.example/more", 200, "more"},
		{"http://b.example/robots.txt", 404, ""},
		{"http://b.example:8080/x", 200, "all"},
		{"http://b.example:8080/robots.txt", 404, ""}, // "/" doesn't answer for it
		{"http://bücher.example/", 200, "books"},
		{"http://xn--bcher-kva.example/", 200, "books"},
	}
	for _, test := range tests {
		status, body := get(t, web, test.url)
		if status != test.status || test.body != "" && body != test.body {
			t.Errorf("%s: %d %q, want %d %q", test.url, status, body, test.status, test.body)
		}
	}
	if n := len(web.Requests()); n != len(tests) {
		t.Errorf("%d requests recorded, want %d", n, len(tests))
	}
}

func TestUnknownSiteIsNotFoundInDNS(t *testing.T) {
	web := politenesstest.NewWeb()
	web.Site("https://a.example")
	for _, u := range []string{"https://b.example/", "http://a.example/", "https://a.example:8443/"} {
		_, err := (&http.Client{Transport: web}).Get(u)
		if dns, ok := errors.AsType[*net.DNSError](err); !ok || !dns.IsNotFound {
			t.Errorf("%s: %v, want a DNS error that says not found", u, err)
		}
	}
	if r := web.Requests(); len(r) != 3 || r[0].Err == nil || r[0].End.IsZero() || r[0].Status != 0 {
		t.Errorf("requests: %v", r)
	}
}

func TestMalformedOriginsAndPathsPanic(t *testing.T) {
	web := politenesstest.NewWeb()
	oddHeaders := []string{"Retry-After"}
	for _, f := range []func(){
		func() { web.Site("a.example") },
		func() { web.Site("ftp://a.example") },
		func() { web.Site("https://") },
		func() { web.Site("https://a.example/path") },
		func() { web.Site("https://a.example").Page("page", "") },
		func() { web.Site("https://a.example").Handle("", politenesstest.Drop()) },
		func() { web.Site("https://a.example").Sequence("page", 200) },
		func() { politenesstest.Status(429, oddHeaders...) },
		func() { politenesstest.InTurn() },
	} {
		func() {
			defer func() {
				if p, ok := recover().(string); !ok || !strings.HasPrefix(p, "politenesstest: ") {
					t.Errorf("panic %v, want one that names the package", p)
				}
			}()
			f()
		}()
	}
}

// Whatever http.Transport refuses before it dials is refused alike, and isn't a request.
func TestMalformedRequestsAreRefusedLikeByTransport(t *testing.T) {
	web := politenesstest.NewWeb()
	web.Site(site).Page("/", "home")
	ok, err := url.Parse(site)
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("changed my mind"))
	tests := map[string]*http.Request{
		"no URL":        {Header: http.Header{}},
		"no header":     {URL: ok},
		"scheme":        {URL: &url.URL{Scheme: "ftp", Host: "a.example"}, Header: http.Header{}},
		"no host":       {URL: &url.URL{Scheme: "https", Path: "/"}, Header: http.Header{}},
		"method":        {URL: ok, Header: http.Header{}, Method: "GE T"},
		"header name":   {URL: ok, Header: http.Header{"A b": {"c"}}},
		"header value":  {URL: ok, Header: http.Header{"A": {"b\nc"}}},
		"cancelled":     (&http.Request{URL: ok, Header: http.Header{}}).WithContext(cancelled),
		"short content": {URL: ok, Header: http.Header{}, ContentLength: 9},
		"long content":  {URL: ok, Header: http.Header{}, ContentLength: 1},
	}
	for name, req := range tests {
		body := &countingBody{Reader: strings.NewReader("body")}
		req.Body = body
		_, got := web.RoundTrip(req)
		if got == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if body.closes == 0 {
			t.Errorf("%s: the body was not closed", name)
		}
		if strings.HasSuffix(name, "content") {
			continue // http.Transport notices while it sends
		}
		req.Body = io.NopCloser(strings.NewReader("body"))
		if _, want := http.DefaultTransport.RoundTrip(req); want == nil || got.Error() != want.Error() {
			t.Errorf("%s: %q, http.Transport says %q", name, got, want)
		}
	}
	if n := len(web.Requests()); n != 2 {
		t.Errorf("%d requests recorded, want the two that had begun", n)
	}
}

type countingBody struct {
	io.Reader
	closes int
}

func (b *countingBody) Close() error { b.closes++; return nil }

func TestRequestBodyIsReadAndClosed(t *testing.T) {
	web := politenesstest.NewWeb()
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	web.Site(site).Handle("/echo", echo).Page("/ignores", "ok").Handle("/drops", politenesstest.Drop())
	for path, want := range map[string]string{"/echo": "hello", "/ignores": "ok", "/drops": "", "/unknown": "404 page not found\n"} {
		body := &countingBody{Reader: strings.NewReader("hello")}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, site+path, body)
		resp, err := web.RoundTrip(req)
		if body.closes == 0 {
			t.Errorf("%s: the body was not closed", path)
		}
		if n, _ := body.Read(make([]byte, 1)); n != 0 {
			t.Errorf("%s: the body was not read", path)
		}
		if err != nil {
			continue
		}
		if got, _ := io.ReadAll(resp.Body); string(got) != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	errRead := errors.New("disk on fire")
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, site, io.MultiReader(strings.NewReader("x"), failingReader{errRead}))
	if _, err := web.RoundTrip(req); !errors.Is(err, errRead) {
		t.Errorf("a body that fails: %v, want %v", err, errRead)
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// The same handlers behind a real server and a real http.Transport give the same responses.
func TestResponsesAreLikeTransports(t *testing.T) {
	handlers := map[string]http.Handler{
		"/text":     politenesstest.Text("hello"),
		"/empty":    politenesstest.Text(""),
		"/nothing":  http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		"/html":     politenesstest.Text("<!doctype html><p>hello"),
		"/implicit": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }),
		"/204":      politenesstest.Status(204),
		"/304":      politenesstest.Status(304, "ETag", `"x"`),
		"/429":      politenesstest.Status(429, "Retry-After", "3"),
		"/302":      http.RedirectHandler("/text", http.StatusFound),
		"/bytes":    politenesstest.Bytes(200_000),
		"/drip":     politenesstest.Drip("drop ", 3, time.Millisecond),
		"/drop":     politenesstest.Drop(),
		"/half": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}),
		"/short": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "short")
		}),
		"/long": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4")
			_, _ = io.WriteString(w, "long")
			_, _ = io.WriteString(w, "er")
		}),
		"/untyped": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "hello")
		}),
		"/twice": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
			w.Header().Set("Late", "too late")
		}),
		"/request": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strings.Join([]string{
				r.Method, r.URL.String(), r.RequestURI, r.Proto, r.UserAgent(), r.Header.Get("X-Test"),
			}, " "))
		}),
	}
	mux := http.NewServeMux()
	web := politenesstest.NewWeb()
	for path, h := range handlers {
		mux.Handle(path, h)
	}
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = discardLog
	server.Start()
	defer server.Close()
	for path, h := range handlers {
		web.Site(server.URL).Handle(path, h)
	}
	genuine := &http.Transport{DisableCompression: true}
	defer genuine.CloseIdleConnections()

	type answer struct {
		status    string
		header    http.Header
		length    int64
		encoding  string
		body      string
		err       error
		bodyErr   error
		requested string
		noBody    bool
	}
	ask := func(rt http.RoundTripper, method, path string) (a answer) {
		req, _ := http.NewRequestWithContext(t.Context(), method, server.URL+path+"?a=%20b", nil)
		req.Header.Set("X-Test", "test")
		resp, err := rt.RoundTrip(req)
		if err != nil {
			return answer{err: err}
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if resp.Header.Get("Date") == "" {
			t.Errorf("%s %s: no Date", method, path)
		}
		resp.Header.Del("Date")
		return answer{
			resp.Status, resp.Header, resp.ContentLength, strings.Join(resp.TransferEncoding, ","), string(body),
			nil, err, resp.Request.URL.String(), resp.Body == http.NoBody,
		}
	}
	for path := range handlers {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			want, got := ask(genuine, method, path), ask(web, method, path)
			if (want.err == nil) != (got.err == nil) || !errors.Is(got.bodyErr, want.bodyErr) {
				t.Errorf("%s %s: errors %v, %v; http.Transport has %v, %v", method, path, got.err, got.bodyErr, want.err, want.bodyErr)
				continue
			}
			want.err, got.err = nil, nil
			if !equalJSON(t, want.header, got.header) {
				t.Errorf("%s %s: header %v, http.Transport has %v", method, path, got.header, want.header)
			}
			want.header, got.header = nil, nil
			if want.status != got.status || want.length != got.length || want.encoding != got.encoding ||
				want.body != got.body || want.requested != got.requested || want.noBody != got.noBody {
				t.Errorf("%s %s:\n got  %.200v\n want %.200v", method, path, got, want)
			}
		}
	}
}

func TestLatencyIsVirtual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		s := web.Site(site).Latency(time.Hour).Page("/", "home").
			Handle("/slow", politenesstest.Slow(time.Minute, politenesstest.Text("slow")))
		began := time.Now()
		get(t, web, site)
		get(t, web, site+"/slow")
		s.Latency(0)
		get(t, web, site)
		r := web.Requests()
		for i, want := range []time.Duration{time.Hour, time.Hour + time.Minute, 0} {
			if got := r[i].Answered.Sub(r[i].Start); got != want || !r[i].End.Equal(r[i].Answered) {
				t.Errorf("%v: answered after %v, want %v", r[i], got, want)
			}
		}
		if got, want := time.Since(began), 2*time.Hour+time.Minute; got != want {
			t.Errorf("took %v, want %v", got, want)
		}
	})
}

func TestContextEndsTheExchange(t *testing.T) {
	const timeout = 90 * time.Second
	ignoresItsContext := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Hour) // does not look at its context
		_, _ = io.WriteString(w, "late")
	})
	tests := []struct {
		name   string
		script func(*politenesstest.Site)
		header bool // whether the headers come in time
	}{
		{"latency", func(s *politenesstest.Site) { s.Latency(time.Hour) }, false},
		{"slow handler", func(s *politenesstest.Site) { s.Handle("/", politenesstest.Slow(time.Hour, politenesstest.Drop())) }, false},
		{"handler that ignores its context", func(s *politenesstest.Site) { s.Handle("/", ignoresItsContext) }, false},
		{"dripping body", func(s *politenesstest.Site) { s.Handle("/", politenesstest.Drip("x", 1000, time.Minute)) }, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := politenesstest.NewWeb()
				test.script(web.Site(site))
				began := time.Now()
				client := &http.Client{Transport: web, Timeout: timeout}
				resp, err := client.Get(site)
				if (err == nil) != test.header {
					t.Fatalf("error %v, want headers: %t", err, test.header)
				}
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				if e, ok := errors.AsType[net.Error](err); !ok || !e.Timeout() {
					t.Errorf("error %v, want a timeout", err)
				}
				if took := time.Since(began); took != timeout {
					t.Errorf("took %v, want %v", took, timeout)
				}
				if r := web.Requests()[0]; !errors.Is(r.Err, context.DeadlineExceeded) || r.End.Sub(r.Start) != timeout {
					t.Errorf("recorded %v after %v", r.Err, r.End.Sub(r.Start))
				}
				time.Sleep(2 * time.Hour) // longer than the handler that ignores its context
			})
		})
	}
}

// A cancelled request has ended, even if nobody reads or closes its body.
func TestCancellationEndsAnUnreadBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		gone := make(chan error, 1)
		web.Site(site).Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(w, bodyWithoutEnd{})
			gone <- err
		}))
		ctx, cancel := context.WithCancelCause(t.Context())
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, site, nil)
		resp, err := web.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		enough := errors.New("enough")
		cancel(enough)
		synctest.Wait()
		if r := web.Requests()[0]; !errors.Is(r.Err, enough) || r.End.Sub(r.Start) != time.Minute {
			t.Errorf("ended after %v with %v, want 1m0s, %v", r.End.Sub(r.Start), r.Err, enough)
		}
		if err := <-gone; err == nil {
			t.Error("the handler can still write")
		}
		if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, enough) {
			t.Errorf("Read: %v, want %v", err, enough)
		}
		resp.Body.Close()
	})
}

// bodyWithoutEnd is a body that goes on for ever.
type bodyWithoutEnd struct{}

func (bodyWithoutEnd) Read(p []byte) (int, error) { return len(p), nil }

// Close on an unread body ends the exchange and the handler; further reads fail.
func TestCloseReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		web := politenesstest.NewWeb()
		web.Site(site).
			Handle("/huge", politenesstest.Bytes(math.MaxInt)).
			Handle("/drip", politenesstest.Drip("x", math.MaxInt, time.Second)).
			Page("/page", "page")
		for _, path := range []string{"/huge", "/drip", "/page"} {
			resp := send(t, web, http.MethodGet, site+path)
			time.Sleep(time.Hour)
			if r := web.Requests(); !r[len(r)-1].End.IsZero() {
				t.Errorf("%s: ended before it was closed", path)
			}
			for range 2 {
				if err := resp.Body.Close(); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
			r := web.Requests()
			if last := r[len(r)-1]; last.End.Sub(last.Start) != time.Hour || last.Err != nil || last.Bytes != 0 {
				t.Errorf("%s: ended after %v with %v, %d bytes", path, last.End.Sub(last.Start), last.Err, last.Bytes)
			}
			if _, err := resp.Body.Read(make([]byte, 1)); err == nil || err == io.EOF {
				t.Errorf("%s: read after close: %v", path, err)
			}
		}
	})
}

// A read that waits for a dripping body ends when the body is closed meanwhile.
func TestCloseWakesARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site(site).Handle("/", politenesstest.Drip("x", 2, time.Hour))
		resp := send(t, web, http.MethodGet, site)
		var wg sync.WaitGroup
		wg.Go(func() {
			if body, err := io.ReadAll(resp.Body); string(body) != "x" || err == nil {
				t.Errorf("read %q, %v", body, err)
			}
		})
		time.Sleep(time.Minute)
		resp.Body.Close()
		wg.Wait()
		if r := web.Requests()[0]; r.End.Sub(r.Start) != time.Minute {
			t.Errorf("ended after %v", r.End.Sub(r.Start))
		}
	})
}

func TestBodiesStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site(site).
			Handle("/drip", politenesstest.Drip("drop", 3, time.Minute)).
			Handle("/huge", politenesstest.Bytes(64<<20))
		began := time.Now()
		resp := send(t, web, http.MethodGet, site+"/drip")
		var at []time.Duration
		buf := make([]byte, 100)
		for {
			n, err := resp.Body.Read(buf)
			if n > 0 {
				at = append(at, time.Since(began))
			}
			if err != nil {
				break
			}
		}
		if len(at) != 3 || at[0] != 0 || at[1] != time.Minute || at[2] != 2*time.Minute {
			t.Errorf("pieces came after %v", at)
		}
		resp = send(t, web, http.MethodGet, site+"/huge")
		if resp.ContentLength != 64<<20 {
			t.Errorf("Content-Length %d", resp.ContentLength)
		}
		if n, err := io.Copy(io.Discard, resp.Body); n != 64<<20 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		r := web.Requests()
		if r[0].Bytes != 12 || r[0].Answered.Sub(began) != 0 || r[0].End.Sub(began) != 2*time.Minute || r[1].Bytes != 64<<20 {
			t.Errorf("recorded %+v", r)
		}
	})
}

func TestSequence(t *testing.T) {
	web := politenesstest.NewWeb()
	s := web.Site(site).Sequence("/a", 503, 200, 410).Page("/a", "page").
		Sequence("/b", 429, 200).
		Robots("User-agent: *").Sequence("/robots.txt", 503, 200)
	check := func(path string, statuses ...int) {
		t.Helper()
		for _, want := range statuses {
			got, body := get(t, web, site+path)
			if got != want {
				t.Errorf("%s: %d, want %d", path, got, want)
			}
			if path == "/a" && got == 200 && body != "page" || path == "/robots.txt" && got == 200 && body != "User-agent: *" {
				t.Errorf("%s: 200 with body %q", path, body)
			}
		}
	}
	check("/a", 503, 200, 410, 410, 410)
	check("/b", 429, 200, 200, 200)
	check("/robots.txt", 503, 200, 200)
	s.Sequence("/a")
	check("/a", 200, 200)
}

func TestRobotsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		s := web.Site(site)
		const robots = site + "/robots.txt"
		expect := func(status int, body string, header ...string) {
			t.Helper()
			if got, text := get(t, web, robots, header...); got != status || body != "" && text != body {
				t.Errorf("%d %q, want %d %q", got, text, status, body)
			}
		}
		expect(404, "")
		s.Robots("one")
		expect(200, "one")
		resp := send(t, web, http.MethodGet, robots)
		resp.Body.Close()
		etag, modified := resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
		expect(304, "", "If-None-Match", etag)
		expect(304, "", "If-Modified-Since", modified)
		time.Sleep(time.Hour)
		s.Robots("two")
		expect(200, "two", "If-None-Match", etag)
		expect(200, "two", "If-Modified-Since", modified)
		s.RobotsStatus(503)
		expect(503, "")
		s.Robots("three")
		expect(200, "three")
	})
}

func TestSiteGoesDownAndUp(t *testing.T) {
	web := politenesstest.NewWeb()
	s := web.Site(site).Page("/", "home").Down(syscall.ECONNREFUSED)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, site, nil)
	if _, err := web.RoundTrip(req); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error %v", err)
	}
	s.Down(nil)
	if status, _ := get(t, web, site); status != 200 {
		t.Errorf("status %d", status)
	}
}

func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		s := web.Site(site).Robots("").Page("/", "home")
		time.AfterFunc(time.Minute, func() { s.Storm(2500 * time.Millisecond) })
		for _, step := range []struct {
			sleep  time.Duration
			path   string
			status int
			after  string
		}{
			{59 * time.Second, "/", 200, ""},
			{1001 * time.Millisecond, "/", 429, "3"},
			{500 * time.Millisecond, "/robots.txt", 429, "2"},
			{1998 * time.Millisecond, "/unknown", 429, "1"},
			{time.Millisecond, "/", 200, ""},
		} {
			time.Sleep(step.sleep)
			resp := send(t, web, http.MethodGet, site+step.path)
			resp.Body.Close()
			if got := resp.Header.Get("Retry-After"); resp.StatusCode != step.status || got != step.after {
				t.Errorf("%s: %d, Retry-After %q; want %d, %q", step.path, resp.StatusCode, got, step.status, step.after)
			}
		}
	})
}

func TestHandlersComposeOutsideToo(t *testing.T) {
	flaky := politenesstest.InTurn(politenesstest.Drop(), politenesstest.Status(503), politenesstest.Slow(time.Millisecond, politenesstest.Text("at last")))
	server := httptest.NewUnstartedServer(flaky)
	server.Config.ErrorLog = discardLog
	server.Start()
	defer server.Close()
	web := politenesstest.NewWeb()
	web.Site(site).Handle("/", politenesstest.InTurn(politenesstest.Drop(), politenesstest.Status(503), politenesstest.Text("at last")))
	for name, ask := range map[string]func() (*http.Response, error){
		"server": func() (*http.Response, error) {
			// http.Transport would retry a GET on a reused connection by itself.
			return (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(server.URL)
		},
		"web": func() (*http.Response, error) { return (&http.Client{Transport: web}).Get(site) },
	} {
		if _, err := ask(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v, want %v", name, err, io.EOF)
		}
		for _, want := range []string{"Service Unavailable", "at last", "at last"} {
			resp, err := ask()
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if string(body) != want {
				t.Errorf("%s: %q, want %q", name, body, want)
			}
		}
	}
}

func TestRecordsAreCopies(t *testing.T) {
	web := politenesstest.NewWeb()
	web.Site(site).Page("/", "home")
	get(t, web, site, "X-Test", "kept")
	get(t, web, site, "User-Agent", "AuditBot/1.0")
	web.Requests()[0].Header.Set("X-Test", "changed")
	r := web.Requests()
	if got := r[0].Header.Get("X-Test"); got != "kept" {
		t.Errorf("a caller changed the record: %q", got)
	}
	if a, b := r[0].Header.Get("User-Agent"), r[1].Header.Get("User-Agent"); a != "Go-http-client/1.1" || b != "AuditBot/1.0" {
		t.Errorf("user agents %q, %q", a, b)
	}
	if r[1].Seq != 2 || r[1].Method != http.MethodGet || r[1].URL != site || r[1].Status != 200 || r[1].Bytes != 4 ||
		r[1].Response.Get("Content-Length") != "4" {
		t.Errorf("record %+v", r[1])
	}
}

func TestConcurrentUse(t *testing.T) {
	web := politenesstest.NewWeb()
	s := web.Site(site).Page("/", "home").Handle("/drip", politenesstest.Drip("xy", 3, time.Millisecond))
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for range 20 {
				if status, _ := get(t, web, site); status != 200 {
					t.Errorf("status %d", status)
				}
				switch i % 10 {
				case 0:
					s.Robots("User-agent: *\nDisallow: /x").Latency(time.Duration(i) * time.Microsecond)
				case 1:
					web.Violations(politenesstest.Rules{Delay: time.Second, Concurrency: 1})
				case 2:
					get(t, web, site+"/drip")
				case 3:
					get(t, web, site+"/robots.txt")
				}
			}
		})
	}
	wg.Wait()
	for _, r := range web.Requests() {
		if r.End.IsZero() || r.Status == 0 {
			t.Fatalf("%v: not ended: %+v", r, r)
		}
	}
}

func TestHandlersFatalEndsTheExchange(t *testing.T) {
	web := politenesstest.NewWeb()
	var log bytes.Buffer
	web.Site(site).Handle("/", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		log.WriteString("seen")
		goexit() // what t.Fatal does
	}))
	if _, err := (&http.Client{Transport: web}).Get(site); !errors.Is(err, io.EOF) || log.String() != "seen" {
		t.Errorf("error %v, log %q", err, log.String())
	}
}
