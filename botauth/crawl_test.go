package botauth_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/botauth"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/politenesstest"
)

const userAgent = "ExampleBot/1.0 (+https://bot.example.com; bot@example.com)"

// A farSite is a site whose connections take long to make; it speaks HTTP/1 over pipes, below a real
// http.Transport.
type farSite struct {
	t      *testing.T
	h      http.Handler
	nonces map[string]bool

	mu       sync.Mutex
	rnd      *rand.Rand
	requests int
	dials    int
	oldest   time.Duration
}

// dial makes a connection, after up to 90 seconds.
func (f *farSite) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	f.mu.Lock()
	f.dials++
	wait := time.Duration(f.rnd.IntN(90_000)) * time.Millisecond
	f.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	client, server := net.Pipe()
	go f.serve(server)
	return client, nil
}

// serve answers the requests on a connection. It hangs up now and then, without an answer.
func (f *farSite) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.requests++
		c, err := verify(r)
		if err != nil || f.nonces[c.nonce] {
			f.t.Errorf("%s: %v, nonce known: %t", r.URL, err, f.nonces[c.nonce])
		}
		f.nonces[c.nonce] = true
		f.oldest = max(f.oldest, time.Since(c.created))
		hangUp, last := f.rnd.IntN(40) == 0, f.rnd.IntN(2) == 0
		f.mu.Unlock()
		if hangUp {
			return
		}
		time.Sleep(700 * time.Millisecond)
		w := &response{header: http.Header{}}
		f.h.ServeHTTP(w, r)
		resp := &http.Response{StatusCode: max(w.status, 200), ProtoMajor: 1, ProtoMinor: 1, Header: w.header, ContentLength: int64(w.body.Len()), Body: io.NopCloser(strings.NewReader(w.body.String()))}
		resp.Close = last
		if resp.Write(conn) != nil || last {
			return
		}
	}
}

// A response is a ResponseWriter that keeps what is written.
type response struct {
	header http.Header
	status int
	body   strings.Builder
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(status int)      { r.status = status }
func (r *response) Write(p []byte) (int, error) { return r.body.Write(p) }

// TestNoSignatureOlderThanASecondInAWeek: a week at a site that asks for two minutes between
// requests, to which a connection takes up to a minute and a half; with redirects, failures, retries
// and connections that are lost. However long a request waited for its turn, for a connection, and
// for its turn again with the connection at hand, its signature is fresh.
func TestNoSignatureOlderThanASecondInAWeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := &farSite{t: t, nonces: map[string]bool{}, rnd: rand.New(rand.NewPCG(1, 2))}
		site.h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/robots.txt":
				_, _ = io.WriteString(w, "User-agent: *\nCrawl-delay: 120\n")
			case strings.HasSuffix(r.URL.Path, "7"):
				w.Header().Set("Location", "/moved")
				w.WriteHeader(http.StatusFound)
			case strings.HasSuffix(r.URL.Path, "3") && len(site.nonces)%2 == 0:
				w.WriteHeader(http.StatusBadGateway)
			}
		})
		base := &http.Transport{DialTLSContext: site.dial, MaxConnsPerHost: 3, IdleConnTimeout: 3 * time.Minute}
		log := &evidence.Recorder{}
		polite, err := politeness.New(politeness.Config{
			UserAgent: userAgent, Base: testSigner(t).Transport(base), Evidence: log,
			Hosts: hostlimit.Config{Concurrency: 4, MaxWait: 24 * time.Hour},
			Retry: politeness.Retry{Max: 2},
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: polite}
		ctx, stop := context.WithTimeout(t.Context(), 7*24*time.Hour)
		defer stop()
		var workers sync.WaitGroup
		for worker := range 6 {
			workers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://far.example/%d/%d", worker, i), nil)
					if err != nil {
						t.Error(err)
						return
					}
					resp, err := client.Do(req)
					if err != nil { // the next turn comes after the week is over
						time.Sleep(time.Minute)
						continue
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
		workers.Wait()
		base.CloseIdleConnections()
		synctest.Wait()

		moved := 0
		for _, d := range log.Decisions(evidence.Started) {
			if d.Signed != testKeyID {
				t.Fatalf("a start that isn't said to be signed: %+v", d)
			}
			if d.WaitConnect > time.Second {
				moved++
			}
		}
		resent := len(log.Decisions(evidence.Resent))
		t.Logf("%d requests over %d connections, %d of them late, %d resent; oldest signature %v", site.requests, site.dials, moved, resent, site.oldest)
		if site.oldest >= time.Second {
			t.Errorf("a signature of %v ago", site.oldest)
		}
		if site.requests < 3000 || moved < 500 || resent < 10 {
			t.Error("too little of a week")
		}
		if got := len(log.Decisions(evidence.Started)) + resent; got < site.requests {
			t.Errorf("%d starts on record, %d requests", got, site.requests)
		}
	})
}

