package revisit

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
)

// A site answers requests without a network, and remembers them.
type site struct {
	http.HandlerFunc
	requests []*http.Request
}

// RoundTrip implements http.RoundTripper.
func (s *site) RoundTrip(req *http.Request) (*http.Response, error) {
	s.requests = append(s.requests, req)
	if req.Body != nil {
		req.Body.Close()
	}
	reader, writer := io.Pipe()
	w := &response{header: http.Header{}, body: writer, status: make(chan int, 1)}
	w.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	go func() {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // the value itself
				panic(p)
			} else if p != nil {
				w.WriteHeader(http.StatusOK)
				writer.CloseWithError(io.ErrUnexpectedEOF)
			}
		}()
		s.HandlerFunc(w, req)
		w.WriteHeader(http.StatusOK)
		writer.Close()
	}()
	resp := &http.Response{StatusCode: <-w.status, Header: w.sent, Body: reader, ContentLength: -1, Request: req}
	if resp.StatusCode == http.StatusNotModified {
		reader.Close()
		resp.Body = http.NoBody
	}
	return resp, nil
}

// A response is an http.ResponseWriter on a pipe.
type response struct {
	header, sent http.Header
	body         *io.PipeWriter
	status       chan int
}

func (w *response) Header() http.Header { return w.header }

func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

func (w *response) WriteHeader(status int) {
	if w.sent == nil {
		w.sent = w.header.Clone()
		w.status <- status
	}
}

// versions serves a page with the tag in *tag, and 304 to who has it.
func versions(tag *string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", *tag)
		if r.Header.Get("If-None-Match") == *tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(w, "version ", *tag)
	}
}

// get asks for url, reads the answer to its end, and returns the status; 0: it was refused.
func get(t *testing.T, rt http.RoundTripper, url string, header ...string) (status int, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = headers(header...)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.Request != req {
		t.Error("the answer names another request than the caller's")
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// wantFresh expects the refusal of a request until some time from now.
func wantFresh(t *testing.T, err error, after time.Duration) {
	t.Helper()
	refusal, ok := errors.AsType[*politeness.Error](err)
	if !ok || !errors.Is(err, ErrFresh) || refusal.Stage != Stage {
		t.Fatalf("%v", err)
	}
	if got := time.Until(refusal.RetryAt); got != after || refusal.Host != "example.com" {
		t.Errorf("%s in %v, want example.com in %v", refusal.Host, got, after)
	}
}

const page = "https://example.com/feed.xml"

func TestTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tag := `"1"`
		s := &site{HandlerFunc: versions(&tag)}
		rt := &Transport{Base: s, Schedule: Schedule{Min: hour}}
		ask := func(want int, header ...string) *http.Request {
			t.Helper()
			before := len(s.requests)
			status, err := get(t, rt, page, header...)
			if err != nil || status != want || len(s.requests) != before+1 {
				t.Fatalf("status %d, %v, want %d", status, err, want)
			}
			return s.requests[before]
		}
		if req := ask(200); req.Header.Get("If-None-Match") != "" {
			t.Error("a condition on the first request")
		}
		_, err := get(t, rt, page)
		wantFresh(t, err, hour)
		time.Sleep(59 * time.Minute)
		_, err = get(t, rt, page)
		wantFresh(t, err, time.Minute)
		// no-cache is the way out.
		ask(304, "Cache-Control", "no-cache")
		time.Sleep(time.Minute)
		_, err = get(t, rt, page)
		wantFresh(t, err, 59*time.Minute)
		time.Sleep(59 * time.Minute)
		tag = `"2"`
		if req := ask(200); req.Header.Get("If-None-Match") != `"1"` {
			t.Errorf("If-None-Match %q", req.Header.Get("If-None-Match"))
		}
		time.Sleep(hour)
		ask(304)
		// 12: requests with conditions of their own, or that are no GET, aren't touched, and nobody
		// learns from them.
		for _, header := range [][]string{{"If-None-Match", `"9"`}, {"Range", "bytes=0-1"}, {"If-Modified-Since", "x"}, {"if-match", "x"}} {
			if req := ask(200, header...); len(req.Header) != 1 {
				t.Errorf("sent %v", req.Header)
			}
		}
		for _, method := range []string{http.MethodHead, http.MethodPost} {
			req, err := http.NewRequestWithContext(t.Context(), method, page, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if err != nil || s.requests[len(s.requests)-1] != req {
				t.Errorf("%s: %v", method, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		time.Sleep(hour)
		req := ask(304)
		// A program that has lost the page gets all of it.
		if err := rt.Forget(req); err != nil {
			t.Fatal(err)
		}
		ask(200)
		// Another user's page is another page, and so is another language's.
		ask(200, "Authorization", "Bearer 1")
		ask(200, "Accept-Language", "de")
		_, err = get(t, rt, page, "Authorization", "Bearer 1")
		wantFresh(t, err, hour)
		// A fragment is no other page.
		_, err = get(t, rt, page+"#a")
		wantFresh(t, err, hour)
	})
}

// TestBodies: a page counts as had once it was read, and no earlier.
func TestBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tag := `"1"`
		serve := versions(&tag)
		s := &site{HandlerFunc: func(w http.ResponseWriter, r *http.Request) { serve(w, r) }}
		rt := &Transport{Base: s, Schedule: Schedule{Min: hour}}
		open := func() *http.Response {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		// 11: a body that is cut off.
		serve = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", tag)
			fmt.Fprint(w, "half of")
			panic(http.ErrAbortHandler)
		}
		resp := open()
		_, err := io.Copy(io.Discard, resp.Body)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		resp.Body.Close()
		// One that is closed early.
		serve = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", tag)
			fmt.Fprint(w, strings.Repeat("x", 3*mostRest))
		}
		resp = open()
		_, _ = resp.Body.Read(make([]byte, 10))
		_, err = get(t, rt, page)
		wantFresh(t, err, hour) // the answer is on its way
		resp.Body.Close()
		resp = open()
		if resp.Request.Header.Get("If-None-Match") != "" {
			t.Error("a condition for a page that was never had")
		}
		// One that is never closed holds nobody off for longer than Min.
		time.Sleep(hour)
		// One that is read to the end of the document, and then closed.
		serve = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", tag)
			if r.Header.Get("If-None-Match") == tag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprint(w, "<rss></rss>")
			fmt.Fprint(w, "\n")
		}
		resp.Body.Close()
		resp = open()
		var feed struct{}
		if err := xml.NewDecoder(resp.Body).Decode(&feed); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		time.Sleep(hour)
		if resp = open(); resp.StatusCode != http.StatusNotModified {
			t.Errorf("status %d: a feed that was read isn't remembered", resp.StatusCode)
		}
		// The end of a stream isn't waited for.
		serve = func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "data: 1\n\n")
			<-r.Context().Done()
		}
		time.Sleep(hour)
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err = rt.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		_, _ = resp.Body.Read(make([]byte, 10))
		before := time.Now()
		resp.Body.Close()
		if waited := time.Since(before); waited > 0 {
			t.Errorf("Close waits %v for the end of a stream", waited)
		}
		cancel()
	})
}

