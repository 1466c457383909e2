package promises_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
)

// A script is a limiter of one host and a base in one: it answers with a body, and
// notes in which order that is closed and the slot is given back.
type script struct {
	hostlimit.Controller // none: nobody steers a script

	body   io.Reader
	header http.Header
	length int64
	events []string
}

func (s *script) Acquire(context.Context, string, time.Duration) (hostlimit.Lease, error) {
	return s, nil
}

func (s *script) Next(context.Context, string, time.Duration) (time.Time, error) {
	return time.Now(), nil
}

func (s *script) Config() hostlimit.Config { return hostlimit.Config{} }

func (*script) ID(context.Context) (limiter, process string) { return "0123456789abcdef", "" }

func (s *script) Start(context.Context) (hostlimit.Grant, error) {
	return hostlimit.Grant{Start: time.Now()}, nil
}

func (s *script) Observe(hostlimit.Outcome) hostlimit.Effect { return hostlimit.Effect{} }
func (s *script) Revise(hostlimit.Outcome) hostlimit.Effect  { return hostlimit.Effect{} }

func (s *script) Renew() {}

func (s *script) Release() (expired bool) {
	s.events = append(s.events, "release")
	return false
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: s.header, ContentLength: s.length, Request: req,
		Body: struct {
			io.Reader
			io.Closer
		}{s.body, closeFunc(func() error { s.events = append(s.events, "close"); return nil })},
	}, nil
}

type closeFunc func() error

func (f closeFunc) Close() error { return f() }

// transport makes a Transport of the script.
func (s *script) transport(t *testing.T, cfg politeness.Config) *politeness.Transport {
	t.Helper()
	cfg.UserAgent, cfg.Base, cfg.Limiter, cfg.DangerouslyIgnoreRobots = agent, s, s, true
	tr, err := politeness.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// While the body is open the connection is busy, so somebody else who gets the slot
// before would make one more than are allowed.
func TestSlotOfARefusedResponseIsGivenBackAfterItsBodyIsClosed(t *testing.T) {
	for name, limits := range map[string]politeness.ResponseLimits{
		"content type":   {Accept: []string{"text/*"}},
		"content length": {MaxBytes: 9},
		"while read":     {MaxBytes: 1},
		"not at all":     {},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{body: strings.NewReader("0123456789"), header: http.Header{"Content-Type": {"image/png"}}, length: 10}
			if name == "while read" {
				s.length = -1
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := s.transport(t, politeness.Config{Response: limits}).RoundTrip(req); err == nil {
				_, _ = resp.Body.Read(make([]byte, 1))
				_, _ = resp.Body.Read(make([]byte, 1))
				if name == "not at all" {
					resp.Body.Close()
				}
			}
			if !slices.Equal(s.events, []string{"close", "release"}) {
				t.Errorf("%q, want the body closed before the slot is given back", s.events)
			}
		})
	}
}

// steps is a reader that returns each step in turn.
type steps []step

type step struct {
	text string
	err  error
}

func (s *steps) Read(p []byte) (int, error) {
	if len(*s) == 0 {
		return 0, io.EOF
	}
	first := (*s)[0]
	*s = (*s)[1:]
	return copy(p, first.text), first.err
}

// What comes after the limit decides whether it was passed: the end, an error that
// isn't the limit's, or more.
func TestBodyOfExactlyTheLimit(t *testing.T) {
	broken := errors.New("connection reset")
	for _, test := range []struct {
		name string
		body steps
		want error
	}{
		{"end", steps{{"0123456789", nil}}, nil},
		{"end at once", steps{{"0123456789", io.EOF}}, nil},
		{"nothing, then the end", steps{{"0123456789", nil}, {"", nil}, {"", nil}}, nil},
		{"broken", steps{{"0123456789", nil}, {"", broken}}, broken},
		{"nothing, then broken", steps{{"0123456789", nil}, {"", nil}, {"", broken}}, broken},
		{"more", steps{{"0123456789", nil}, {"x", nil}}, politeness.ErrTooLarge},
		{"more at the end", steps{{"0123456789", nil}, {"x", io.EOF}}, politeness.ErrTooLarge},
		{"nothing, then more", steps{{"0123456789", nil}, {"", nil}, {"x", io.EOF}}, politeness.ErrTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &script{body: &test.body, header: http.Header{}, length: -1}
			log := &evidence.Recorder{}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := s.transport(t, politeness.Config{Response: politeness.ResponseLimits{MaxBytes: 10}, Evidence: log}).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			buf := []byte("----------?")
			n, err := io.ReadFull(resp.Body, buf[:10])
			if string(buf[:n]) != "0123456789" || err != nil {
				t.Errorf("read %q, %v", buf[:n], err)
			}
			for n, err = 0, nil; n == 0 && err == nil; {
				n, err = resp.Body.Read(buf[10:])
			}
			if n != 0 || !errors.Is(err, cmp.Or(test.want, io.EOF)) || buf[10] == 'x' {
				t.Errorf("after that: read %q, %v; want %v", buf[10:], err, test.want)
			}
			if _, again := resp.Body.Read(buf); again != err { //nolint:errorlint // the very same
				t.Errorf("read on: %v, after %v", again, err)
			}
			rejected := len(log.Decisions(evidence.ResponseRejected))
			if want := errors.Is(test.want, politeness.ErrTooLarge); (rejected == 1) != want {
				t.Errorf("%d records response_rejected", rejected)
			}
			if !slices.Contains(s.events, "release") {
				t.Error("the slot isn't given back")
			}
		})
	}
}

