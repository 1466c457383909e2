package promises_test

// The acceptance tests of Bulk, a database extension's crawler, in the words of
// its owner's description. Its program is examples/integrations/bulk.

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

func bulk() politeness.Config { return politeness.Bulk(agent) }

// patient is a preset for callers that would rather wait than come back.
func patient(preset func() politeness.Config) func() politeness.Config {
	return func() politeness.Config {
		c := preset()
		c.Hosts.MaxWait = 1000 * time.Hour
		return c
	}
}

// fetchAll fetches n pages from as many goroutines.
func (b *bubble) fetchAll(n int) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { b.mustGet(fmt.Sprintf("https://example.com/%d", i), 200) })
	}
	group.Wait()
}

// Atomic crawl-delay across threads.
func TestBulkCrawlDelayIsAtomicAcrossThreads(t *testing.T) {
	acceptance(t, patient(bulk), func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 1\n").Handle("/", http.HandlerFunc(everywhere)).Latency(50 * time.Millisecond)
		b.fetchAll(32)
		for _, gap := range b.gaps() {
			if gap != time.Second {
				b.Errorf("a gap of %v, want 1 s", gap)
			}
		}
		b.web.Check(b, politenesstest.Rules{Concurrency: 2})
	})
}

// Any 429 blocks the host for all, Retry-After ...
func TestBulkAny429BlocksTheHostForAllUntilRetryAfter(t *testing.T) {
	acceptance(t, bulk, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(everywhere))
		b.know()
		b.site.Storm(20 * time.Second)
		b.fetchAll(16)
		b.web.Check(b, politenesstest.Rules{Delay: 200 * time.Millisecond, Concurrency: 2})
		refusals := 0
		for _, r := range b.web.Requests() {
			if r.Status == http.StatusTooManyRequests {
				refusals++
			}
		}
		if refusals > 2 { // as many as were in flight
			b.Errorf("%d requests were sent into the storm", refusals)
		}
	})
}

// bulkBlock returns the length of the block after the n-th refusal in a row: Fibonacci steps to 600 s
// and, if 600 s were refused twice, twice as long each time, to 4 h.
func bulkBlock(n int) time.Duration {
	step, next := time.Second, time.Second
	longest := 0 // number of blocks of 600 s so far
	for range n - 1 {
		switch {
		case longest >= 2:
			step = min(2*step, 4*time.Hour)
			continue
		case next >= 600*time.Second:
			step = 600 * time.Second
		default:
			step, next = next, step+next
		}
		if step == 600*time.Second {
			longest++
		}
	}
	return step
}

// ... or Fibonacci ...
func TestBulkAny429WithoutRetryAfterBlocksTheHostByFibonacci(t *testing.T) {
	noRetry := func() politeness.Config {
		c := patient(bulk)()
		c.Retry = politeness.Retry{} // the caller comes back at once, so only the block holds it
		return c
	}
	acceptance(t, noRetry, func(b *bubble) {
		b.site.Handle("/", politenesstest.Status(http.StatusTooManyRequests))
		for range 20 {
			b.mustGet("https://example.com/page", http.StatusTooManyRequests)
		}
		starts := b.starts()
		for i := 1; i < len(starts); i++ {
			want := bulkBlock(i)
			gap := starts[i].Sub(starts[i-1])
			late := gap - want // by a fetch of robots.txt, whose copy is out of date after an hour
			if late < 0 || late > time.Second {
				b.Errorf("block %d is %v, want %v", i, gap, want)
			}
		}
	})
}

