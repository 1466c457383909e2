package crawl_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/publicnet"
)

// No page makes a crawl send anything but GET, and no cookie, credential or Referer reaches another
// host than the one that set it, or a robots.txt.
func TestPagesCauseNothingButGET(t *testing.T) {
	const text = `<!doctype html><html><head><base href="https://user:secret@example.com/"><link rel=stylesheet href=/style>
<meta http-equiv=set-cookie content="a=b"><link rel=preconnect href=https://other.test/pre></head>
<body background=/background onload="fetch('/onload',{method:'POST'})">
<form method=post action=/form><input name=a value=b><button formaction=/button formmethod=post>x</button></form>
<form method=dialog action=/dialog></form><form action=/search><input name=q></form>
<a ping="/ping https://other.test/ping" href=/a>a</a> <a href="https://user:secret@other.test/b">b</a> <a href="/hop">c</a>
<a href="https://other.test/c" referrerpolicy=unsafe-url>d</a> <a href="view-source:https://example.com/v">e</a>
<script>navigator.sendBeacon("/beacon"); fetch("/fetch", {method: "DELETE"})</script><img src=/image><object data=/object></object>
<template><a href=/template>t</a></template></body></html>`
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		own := web.Site("https://example.com").Robots("")
		own.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Add("Set-Cookie", "session=secret; Path=/; Secure")
			w.Header().Add("Set-Cookie", "wide=secret; Domain=test")
			w.Header().Set("Allow", "POST")
			w.Header().Set("Link", `</link>; rel=next; method=POST`)
			_, _ = io.WriteString(w, text)
		}))
		own.Handle("/hop", http.RedirectHandler("https://user:secret@other.test/d", http.StatusTemporaryRedirect))
		web.Site("https://other.test").Robots("").Handle("/", politenesstest.Text("page"))
		transport, err := politeness.New(politeness.Config{UserAgent: userAgent, Base: web})
		if err != nil {
			t.Fatal(err)
		}
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		crawler, err := crawl.New(crawl.Config{
			Transport: transport,
			Client:    &http.Client{Transport: transport, Jar: jar},
			Grace:     time.Millisecond,
			Follow:    func(*crawl.Page, crawl.Link) bool { return true },
			Visit:     func(context.Context, *crawl.Page) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := crawler.Run(t.Context(), "https://example.com/"); err != nil {
			t.Fatal(err)
		}
		asked := make(map[string]bool)
		for _, r := range web.Requests() {
			asked[r.URL] = true
			isOwnPage := strings.HasPrefix(r.URL, "https://example.com/") && !strings.HasSuffix(r.URL, "/robots.txt")
			if r.Method != http.MethodGet || strings.Contains(r.URL, "secret") {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			if len(r.Header["Authorization"]) > 0 || len(r.Header["Referer"]) > 0 || len(r.Header["Cookie"]) > 0 && !isOwnPage {
				t.Errorf("%s with %v", r.URL, r.Header)
			}
		}
		for _, url := range []string{"https://other.test/b", "https://other.test/c", "https://other.test/d", "https://example.com/a"} {
			if !asked[url] {
				t.Errorf("%s wasn't asked for, so nothing is shown of it: %v", url, asked)
			}
		}
	})
}

// privateSpellings are addresses of this machine and of metadata services, in the words of pages.
var privateSpellings = []string{
	"127.0.0.1", "127.1", "0x7f.1", "0x7f000001", "2130706433", "0177.0.0.1", "017700000001", "0", "127.0.0.1.", "localhost", "LOCALHOST.",
	"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
	"[0:0:0:0:0:0:0:1]", "１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.1", "%31%32%37.0.0.1",
	"169.254.169.254", "0xa9fea9fe", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "10.0.0.1", "192.168.1.1", "100.100.100.200",
}

// However a page spells a private address, and by whatever way it leads there, publicnet.Transport
// connects to none.
func TestNoDoorLeadsToAPrivateAddress(t *testing.T) {
	var reached atomic.Int32
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer private.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(private.URL, "http://"), ":")

	pages := make(map[string]http.Handler) // by path
	start := []string{}
	for door, handler := range doors {
		for i, host := range privateSpellings {
			path := fmt.Sprintf("/%s/%d", door, i)
			pages[path] = handler("http://" + host + ":" + port + path)
			start = append(start, "https://example.com"+path)
		}
	}
	for i, host := range privateSpellings { // a list leads there as well
		start = append(start, fmt.Sprintf("http://%s:%s/list/%d", host, port, i))
	}
	var mu sync.Mutex
	refused := make(map[string]bool)
	outside := publicnet.Transport(nil)
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.URL.Host != "example.com" {
			resp, err := outside.RoundTrip(req)
			mu.Lock()
			refused[req.URL.Hostname()] = true
			mu.Unlock()
			return resp, err
		}
		w := httptest.NewRecorder()
		if handler := pages[req.URL.Path]; handler != nil {
			handler.ServeHTTP(w, req)
		} else {
			w.WriteHeader(http.StatusNotFound)
		}
		resp := w.Result()
		resp.Request = req
		return resp, nil
	})
	cfg := politeness.Config{
		UserAgent: userAgent,
		Base:      base,
		Hosts:     hostlimit.Config{Concurrency: 50, PerSite: -1, Delay: hostlimit.Delay{DangerouslyNone: true}},
	}
	transport, err := politeness.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var visited atomic.Int32
	crawler, err := crawl.New(crawl.Config{
		Transport: transport,
		Grace:     time.Millisecond,
		Follow:    func(*crawl.Page, crawl.Link) bool { return true },
		Visit: func(_ context.Context, p *crawl.Page) error {
			visited.Add(1)
			if !strings.HasPrefix(p.FinalURL, "https://example.com/") {
				t.Errorf("visited %s", p.FinalURL)
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := crawler.Run(t.Context(), start...); err != nil {
		t.Fatal(err)
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests reached the private server", n)
	}
	mu.Lock() // a robots.txt that was asked for ahead may still be on its way
	defer mu.Unlock()
	if len(refused) < 10 || int(visited.Load()) < len(privateSpellings)*(len(doors)-1) {
		t.Errorf("%d pages, and %d hosts refused: %v", visited.Load(), len(refused), refused)
	}
}