// A redirect that a cache around the Transport remembers was never paid for: where
// it leads is a page.
func TestHopOfARedirectThatCameFromElsewhereIsAPage(t *testing.T) {
	spent := budget.New(budget.Limits{Pages: 2})
	virtually(t, politeness.Config{Budget: spent}, func(b *bubble) {
		b.site.Page("/1", "page").Page("/2", "page").Page("/3", "page")
		b.client.Transport = answersOldRedirects{b.t}
		for _, path := range []string{"/1", "/2"} {
			b.mustGet("https://example.com/old"+path, 200)
		}
		if u, _ := spent.Usage(b.Context()); u.Pages != 2 {
			b.Errorf("%d pages spent, want 2", u.Pages)
		}
		_, err := b.get("https://example.com/old/3")
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
	})
}

// answersOldRedirects answers redirects itself, as a cache does.
type answersOldRedirects struct{ next http.RoundTripper }

func (r answersOldRedirects) RoundTrip(req *http.Request) (*http.Response, error) {
	if path, ok := strings.CutPrefix(req.URL.Path, "/old"); ok {
		return &http.Response{
			StatusCode: http.StatusMovedPermanently, Header: http.Header{"Location": {path}},
			Body: http.NoBody, Request: req,
		}, nil
	}
	return r.next.RoundTrip(req)
}

func TestHeaderOfAnySizePutsLittleOnRecord(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Handle("/", politenesstest.Status(200, "ETag", strings.Repeat("x", 1<<20), "Location", "https://u:secret@example.com/"+strings.Repeat("y", 1<<20)))
		b.mustGet("https://example.com/", 200)
		fetched := b.log.Decisions(evidence.Fetched)
		d := fetched[len(fetched)-1]
		if len(d.ETag) != 128 || len(d.Location) != 312 || strings.Contains(d.Location, "secret") {
			t.Errorf("%d bytes of ETag, %d of Location on record", len(d.ETag), len(d.Location))
		}
	})
}

// chunks is a body of a few reads that gives way between them.
type chunks struct {
	left   atomic.Int64
	closed atomic.Bool
}

func (c *chunks) Read(p []byte) (int, error) {
	runtime.Gosched()
	switch {
	case c.closed.Load():
		return 0, http.ErrBodyReadAfterClose
	case c.left.Add(-1) < 0:
		return 0, io.EOF
	}
	return copy(p, "chunk"), nil
}

func (c *chunks) Close() error {
	c.closed.Store(true)
	return nil
}

type answersInChunks struct{}

func (answersInChunks) RoundTrip(req *http.Request) (*http.Response, error) {
	n, _ := strconv.ParseInt(req.URL.Query().Get("chunks"), 10, 64)
	body := &chunks{}
	body.left.Store(n)
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, Request: req}, nil
}