// ... success clears at once.
func TestBulkSuccessClearsTheBlockAtOnce(t *testing.T) {
	unlearned := func() politeness.Config {
		c := bulk()
		c.Hosts.Delay.Adaptive = hostlimit.Fixed // this is about blocks
		return c
	}
	acceptance(t, unlearned, func(b *bubble) {
		b.site.Page("/a", "a").Sequence("/b", 429, 429, 429, 200, 429, 200).Page("/b", "b")
		b.mustGet("https://example.com/b", 200) // after blocks of 1, 1 and 2 s
		b.mustGet("https://example.com/b", 200)
		blocks := b.log.Decisions(evidence.HostBlocked)
		var refusals []int
		for _, d := range blocks {
			refusals = append(refusals, d.Refusals)
		}
		if !slices.Equal(refusals, []int{1, 2, 3, 1}) {
			b.Errorf("refusals in a row %v, want the fourth to be a first one again", refusals)
		}
		if n := len(b.log.Decisions(evidence.HostCleared)); n != 2 {
			b.Errorf("%d records host_cleared, want 2", n)
		}
		before := time.Now()
		b.mustGet("https://example.com/a", 200)
		if waited := time.Since(before); waited > 200*time.Millisecond {
			b.Errorf("waited for %v after the success", waited)
		}
	})
}

// Adaptive delay.
func TestBulkDelayAdaptsToResponseTimes(t *testing.T) {
	acceptance(t, bulk, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(everywhere))
		b.know()
		for _, test := range []struct{ latency, gap time.Duration }{
			{50 * time.Millisecond, 200 * time.Millisecond}, // never below the least delay
			{3 * time.Second, 3 * time.Second},
			{time.Second, time.Second},
		} {
			b.site.Latency(test.latency)
			b.fetchAll(12) // each answer takes it half the way
			gaps := b.gaps()
			if gap := gaps[len(gaps)-1]; !within(gap, test.gap-test.gap/100, test.gap+test.gap/100) {
				b.Errorf("answers take %v: gaps %v, want %v at the end", test.latency, gaps[len(gaps)-12:], test.gap)
			}
		}
		// An error that comes fast doesn't make the crawl any faster.
		b.site.Latency(3 * time.Second)
		b.fetchAll(12)
		b.site.Latency(0).Handle("/missing", politenesstest.Status(404))
		for range 3 {
			b.mustGet("https://example.com/missing", 404)
		}
		if gaps := b.gaps(); gaps[len(gaps)-1] < 2900*time.Millisecond {
			b.Errorf("gaps after errors: %v, want 3 s", gaps[len(gaps)-2:])
		}
	})
}

// A host that always takes 600 ms keeps both of its slots busy: only what becomes slower than usual
// slows the crawl.
func TestBulkHostThatIsSteadilySlowKeepsTwoRequestsInFlight(t *testing.T) {
	acceptance(t, bulk, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(everywhere))
		b.know()
		b.site.Latency(600 * time.Millisecond)
		begun := time.Now()
		b.fetchAll(60)
		if took := time.Since(begun); took > 60*310*time.Millisecond {
			b.Errorf("60 pages took %v, want two at a time", took)
		}
		b.web.Check(b, politenesstest.Rules{Delay: 200 * time.Millisecond, Concurrency: 2})
		b.site.Latency(2 * time.Second)
		b.fetchAll(12)
		if gaps := b.gaps(); gaps[len(gaps)-1] < 1900*time.Millisecond {
			b.Errorf("answers take 2 s instead: gaps %v, want 2 s at the end", gaps[len(gaps)-12:])
		}
	})
}

// 5 retries per URL on 429, 5xx ...
func TestBulkRetries5TimesOn429And5xx(t *testing.T) {
	for _, status := range []int{429, 500, 502, 503, 504, 599} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			acceptance(t, bulk, func(b *bubble) {
				b.site.Page("/heals", "page").Sequence("/heals", status, status, status, status, status, 200)
				b.mustGet("https://example.com/heals", 200)
				if n := len(b.log.Decisions(evidence.Retried)); n != 5 {
					b.Errorf("%d retries, want 5", n)
				}
				b.log.Reset()
				b.site.Handle("/broken", politenesstest.Status(status))
				b.mustGet("https://example.com/broken", status)
				if n := len(b.log.Decisions(evidence.Retried)); n != 5 {
					b.Errorf("%d retries, want 5 and then the response", n)
				}
			})
		})
	}
}

