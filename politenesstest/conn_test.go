package politenesstest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/politenesstest"
)

// A wire plays the same client and site over a Web and over an http.Transport with pipes.
type wire struct {
	transport http.RoundTripper
	dial      func(time.Duration)
	hangUp    func()
	down      func(error)
}

func webWire() wire {
	web := politenesstest.NewWeb()
	site := web.Site("http://example.com").Page("/", "hello").Latency(10 * time.Millisecond)
	return wire{
		web,
		func(d time.Duration) { site.Dial(d) },
		func() { site.HangUp() },
		func(err error) { site.Down(err) },
	}
}

// pipeWire is an http.Transport whose server answers over net.Pipe, for comparison.
func pipeWire(t *testing.T) wire {
	var mu sync.Mutex
	var delay time.Duration
	var refuse error
	var open []net.Conn
	serve := func(c net.Conn) {
		defer c.Close()
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			time.Sleep(10 * time.Millisecond)
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
		}
	}
	transport := &http.Transport{
		MaxIdleConnsPerHost: 100,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			mu.Lock()
			d := delay
			mu.Unlock()
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			mu.Lock()
			defer mu.Unlock()
			if refuse != nil {
				return nil, refuse
			}
			client, server := net.Pipe()
			open = append(open, server)
			go serve(server)
			return client, nil
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return wire{
		transport,
		func(d time.Duration) { mu.Lock(); delay = d; mu.Unlock() },
		func() {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range open {
				c.Close()
			}
			open = nil
			synctest.Wait()
		},
		func(err error) { mu.Lock(); refuse = err; mu.Unlock() },
	}
}

// get fetches the page and returns what happened to it, with the times since begin.
func (w wire) get(ctx context.Context, begin time.Time) string {
	var mu sync.Mutex
	var events []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, fmt.Sprintf(format, args...)+fmt.Sprintf("@%d", time.Since(begin).Milliseconds()))
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(address string) { note("get %s", address) },
		GotConn:              func(info httptrace.GotConnInfo) { note("got reused=%v", info.Reused) },
		GotFirstResponseByte: func() { note("answer") },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.com/", http.NoBody)
	if err != nil {
		return err.Error()
	}
	resp, err := w.transport.RoundTrip(req)
	if err != nil {
		note("failed")
		return strings.Join(events, " ")
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	note("%d", resp.StatusCode)
	return strings.Join(events, " ")
}

// The oracle is http.Transport itself, over pipes in virtual time.
func TestConnectionsAreLikeTransports(t *testing.T) {
	const dial = 450 * time.Millisecond
	for _, c := range []struct {
		name string
		play func(w wire, begin time.Time) []string
	}{
		{"a cold connection, and the same again", func(w wire, begin time.Time) []string {
			w.dial(dial)
			return []string{w.get(context.Background(), begin), w.get(context.Background(), begin)}
		}},
		{"a dial that is overtaken by a connection that becomes free", func(w wire, begin time.Time) []string {
			w.dial(100 * time.Millisecond)
			first := w.get(context.Background(), begin)
			var got [2]string
			var wg sync.WaitGroup
			wg.Go(func() { got[0] = w.get(context.Background(), begin) })
			time.Sleep(time.Millisecond)
			w.dial(dial)
			wg.Go(func() { got[1] = w.get(context.Background(), begin) })
			wg.Wait()
			time.Sleep(time.Second) // the dial that nobody waited for is there
			var late [2]string
			for i := range late {
				wg.Go(func() { late[i] = w.get(context.Background(), begin) })
			}
			wg.Wait()
			slices.Sort(late[:]) // which of the two gets which connection is chance
			return []string{first, got[0], got[1], late[0], late[1]}
		}},
		{"a connection that the server has closed", func(w wire, begin time.Time) []string {
			w.dial(dial)
			first := w.get(context.Background(), begin)
			return []string{first, w.get(context.Background(), begin)}
		}},
		{"a refused connection", func(w wire, begin time.Time) []string {
			w.dial(dial)
			w.down(syscall.ECONNREFUSED)
			first := w.get(context.Background(), begin)
			w.down(nil)
			return []string{first, w.get(context.Background(), begin)}
		}},
		{"a caller that leaves during the dial", func(w wire, begin time.Time) []string {
			w.dial(dial)
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			first := w.get(ctx, begin)
			time.Sleep(time.Second)
			return []string{first}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ours, theirs []string
			synctest.Test(t, func(*testing.T) { ours = c.play(webWire(), time.Now()) })
			synctest.Test(t, func(t *testing.T) { theirs = c.play(pipeWire(t), time.Now()) })
			if !slices.Equal(ours, theirs) {
				t.Errorf("the web:\n\t%s\nhttp.Transport:\n\t%s", strings.Join(ours, "\n\t"), strings.Join(theirs, "\n\t"))
			}
		})
	}
}

func TestStartIsWhenTheRequestIsOnItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("http://example.com").Page("/", "hello").Dial(450 * time.Millisecond)
		begin := time.Now()
		for range 2 {
			get(t, web, "http://example.com/")
		}
		for i, r := range web.Requests() {
			if d := r.Start.Sub(begin); d != 450*time.Millisecond {
				t.Errorf("request %d reached the site after %v, want 450ms: the second needs no dial", i+1, d)
			}
		}
	})
}

// A gate is a GotConn that waits, as a limiter's does.
func TestNothingReachesTheSiteAfterACancelledGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("http://example.com").Page("/", "hello").Dial(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		gated := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
			time.Sleep(time.Second)
			cancel()
		}})
		req, err := http.NewRequestWithContext(gated, http.MethodGet, "http://example.com/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := web.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		if !errors.Is(err, context.Canceled) || len(web.Requests()) != 0 {
			t.Fatalf("%v; %d requests reached the site", err, len(web.Requests()))
		}
		begin := time.Now()
		get(t, web, "http://example.com/")
		if d := time.Since(begin); d != 0 {
			t.Errorf("the connection that was given up took %v again", d)
		}
	})
}

func TestHangUpLosesARequestAndSendsItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		site := web.Site("http://example.com").Handle("/", politenesstest.Text("hello")).Dial(time.Second)
		get(t, web, "http://example.com/")
		site.HangUp()
		get(t, web, "http://example.com/")
		all := web.Requests()
		if len(all) != 3 || all[1].Err == nil || all[2].Status != http.StatusOK || all[2].Start.Sub(all[1].Start) != time.Second {
			t.Errorf("%+v", all)
		}

		site.HangUp()
		post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.com/", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := web.RoundTrip(post)
		if err == nil {
			resp.Body.Close()
			t.Error("a POST was sent twice")
		}
	})
}