// TestAnswersToAcceptSignatureAreStarts: the request that answers takes its turn, and evidence tells
// of it and of the key; the log holds before the auditor.
func TestAnswersToAcceptSignatureAreStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://a.example").Robots("User-agent: *\nCrawl-delay: 5\n").Dial(300*time.Millisecond).
			Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c, err := verify(r)
				if err != nil {
					t.Error(err)
				}
				if !strings.Contains(c.covers, `"@path"`) {
					w.Header().Set("Accept-Signature", `sig1=("@authority" "@path" "signature-agent";key="sig1");tag="web-bot-auth"`)
					w.WriteHeader(http.StatusForbidden)
				}
			}))
		web.Site("http://b.example").Page("/", "plain")
		var out strings.Builder
		log := logtest.New(t, &out, evidence.LogConfig{Chained: true})
		records := &evidence.Recorder{}
		polite, err := politeness.New(politeness.Config{UserAgent: userAgent, Base: testSigner(t).Transport(web), Evidence: evidence.Multi(log, records)})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: polite}
		for _, url := range []string{"https://a.example/", "https://a.example/", "http://b.example/"} {
			if resp := get(t, client, url); resp.StatusCode != 200 {
				t.Errorf("%s: %s", url, resp.Status)
			}
		}
		web.Check(t, politenesstest.Rules{Delay: 200 * time.Millisecond})
		requests := web.Requests() // robots.txt, twice /, again /, and two of the other site
		if len(requests) != 6 {
			t.Fatalf("%d requests", len(requests))
		}
		for i := 1; i < 4; i++ {
			if gap := requests[i].Start.Sub(requests[i-1].Start); gap < 5*time.Second {
				t.Errorf("request %d came %v after the one before", i, gap)
			}
		}
		var signed []string
		for _, d := range records.Decisions(evidence.Started, evidence.Resent) {
			signed = append(signed, fmt.Sprintf("%s %s %t", d.Type, d.URL, d.Signed == testKeyID))
		}
		want := "started https://a.example/robots.txt true, started https://a.example/ true, resent https://a.example/ true, " +
			"started https://a.example/ true, started http://b.example/robots.txt false, started http://b.example/ false"
		if got := strings.Join(signed, ", "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		if report, err := audit.Check(strings.NewReader(out.String())); err != nil || !report.OK() {
			t.Errorf("%v, %v", report, err)
		}
	})
}

// TestRetriesAndResendsAreSignedAnew: each try, and each copy that the transport sends, has a nonce of
// its own, and is made at its own time.
func TestRetriesAndResendsAreSignedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		site := web.Site("https://a.example").Page("/", "home").
			Handle("/busy", politenesstest.InTurn(politenesstest.Status(503, "Retry-After", "90"), politenesstest.Text("fine")))
		polite, err := politeness.New(politeness.Config{UserAgent: userAgent, Base: testSigner(t).Transport(web), Retry: politeness.Retry{Max: 1}})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: polite}
		get(t, client, "https://a.example/")
		site.HangUp()
		get(t, client, "https://a.example/")
		get(t, client, "https://a.example/busy")
		nonces := map[string]bool{}
		for _, r := range web.Requests() {
			c, err := verify(&http.Request{Host: "a.example", Method: r.Method, Header: r.Header})
			if err != nil || nonces[c.nonce] || r.Start.Sub(c.created) >= time.Second {
				t.Errorf("%s: %v, %v after it was signed", r.URL, err, r.Start.Sub(c.created))
			}
			nonces[c.nonce] = true
		}
		if len(nonces) != 6 {
			t.Errorf("%d requests", len(nonces))
		}
	})
}

// TestKeyThatFailsIsBasesError: politeness passes it on, and the host isn't held against it for ever.
func TestKeyThatFailsIsBasesError(t *testing.T) {
	key, err := botauth.ParseKey([]byte(testKeyPEM))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://a.example").Page("/", "home")
		s, err := botauth.New(botauth.Config{Key: &failing{key, 1}, Agent: "https://bot.example.com"})
		if err != nil {
			t.Fatal(err)
		}
		polite, err := politeness.New(politeness.Config{UserAgent: userAgent, Base: s.Transport(web)})
		if err != nil {
			t.Fatal(err)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example/", nil)
		_, err = polite.RoundTrip(req)
		var refusal *politeness.Error
		if err == nil || errors.As(err, &refusal) || err.Error() != "botauth: key "+testKeyID+": out of reach" {
			t.Errorf("got %v", err)
		}
		if n := len(web.Requests()); n != 1 { // robots.txt
			t.Errorf("%d requests", n)
		}
	})
}