// ... and network errors.
func TestBulkRetries5TimesOnNetworkErrors(t *testing.T) {
	acceptance(t, bulk, func(b *bubble) {
		b.site.Page("/", "page")
		b.know()
		b.site.Down(syscall.ECONNRESET)
		_, err := b.get("https://example.com/")
		failed(b.T, err, syscall.ECONNRESET)
		if n := len(b.starts()); n != 6 {
			b.Errorf("%d tries, want 6", n)
		}
		time.AfterFunc(3*time.Second, func() { b.site.Down(nil) })
		b.mustGet("https://example.com/", 200)
	})
}

// Fibonacci capped at 600 s.
func TestBulkRetriesByFibonacci(t *testing.T) {
	acceptance(t, bulk, func(b *bubble) {
		b.site.Handle("/", politenesstest.Status(503))
		b.know()
		b.mustGet("https://example.com/", 503)
		starts := b.starts()
		for i, seconds := range []int{1, 1, 2, 3, 5} {
			if gap := starts[i+1].Sub(starts[i]); gap != time.Duration(seconds)*time.Second {
				b.Errorf("try %d came after %v, want %d s", i+2, gap, seconds)
			}
		}
	})
	capped := func() politeness.Config {
		c := patient(bulk)()
		c.Retry.Max = 16 // the last two come after 600 s
		return c
	}
	acceptance(t, capped, func(b *bubble) {
		b.site.Handle("/", politenesstest.Status(503))
		b.know()
		b.mustGet("https://example.com/", 503)
		gaps := b.gaps()
		if gaps[len(gaps)-1] != 600*time.Second || slices.Max(gaps) != 600*time.Second {
			b.Errorf("gaps %v, want 600 s at most and at the end", gaps)
		}
	})
}

// Other 4xx permanent.
func TestBulkOther4xxArePermanent(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 410, 418, 451} {
		acceptance(t, bulk, func(b *bubble) {
			b.site.Handle("/", politenesstest.Status(status))
			b.mustGet("https://example.com/", status)
			if n := len(b.starts()); n != 1 {
				b.Errorf("%d: %d tries, want 1", status, n)
			}
		})
	}
}

// Global and per-host connection limits.
func TestBulkLimitsConnectionsPerHostAndInAll(t *testing.T) {
	acceptance(t, bulk, func(b *bubble) {
		var now, most atomic.Int64
		var group sync.WaitGroup
		for i := range 100 {
			origin := fmt.Sprintf("https://%d.example", i)
			b.web.Site(origin).Handle("/", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(5 * time.Second)
				now.Add(-1)
			}))
			for page := range 3 {
				group.Go(func() { b.mustGet(fmt.Sprintf("%s/%d", origin, page), 200) })
			}
		}
		group.Wait()
		if n := most.Load(); n != 64 {
			b.Errorf("%d pages were fetched at once, want 64", n)
		}
		b.web.Check(b, politenesstest.Rules{Concurrency: 2, Delay: 200 * time.Millisecond})
	})
}

// 10 MB responses.
func TestBulkResponsesAreOf10MBAtMost(t *testing.T) {
	const limit = 10 << 20
	acceptance(t, bulk, func(b *bubble) {
		b.site.Handle("/fits", politenesstest.Bytes(limit)).Handle("/large", politenesstest.Bytes(limit+1))
		b.site.Handle("/endless", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for chunk := make([]byte, 64<<10); ; {
				if _, err := w.Write(chunk); err != nil {
					return // the rest isn't read
				}
			}
		}))
		b.mustGet("https://example.com/fits", 200)
		_, err := b.get("https://example.com/large")
		refused(b.T, err, politeness.StageResponse, politeness.ErrTooLarge) // before it is read
		_, err = b.get("https://example.com/endless")
		refused(b.T, err, politeness.StageBody, politeness.ErrTooLarge)
		requests := b.web.Requests()
		if n := requests[len(requests)-2].Bytes; n != 0 {
			b.Errorf("%d bytes of the announced body were read", n)
		}
		if n := requests[len(requests)-1].Bytes; n > limit+1 {
			b.Errorf("%d bytes of the endless body were read", n)
		}
		b.mustGet("https://example.com/fits", 200) // no slot is lost
	})
}