// TestFailures: a refused, a failed and a 5xx answer start no distance, and leave what was had.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tag := `"1"`
		s := &site{HandlerFunc: versions(&tag)}
		failure := errors.New("no route")
		var fail bool
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			if fail {
				return nil, failure
			}
			return s.RoundTrip(req)
		})
		rt := &Transport{Base: base, Schedule: Schedule{Min: hour}}
		if _, err := get(t, rt, page); err != nil {
			t.Fatal(err)
		}
		time.Sleep(hour)
		fail = true
		for range 2 {
			if _, err := get(t, rt, page); !errors.Is(err, failure) {
				t.Fatal(err)
			}
		}
		fail = false
		for _, status := range []int{500, 429, 403, 302, 301} {
			s.HandlerFunc = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
			if got, err := get(t, rt, page); err != nil || got != status {
				t.Fatalf("%d, %v", got, err)
			}
			if sent := s.requests[len(s.requests)-1]; sent.Header.Get("If-None-Match") != tag {
				t.Errorf("before the %d: If-None-Match %q", status, sent.Header.Get("If-None-Match"))
			}
		}
		// 15: a 304 that nobody asked for, as after the 301.
		s.HandlerFunc = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }
		for range 2 {
			if status, err := get(t, rt, page); err != nil || status != 304 {
				t.Fatalf("%d, %v", status, err)
			}
			if sent := s.requests[len(s.requests)-1]; sent.Header.Get("If-None-Match") != "" {
				t.Error("a condition after the page had moved")
			}
		}
	})
}

type roundTripper func(req *http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestRedirects is case 13: each hop has its own memory.
func TestRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tag := `"1"`
		serve := versions(&tag)
		s := &site{HandlerFunc: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/old" {
				w.Header().Set("ETag", `"old"`)
				w.Header().Set("Location", "/feed.xml")
				w.WriteHeader(http.StatusFound)
				return
			}
			serve(w, r)
		}}
		client := &http.Client{Transport: &Transport{Base: s, Schedule: Schedule{Min: hour}}}
		for i, want := range []int{200, 304} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/old", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil || resp.StatusCode != want {
				t.Fatalf("round %d: %v, %v", i, resp, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			time.Sleep(hour)
		}
		if s.requests[2].Header.Get("If-None-Match") != "" || s.requests[3].Header.Get("If-None-Match") != `"1"` {
			t.Errorf("conditions of the second round: %v, %v", s.requests[2].Header, s.requests[3].Header)
		}
	})
}

