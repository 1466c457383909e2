package politenesstest_test

import (
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/politenesstest"
)

// Hostile sites stand beside an honest one, and the crawler should come to an end with all.
func ExampleHostile() {
	web := politenesstest.NewWeb()
	web.Site("https://honest.example").Page("/", "hello")
	urls := []string{"https://honest.example/"}
	for name, site := range politenesstest.Hostile() {
		if strings.HasPrefix(name, "redirect-") { // or all of them
			web.Site("https://"+name+".example").Handle("/", site).Handle("/robots.txt", site)
			urls = append(urls, "https://"+name+".example/")
		}
	}
	crawl(context.Background(), web, 0, urls...) // the crawler under test

	asked := make(map[string]int)
	for _, r := range web.Requests() {
		u, _ := url.Parse(r.URL)
		asked[u.Host]++
	}
	for _, host := range []string{"honest.example", "redirect-loop.example", "169.254.169.254"} {
		fmt.Println(host, "was asked", asked[host], "times")
	}
	// Output:
	// honest.example was asked 1 times
	// redirect-loop.example was asked 10 times
	// 169.254.169.254 was asked 1 times
}

// hostileURLs are what a crawler asks of a site.
var hostileURLs = []string{"/robots.txt", "/", "/a"}

// TestHostileSitesServeAWeb: each says what it has to say, as long as somebody reads, and ends
// with its client, without a goroutine that stays behind.
func TestHostileSitesServeAWeb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		sites := 0
		for name, site := range politenesstest.Hostile() {
			sites++
			origin := "https://" + name + ".example"
			web.Site(origin).Handle("/", site).Handle("/robots.txt", site)
			for _, path := range hostileURLs {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				read(ctx, t, web, origin+path, 1<<20)
				cancel()
			}
		}
		if sites < 40 {
			t.Errorf("only %d sites", sites)
		}
	})
}

// TestHostileSitesServeRealConnections: the same over sockets, where those that are no HTTP are.
func TestHostileSitesServeRealConnections(t *testing.T) {
	var group sync.WaitGroup
	for _, site := range politenesstest.Hostile() {
		group.Go(func() {
			server := httptest.NewUnstartedServer(site)
			server.Config.ErrorLog = discardLog
			server.Start()
			defer server.Close()
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			for _, path := range hostileURLs {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				read(ctx, t, transport, server.URL+path, 1<<20)
				cancel()
			}
		})
	}
	group.Wait()
}

// TestHostileSitesAreNew: what one crawl has asked for doesn't change what the next one meets.
func TestHostileSitesAreNew(t *testing.T) {
	for range 2 {
		for name, site := range politenesstest.Hostile() {
			if name == "robots-changes" {
				w := httptest.NewRecorder()
				site.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/robots.txt", nil))
				if !strings.Contains(w.Body.String(), "Disallow: /1\n") {
					t.Errorf("%q", w.Body)
				}
			}
		}
	}
}

// TestBombsGoOff: a client that decompresses gets more than a thousand times what it was sent.
func TestBombsGoOff(t *testing.T) {
	const read = 64 << 20
	web := politenesstest.NewWeb()
	client := &http.Client{Transport: web}
	for name, site := range politenesstest.Hostile() {
		if !strings.HasSuffix(name, "-bomb") {
			continue
		}
		origin := "https://" + name + ".example"
		web.Site(origin).Handle("/", site).Handle("/robots.txt", site)
		path := "/"
		if strings.HasPrefix(name, "robots-") {
			path = "/robots.txt"
		}
		resp, err := client.Get(origin + path)
		if err != nil {
			t.Fatal(err)
		}
		var r io.Reader
		if resp.Header.Get("Content-Encoding") == "gzip" {
			r, err = gzip.NewReader(resp.Body)
		} else {
			r, err = zlib.NewReader(resp.Body)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n, err := io.CopyN(io.Discard, r, read); err != nil {
			t.Errorf("%s: %d bytes, then %v", name, n, err)
		}
		resp.Body.Close()
	}
	for _, r := range web.Requests() {
		if r.Bytes > read/400 {
			t.Errorf("%s: %d bytes for %d", r.URL, r.Bytes, read)
		}
	}
}

// read asks for a URL, following nothing, and reads up to n bytes of the answer.
func read(ctx context.Context, t *testing.T, transport http.RoundTripper, target string, n int64) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip((&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(ctx))
	if err != nil {
		return
	}
	defer resp.Body.Close()
	defer context.AfterFunc(ctx, func() { resp.Body.Close() })() // net/http lets a 101 outlive its context
	_, _ = io.CopyN(io.Discard, resp.Body, n)
}