// A body that is closed while it is read, or read after its end, tells of its own
// request and of no other one: what a request was told by is used again.
func TestBodiesTellOfTheirOwnRequest(t *testing.T) {
	log := &evidence.Recorder{}
	tr := mustNew(t, politeness.Config{
		UserAgent: agent, Base: answersInChunks{}, Evidence: log, DangerouslyIgnoreRobots: true,
		Budget:  budget.New(budget.Limits{Pages: 1 << 30, Bytes: 1 << 40}),
		Limiter: limiter(t, hostlimit.Config{Concurrency: 64, Delay: hostlimit.Delay{DangerouslyNone: true}}),
	})
	const fetchers, each = 16, 200
	var group sync.WaitGroup
	for f := range fetchers {
		group.Go(func() {
			for i := range each {
				n := i % 5
				req := httptest.NewRequest(http.MethodGet, fmt.Sprintf("https://example.com/%d/%d?chunks=%d", f, i, n), nil)
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				var closing sync.WaitGroup
				if i%3 == 0 {
					closing.Go(func() { resp.Body.Close() })
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
					t.Error("something after the end")
				}
				resp.Body.Close()
				closing.Wait()
			}
		})
	}
	group.Wait()

	urls, ends := make(map[uint64]string), make(map[uint64]int)
	for _, d := range log.Decisions() {
		if d.Trip == 0 {
			continue // the policy
		}
		if urls[d.Trip] == "" {
			urls[d.Trip] = d.URL
		}
		if d.URL != urls[d.Trip] {
			t.Errorf("trip %d is about %s and about %s", d.Trip, urls[d.Trip], d.URL)
		}
		if d.Type == evidence.Fetched {
			ends[d.Trip]++
		}
	}
	if len(urls) != fetchers*each || len(ends) != len(urls) {
		t.Errorf("%d trips with %d ends, want %d", len(urls), len(ends), fetchers*each)
	}
	for trip, n := range ends {
		if n != 1 {
			t.Errorf("trip %d ended %d times", trip, n)
		}
	}
}

// A readerThatFailsOnce goes on afterwards as if nothing had happened.
type readerThatFailsOnce struct {
	reads int
	err   error
}

func (h *readerThatFailsOnce) Read(p []byte) (int, error) {
	if h.reads++; h.reads == 2 {
		return 0, h.err
	}
	return copy(p, "0123456789"), nil
}

// A read that failed is the last one, by a deadline too: no limit would hold after it.
func TestNothingIsReadAfterAFailedRead(t *testing.T) {
	for _, failure := range []error{io.ErrNoProgress, os.ErrDeadlineExceeded} {
		s := &script{body: &readerThatFailsOnce{err: failure}, length: -1}
		spent := budget.New(budget.Limits{Bytes: 25})
		tr := s.transport(t, politeness.Config{Budget: spent})
		resp, err := tr.RoundTrip(httptest.NewRequest(http.MethodGet, "https://example.com/", nil))
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for range 20 {
			n, err := resp.Body.Read(make([]byte, 10))
			if total += n; total > 10 || n == 0 && err == nil {
				t.Errorf("read %d more bytes, error %v", n, err)
			}
		}
		resp.Body.Close()
		if u, _ := spent.Usage(t.Context()); int(u.Bytes) != total {
			t.Errorf("%d bytes read, %d counted", total, u.Bytes)
		}
	}
}

// answersAlways is a base that has one answer for every request.
type answersAlways func() (*http.Response, error)

func (a answersAlways) RoundTrip(*http.Request) (*http.Response, error) { return a() }

// A base of a test may well have one response for everybody.
func TestSameResponseForEachTry(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		same := &http.Response{StatusCode: 503, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("sorry"))}
		tr := mustNew(b.T, politeness.Config{
			UserAgent: agent, DangerouslyIgnoreRobots: true, Retry: politeness.Retry{Max: 1},
			Base: answersAlways(func() (*http.Response, error) { return same, nil }),
		})
		resp, err := tr.RoundTrip(httptest.NewRequest(http.MethodGet, "https://example.com/", nil))
		if err != nil {
			b.Fatal(err)
		}
		for range 2 {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		resp.Body.Close()
	})
}

// Neither is what http.RoundTripper allows; both happen.
func TestBaseThatReturnsBothOrNeither(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		broken := errors.New("broken")
		for _, max := range []int{0, 1} {
			for name, base := range map[string]answersAlways{
				"both": func() (*http.Response, error) {
					return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, broken
				},
				"neither": func() (*http.Response, error) { return nil, nil },
			} {
				tr := mustNew(b.T, politeness.Config{UserAgent: agent, DangerouslyIgnoreRobots: true, Retry: politeness.Retry{Max: max}, Base: base})
				resp, err := tr.RoundTrip(httptest.NewRequest(http.MethodGet, "https://example.com/", nil))
				if err == nil || name == "both" && err != broken { //nolint:errorlint // untouched
					b.Errorf("%s: error %v", name, err)
				}
				if resp != nil {
					b.Errorf("%s: response %v", name, resp)
				}
			}
		}
	})
}