// Accept and reject lists of content types with wildcards (`text/*`), checked
// before the body is read.
func TestBulkAcceptsAndRejectsContentTypesBeforeTheBodyIsRead(t *testing.T) {
	listed := func() politeness.Config {
		c := bulk()
		c.Response.Accept = []string{"text/*", "application/pdf"}
		c.Response.Reject = []string{"text/css"}
		return c
	}
	acceptance(t, listed, func(b *bubble) {
		for path, contentType := range map[string]string{
			"/a": "text/html; charset=utf-8", "/b": "text/plain", "/c": "application/pdf", "/d": "text/css", "/e": "image/png",
		} {
			b.site.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", contentType)
				_, _ = io.WriteString(w, "body")
			}))
		}
		for _, path := range []string{"/a", "/b", "/c"} {
			b.mustGet("https://example.com"+path, 200)
		}
		for _, path := range []string{"/d", "/e"} {
			_, err := b.get("https://example.com" + path)
			refused(b.T, err, politeness.StageResponse, politeness.ErrContentType)
		}
		for _, r := range b.web.Requests() {
			if (strings.HasSuffix(r.URL, "/d") || strings.HasSuffix(r.URL, "/e")) && (r.Bytes != 0 || r.End.IsZero()) {
				b.Errorf("%v: %d bytes read, ended %v", r, r.Bytes, r.End)
			}
		}
	})
}

// loopback is Bulk around a real server on loopback, without its delays between requests and
// before retries.
func loopback(t *testing.T, server *httptest.Server, log evidence.Evidence) *http.Client {
	t.Helper()
	c := bulk()
	c.Base, c.Evidence = server.Client().Transport, log
	c.Hosts.Delay = hostlimit.Delay{DangerouslyNone: true}
	c.Retry.Backoff = func() cenkalti.BackOff { return &cenkalti.ZeroBackOff{} }
	tr, err := politeness.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: tr}
}

// gzip.
func TestBulkReadsGzip(t *testing.T) {
	const text = "a page that was compressed"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			t.Errorf("%s asked for with Accept-Encoding %q", r.URL, r.Header.Get("Accept-Encoding"))
		}
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
	}))
	defer server.Close()
	resp, err := loopback(t, server, nil).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != text {
		t.Errorf("read %q, %v", got, err)
	}
}

// noindex from meta and header.
func TestBulkFindsNoindexInMetaAndHeader(t *testing.T) {
	acceptance(t, bulk, func(b *bubble) {
		b.site.Handle("/header", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Robots-Tag", "noindex")
			_, _ = io.WriteString(w, "plain text")
		}))
		b.site.Page("/meta", `<!doctype html><html><head><meta name="robots" content="noindex,nofollow"></head><body>text</body></html>`)
		b.site.Page("/free", `<!doctype html><html><head><title>x</title></head><body>noindex</body></html>`)
		for path, want := range map[string]bool{"/header": true, "/meta": true, "/free": false} {
			resp, err := b.client.Get("https://example.com" + path)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if got := politeness.DirectivesOf(resp).NoIndex; got != want {
				b.Errorf("%s: noindex %t, want %t", path, got, want)
			}
		}
		if n := len(b.log.Decisions(evidence.NoIndex)); n != 2 {
			b.Errorf("%d records noindex, want 2", n)
		}
	})
}