// TestDir: what a process remembers the next one knows, and what can't be read harms nobody.
func TestDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	tag := `"1"`
	s := &site{HandlerFunc: versions(&tag)}
	var failed []error
	start := func() *Transport {
		return &Transport{
			Base: s, Schedule: Schedule{Min: time.Second}, Store: Dir(dir),
			Failed: func(err error) { failed = append(failed, err) },
		}
	}
	if _, err := get(t, start(), page); err != nil {
		t.Fatal(err)
	}
	_, err := get(t, start(), page)
	if !errors.Is(err, ErrFresh) {
		t.Errorf("at once: %v", err)
	}
	if status, err := get(t, start(), page, "Cache-Control", "no-cache"); status != 304 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", strings.Repeat("?", 64)))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil || len(failed) > 0 {
		t.Fatal(err, failed)
	}
	for _, damage := range [][]byte{nil, whole[:len(whole)-1], append([]byte("x"), whole...), []byte("politeness-page 2 x\n")} {
		if err := os.WriteFile(files[0], damage, 0o600); err != nil {
			t.Fatal(err)
		}
		failed = nil
		if status, err := get(t, start(), page); status != 200 || err != nil || len(failed) != 1 {
			t.Errorf("with the file %.20q: %d, %v, %v", damage, status, err, failed)
		}
	}
	rt := start()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Forget(req); err != nil {
		t.Fatal(err)
	}
	if status, err := get(t, rt, page); status != 200 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
}

func TestFaultyFields(t *testing.T) {
	for _, rt := range []*Transport{
		{Schedule: Schedule{Min: hour}},
		{Base: &site{}},
		{Base: &site{}, Schedule: Schedule{Min: 3600}},
	} {
		if _, err := get(t, rt, page); err == nil {
			t.Errorf("%+v sends", rt)
		}
	}
}

// TestTwoAtOnce: of many requests for one page at once a single one is sent, whatever the Store does
// meanwhile.
func TestTwoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tag := `"1"`
		var mu sync.Mutex
		sent := 0
		s := &site{HandlerFunc: versions(&tag)}
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			sent++
			return s.RoundTrip(req)
		})
		rt := &Transport{Base: base, Schedule: Schedule{Min: hour}, Store: &slowStore{memory: newMemory()}}
		for round := range 3 {
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * 300 * time.Millisecond)
					_, err := get(t, rt, page)
					if err != nil && !errors.Is(err, ErrFresh) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if sent != round+1 {
				t.Errorf("%d requests in %d rounds", sent, round+1)
			}
			time.Sleep(hour)
		}
	})
}

// A slowStore takes a second to load a page.
type slowStore struct{ *memory }

// Load implements Store.
func (s *slowStore) Load(ctx context.Context, key string) (p Page, ok bool, err error) {
	p, ok, err = s.memory.Load(ctx, key)
	time.Sleep(time.Second)
	return p, ok, err
}

// TestCloseDuringRead: a body may be closed while another goroutine reads it.
func TestCloseDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tag := `"1"`
		s := &site{HandlerFunc: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", tag)
			fmt.Fprint(w, "half of")
			time.Sleep(hour)
		}}
		rt := &Transport{Base: s, Schedule: Schedule{Min: hour}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = io.Copy(io.Discard, resp.Body) })
		synctest.Wait()
		before := time.Now()
		resp.Body.Close()
		wg.Wait()
		if waited := time.Since(before); waited > 0 {
			t.Errorf("Close waits %v", waited)
		}
		// Nothing was had, so the page may be asked for at once.
		s.HandlerFunc = versions(&tag)
		if status, err := get(t, rt, page); status != 200 || err != nil {
			t.Errorf("%d, %v", status, err)
		}
		time.Sleep(hour) // the first handler ends
	})
}

// TestPanics: a Base that panics leaves its page to be asked for again.
// TestCloseDoesntWaitForASiteThatStalls: a program that has read enough leaves the rest, which may
// never come.
func TestCloseDoesntWaitForASiteThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &site{HandlerFunc: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", `"1"`)
			_, _ = io.WriteString(w, "the beginning")
			<-ctx.Done()
		}}
		transport := &Transport{Base: s, Schedule: Schedule{Min: time.Hour}}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // it isn't remembered, so the next request is sent
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, len("the beginning"))); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("Close took %v", took)
			}
		}
	})
}

func TestPanics(t *testing.T) {
	tag := `"1"`
	s := &site{HandlerFunc: versions(&tag)}
	panics := true
	rt := &Transport{Schedule: Schedule{Min: hour}, Base: roundTripper(func(req *http.Request) (*http.Response, error) {
		if panics {
			panic("a fault of Base")
		}
		return s.RoundTrip(req)
	})}
	func() {
		defer func() { _ = recover() }()
		_, _ = get(t, rt, page)
	}()
	panics = false
	if status, err := get(t, rt, page); status != 200 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
}