// A bodyThatPanics does so when it is read, or else when it is closed.
type bodyThatPanics struct{ read bool }

func (s bodyThatPanics) Read([]byte) (int, error) {
	if s.read {
		panic("read")
	}
	return 0, io.EOF
}

func (s bodyThatPanics) Close() error {
	if !s.read {
		panic("close")
	}
	return nil
}

// A slot comes back also when a body or a sink ends the goroutine.
func TestSlotComesBackAfterAPanic(t *testing.T) {
	for name, c := range map[string]struct {
		status   int
		body     io.ReadCloser
		evidence evidence.Evidence
	}{
		"read of a discarded body":  {503, bodyThatPanics{read: true}, nil},
		"close of a discarded body": {503, bodyThatPanics{}, nil},
		"close of a refused body":   {200, bodyThatPanics{}, nil},
		"a sink that exits": {200, http.NoBody, evidence.Func(func(_ context.Context, d evidence.Decision) {
			if d.Type == evidence.Started {
				runtime.Goexit()
			}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, politeness.Config{}, func(b *bubble) {
				hosts, err := memory.New(hostlimit.Config{Concurrency: 1})
				if err != nil {
					b.Fatal(err)
				}
				tr := mustNew(b.T, politeness.Config{
					UserAgent: agent, DangerouslyIgnoreRobots: true, Limiter: hosts, Evidence: c.evidence,
					Retry: politeness.Retry{Max: 1}, Response: politeness.ResponseLimits{Reject: []string{"image/png"}},
					Base: answersAlways(func() (*http.Response, error) {
						return &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {"image/png"}}, Body: c.body}, nil
					}),
				})
				done := make(chan any)
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					_, _ = tr.RoundTrip(httptest.NewRequest(http.MethodGet, "https://example.com/", nil))
				}()
				<-done
				for st, err := range hosts.List(t.Context()) {
					if err != nil || st.InFlight != 0 {
						b.Errorf("a slot is lost: %+v", st)
					}
				}
			})
		})
	}
}

// A limiter whose leases take a second to come back.
type releasesLate struct{ hostlimit.Limiter }

type leaseReleasesLate struct{ hostlimit.Lease }

func (l releasesLate) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	lease, err := l.Limiter.Acquire(ctx, key, floor)
	if err != nil {
		return nil, err
	}
	return leaseReleasesLate{lease}, nil
}

func (l leaseReleasesLate) Release() bool {
	defer time.Sleep(time.Second)
	return l.Lease.Release()
}

// By the time at which Release returns, others may have the slot: an end that is stamped then would
// show one request too many in flight.
func TestEndsAreStampedBeforeTheSlotIsGivenBack(t *testing.T) {
	cfg := politeness.Config{
		Limiter:                 releasesLate{limiter(t, hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}})},
		DangerouslyIgnoreRobots: true,
	}
	virtually(t, cfg, func(b *bubble) {
		b.site.Page("/", "hello").Handle("/empty", politenesstest.Status(204)).Latency(time.Minute)
		b.mustGet("https://example.com/", 200)
		b.mustGet("https://example.com/empty", 204)
		for _, d := range b.log.Decisions(evidence.Fetched) {
			if d.Duration != time.Minute || d.Time.Sub(d.Start) != time.Minute {
				b.Errorf("%s ended after %v, told at %v; want a minute", d.URL, d.Duration, d.Time.Sub(d.Start))
			}
		}
	})
}