// Final URL, redirect count, ETag, Last-Modified and the server's Date kept in evidence.
func TestBulkKeepsWhereItEndedAndWhatValidatesInEvidence(t *testing.T) {
	acceptance(t, bulk, func(b *bubble) {
		const etag, modified, date = `"abc"`, "Mon, 02 Nov 2026 10:00:00 GMT", "Sat, 21 Nov 2026 10:00:00 GMT"
		b.site.Handle("/1", http.RedirectHandler("/2", http.StatusFound)).Handle("/2", http.RedirectHandler("/3", http.StatusMovedPermanently))
		b.site.Handle("/3", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("ETag", etag)
			h.Set("Last-Modified", modified)
			h.Set("Date", date)
			_, _ = io.WriteString(w, "here")
		}))
		b.mustGet("https://example.com/1", 200)
		records := b.log.Decisions(evidence.Fetched)
		d := records[len(records)-1]
		if d.URL != "https://example.com/3" || d.Redirects != 2 || d.ETag != etag || d.LastModified != modified || d.ServerDate != date {
			b.Errorf("record %+v", d)
		}
		if d := records[len(records)-2]; d.Redirects != 1 || d.Location == "" || d.Status != http.StatusMovedPermanently {
			b.Errorf("record of the hop before %+v", d)
		}
	})
}

// HTTP/2 kept working.
func TestBulkKeepsHTTP2Working(t *testing.T) {
	t.Parallel() // it waits in real time
	var busy atomic.Bool
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/robots.txt":
			fmt.Fprint(w, "User-agent: *\nDisallow: /private\n")
		case r.URL.Path == "/busy" && !busy.Swap(true):
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			fmt.Fprintf(w, "%s %s", r.Proto, strings.Repeat("x", 1<<17)) // more than a window of flow control
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	log := &evidence.Recorder{}
	client := loopback(t, server, log)
	var group sync.WaitGroup
	for _, path := range []string{"/a", "/b", "/c", "/busy", "/d"} {
		group.Go(func() {
			resp, err := client.Get(server.URL + path)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil || resp.ProtoMajor != 2 || !strings.HasPrefix(string(text), "HTTP/2.0") || resp.StatusCode != http.StatusOK {
				t.Errorf("%s: status %d, %s, %.20q, %v", path, resp.StatusCode, resp.Proto, text, err)
			}
		})
	}
	group.Wait()
	_, err := fetch(t.Context(), client, server.URL+"/private")
	refused(t, err, politeness.StageRobots, politeness.ErrDisallowed)

	// A stream that is given up ends alone; its slot comes back.
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/e", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	resp.Body.Close()
	for range 3 {
		if status, err := fetch(t.Context(), client, server.URL+"/f"); err != nil || status != 200 {
			t.Errorf("after the cancelled one: status %d, %v", status, err)
		}
	}
}

// A crawl of many hosts ends with nothing in flight and nothing owed: the bubble
// fails when a goroutine is left.
func TestBulkCrawlOfManyHostsIsPolite(t *testing.T) {
	acceptance(t, bulk, func(b *bubble) {
		var group sync.WaitGroup
		for i := range 40 {
			origin := fmt.Sprintf("https://%d.example", i)
			site := b.web.Site(origin).Handle("/", http.HandlerFunc(everywhere)).Latency(time.Duration(i) * 20 * time.Millisecond)
			site.Robots(fmt.Sprintf("User-agent: *\nDisallow: /3\nCrawl-delay: %d\n", i%4))
			if i%5 == 0 {
				site.Sequence("/1", 429, 503, 200)
			}
			for page := range 8 {
				group.Go(func() { _, _ = b.get(fmt.Sprintf("%s/%d", origin, page)) })
			}
		}
		group.Wait()
		synctest.Wait()
		b.web.Check(b, politenesstest.Rules{Delay: 200 * time.Millisecond, Concurrency: 2})
		if started, ended := len(b.log.Decisions(evidence.Started)), len(b.log.Decisions(evidence.Fetched)); started != ended {
			b.Errorf("%d requests started, %d ended", started, ended)
		}
	})
}
