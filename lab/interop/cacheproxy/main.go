// Cacheproxy is a cache in front of a site, made of a revisit.Transport and the bodies that it got.
// The HTTP cache tests of github.com/http-tests/cache-tests use it to judge the Transport's
// requests and their times. In a clone of these tests run
//
//	npm run server &
//	go run ./interop/cacheproxy &   # in the folder lab of this repository
//	npm run --silent cli --base=http://127.0.0.1:8002 >results.json
//
// RESULTS.md beside this file has the results.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/go-politeness/politeness/revisit"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	listen := flag.String("listen", "127.0.0.1:8002", "where to listen")
	site := flag.String("site", "http://127.0.0.1:8000", "the site behind")
	flag.Parse()
	target, err := url.Parse(*site)
	if err != nil {
		return err
	}
	base := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &cache{
			pages: &revisit.Transport{Base: base, Schedule: revisit.Schedule{Min: least}},
			kept:  make(map[string]*answer),
		},
	}
	server := &http.Server{Addr: *listen, Handler: proxy, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}

// least is the shortest Min that there is. The tests ask again at once, so a request waits for it.
const least = time.Second

// A cache has the bodies of pages. A program that uses a revisit.Transport has them in its own way.
type cache struct {
	pages *revisit.Transport

	mu   sync.Mutex
	kept map[string]*answer
}

// An answer is one that was kept.
type answer struct {
	status int
	header http.Header
	body   []byte
	at     time.Time // when it came
}

// RoundTrip implements http.RoundTripper.
func (c *cache) RoundTrip(req *http.Request) (*http.Response, error) {
	key := req.URL.String()
	c.mu.Lock()
	old := c.kept[key]
	c.mu.Unlock()
	if old != nil {
		select {
		case <-time.After(time.Until(old.at.Add(least + 10*time.Millisecond))):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	resp, err := c.pages.RoundTrip(req)
	switch {
	case errors.Is(err, revisit.ErrFresh) && old != nil:
		return old.response(req), nil
	case err != nil:
		return nil, err
	}
	isOwn := req.Header.Get("If-None-Match") == "" && req.Header.Get("If-Modified-Since") == ""
	if resp.StatusCode == http.StatusNotModified && old != nil && isOwn {
		resp.Body.Close()
		return c.keep(key, old.confirmed(resp.Header)).response(req), nil
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	a := &answer{status: resp.StatusCode, header: resp.Header, body: body, at: time.Now()}
	if req.Method == http.MethodGet && resp.StatusCode == http.StatusOK {
		c.keep(key, a)
	}
	return a.response(req), nil
}

func (c *cache) keep(key string, a *answer) *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[key] = a
	return a
}

// confirmed returns the answer with the fields of a 304 (RFC 9111, section 3.2).
func (a *answer) confirmed(header http.Header) *answer {
	next := *a
	next.at = time.Now()
	next.header = a.header.Clone()
	for name, values := range header {
		if name != "Content-Length" {
			next.header[name] = values
		}
	}
	return &next
}

// response returns the answer to a request, with its age.
func (a *answer) response(req *http.Request) *http.Response {
	header := a.header.Clone()
	if age := time.Since(a.at); age > time.Second/2 {
		before, _ := strconv.Atoi(header.Get("Age"))
		header.Set("Age", strconv.Itoa(before+int(age.Seconds())))
	}
	return &http.Response{
		StatusCode:    a.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(a.body)),
		ContentLength: int64(len(a.body)),
		Request:       req,
	}
}