// What a base leaves out, or does in its own way, harms nobody: no Request, no Body, a body of a type
// without fields on HTTP/1, and one of HTTP/2 whose length isn't known.
func TestBasesOfEveryKind(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		answer := &http.Response{}
		tr := mustNew(b.T, politeness.Config{
			UserAgent: agent, DangerouslyIgnoreRobots: true, Retry: politeness.Retry{Max: 1},
			Response: politeness.ResponseLimits{CheckIndexing: true},
			Base: answersAlways(func() (*http.Response, error) {
				resp := *answer
				return &resp, nil
			}),
		})
		ask := func(resp http.Response) *http.Response {
			b.Helper()
			answer = &resp
			got, err := tr.RoundTrip(httptest.NewRequest(http.MethodGet, "https://example.com/", nil))
			if err != nil {
				b.Fatal(err)
			}
			return got
		}
		if d := politeness.DirectivesOf(ask(http.Response{StatusCode: 200, Header: http.Header{"X-Robots-Tag": {"noindex"}}, Body: http.NoBody})); !d.NoIndex {
			b.Errorf("without a Request: %v", d)
		}
		if resp := ask(http.Response{StatusCode: 503, Header: http.Header{}}); resp.Body != nil {
			b.Errorf("without a Body: %v", resp.Body)
		}
		closed := 0
		unasked := http.Response{StatusCode: 101, Header: http.Header{}, Body: struct {
			io.Reader
			io.Closer
		}{strings.NewReader("x"), closeFunc(func() error { closed++; return nil })}}
		if resp := ask(unasked); resp.Body != http.NoBody || closed != 1 {
			b.Errorf("a 101 that wasn't asked for: %v, closed %d times", resp.Body, closed)
		}
		for _, resp := range []http.Response{{ProtoMajor: 1}, {ProtoMajor: 2, ContentLength: -1}, {ProtoMajor: 1, ContentLength: 5}} {
			resp.StatusCode, resp.Header, resp.Body = 200, http.Header{}, aLetter{}
			got := ask(resp)
			if n, _ := got.Body.Read(make([]byte, 10)); n != 1 {
				b.Errorf("HTTP/%d, length %d: the body is gone", resp.ProtoMajor, resp.ContentLength)
			}
			got.Body.Close()
		}
	})
}

// An answer that has no body by its status or its method needs no type, whatever Base gives for one.
func TestAnswersWithoutABodyNeedNoType(t *testing.T) {
	for method, status := range map[string]int{http.MethodHead: 200, http.MethodGet: 204} {
		tr := mustNew(t, politeness.Config{
			UserAgent: agent, DangerouslyIgnoreRobots: true, Response: politeness.ResponseLimits{Accept: []string{"text/*"}},
			Base: answersAlways(func() (*http.Response, error) {
				return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
			}),
		})
		resp, err := tr.RoundTrip(httptest.NewRequest(method, "https://example.com/", nil))
		if err != nil {
			t.Errorf("%s, %d: %v", method, status, err)
			continue
		}
		resp.Body.Close()
	}
}

// aLetter is a body of a type without fields.
type aLetter struct{}

func (aLetter) Read(p []byte) (int, error) { return copy(p, "x"), nil }
func (aLetter) Close() error               { return nil }

// A body that is read, however slowly, keeps its slot: nobody takes it for one that is never closed.
func TestABodyThatIsReadForLongKeepsItsSlot(t *testing.T) {
	virtually(t, politeness.Config{DangerouslyIgnoreRobots: true, Hosts: hostlimit.Config{Concurrency: 1, LeaseTTL: time.Minute}}, func(b *bubble) {
		b.site.Handle("/slow", politenesstest.Drip("x", 20, 30*time.Second)).Page("/", "page")
		var wg sync.WaitGroup
		wg.Go(func() { b.mustGet("https://example.com/slow", 200) })
		time.Sleep(time.Second)
		b.mustGet("https://example.com/", 200)
		wg.Wait()
		if d := b.log.Decisions(evidence.LeaseExpired); len(d) != 0 || b.elapsed() < 9*time.Minute {
			b.Errorf("the page came after %v: %+v", b.elapsed(), d)
		}
	})
}

// A resetsStreams is a base that has words of its own for a request that its caller gave up.
type resetsStreams struct{}

func (resetsStreams) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, errors.New("stream reset")
}

// What the caller itself gave up says nothing about the host.
func TestWhatTheCallerGaveUpBlocksNobody(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		tr := mustNew(b.T, politeness.Config{UserAgent: agent, Base: resetsStreams{}, DangerouslyIgnoreRobots: true, Evidence: b.log})
		for range 10 {
			ctx, cancel := context.WithCancel(b.Context())
			time.AfterFunc(time.Minute, cancel)
			_, err := fetch(ctx, &http.Client{Transport: tr}, "https://example.com/")
			failed(b.T, err, nil)
		}
		if d := b.log.Decisions(evidence.HostBlocked); len(d) != 0 {
			b.Errorf("%+v", d)
		}
		for _, d := range b.log.Decisions(evidence.Failed) {
			if !d.Left || d.Err != "stream reset" {
				b.Errorf("%+v", d)
			}
		}
	})
}
