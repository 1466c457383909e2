package main

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/examples/internal/program"
	"github.com/go-politeness/politeness/internal/localsite"
)

func TestCrawl(t *testing.T) { program.Test(t, crawl) }

// newLoggedClient returns the program's client and its evidence.
func newLoggedClient(t *testing.T) (*retryablehttp.Client, *evidence.Recorder) {
	t.Helper()
	proof := new(evidence.Recorder)
	client, err := newClient(proof, nil)
	if err != nil {
		t.Fatal(err)
	}
	client.RetryWaitMin = time.Millisecond
	return client, proof
}

// Each try takes a turn; how long a 503 holds the host is the host's state's business.
func TestEachTryTakesATurn(t *testing.T) {
	s := localsite.Start()
	defer s.Close()
	answers := []int{http.StatusServiceUnavailable, http.StatusInternalServerError, http.StatusOK}
	var bodies []string
	s.Handle("/flaky", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		w.Header().Set("Retry-After", "1") // ignored on the 500
		w.WriteHeader(answers[len(bodies)-1])
	})
	client, proof := newLoggedClient(t)
	resp, err := client.Post(s.URL+"/flaky", "text/plain", []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || strings.Join(bodies, " ") != "hello hello hello" {
		t.Errorf("status %d, bodies %q", resp.StatusCode, bodies)
	}
	tries := proof.Decisions(evidence.Started)[1:] // after robots.txt
	if len(tries) != 3 {
		t.Fatalf("%d tries, not 3: %v", len(tries), tries)
	}
	if gap := tries[1].Start.Sub(tries[0].Start); gap < time.Second || tries[1].WaitBlock == 0 {
		t.Errorf("the try after a 503 came after %v, in spite of its Retry-After", gap)
	}
	for i, d := range tries[1:] {
		if gap := d.Start.Sub(tries[i].Start); gap < tries[i].Delay {
			t.Errorf("try %d came after %v, not after the host's delay of %v", i+2, gap, tries[i].Delay)
		}
	}
}

// What politeness refuses isn't repeated, and is found in the error.
func TestRefusalsAreFinal(t *testing.T) {
	s := localsite.Start()
	defer s.Close()
	client, proof := newLoggedClient(t)
	resp, err := client.Get(s.URL + "/trap")
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, politeness.ErrDisallowed) {
		t.Errorf("error is %v", err)
	}
	if n := len(proof.Decisions(evidence.BlockedByRobots)); n != 1 {
		t.Errorf("asked %d times, not once", n)
	}
	if n := len(s.Visits("/trap")); n != 1 {
		t.Errorf("/trap was asked for %d times, not once", n)
	}
}

// When the tries run out the last answer is handed over, and gives its slot back.
func TestLastAnswer(t *testing.T) {
	s := localsite.Start()
	defer s.Close()
	s.Handle("/broken", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) })
	client, proof := newLoggedClient(t)
	client.RetryMax = 1
	resp, err := client.Get(s.URL + "/broken")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("status %d", resp.StatusCode)
	}
	if started, ended := len(proof.Decisions(evidence.Started)), len(proof.Decisions(evidence.Fetched)); started != 3 || ended != 3 {
		t.Errorf("%d exchanges started and %d ended, not 3", started, ended)
	}
}

// What the package's comment warns of: retries below politeness are seen by the server
// only, and come at once.
func TestRetriesBelowAreOutOfSight(t *testing.T) {
	s := localsite.Start()
	defer s.Close()
	below := retryablehttp.NewClient()
	below.Logger = nil
	below.Backoff = func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return 0 }
	proof := new(evidence.Recorder)
	transport, err := politeness.New(politeness.Config{
		UserAgent: "RetryExample/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      below.StandardClient().Transport,
		Evidence:  proof,
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: transport}
	for _, path := range []string{"/busy", "/trap"} {
		resp, err := client.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if busy, private := len(s.Visits("/busy")), len(s.Visits("/private*")); busy != 2 || private != 1 {
		t.Errorf("%d requests for /busy and %d for what is disallowed: the warning is out of date", busy, private)
	}
	if known := len(proof.Decisions(evidence.Started)); known >= len(s.Visits()) {
		t.Errorf("politeness knows of all %d requests: the warning is out of date", known)
	}
}

// An attempts counts the requests that reach http.Transport.
type attempts struct{ n atomic.Int64 }

func (a *attempts) RoundTrip(req *http.Request) (*http.Response, error) {
	a.n.Add(1)
	return http.DefaultTransport.RoundTrip(req)
}

// Go-retryablehttp tells errors of the network apart by their types, as it does without
// politeness: a certificate that isn't trusted is final, a refused connection isn't.
func TestErrorsOfTheNetworkAreSeenAsTheyAre(t *testing.T) {
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	// Nobody listens on the port of a connection's other end, and nobody else gets that port.
	conn, err := net.Dial("tcp", untrusted.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for url, want := range map[string]int64{untrusted.URL: 1, "http://" + conn.LocalAddr().String(): 3} {
		for _, polite := range []bool{false, true} {
			base := new(attempts)
			client := retryablehttp.NewClient()
			client.HTTPClient = &http.Client{Transport: base}
			client.RetryMax, client.RetryWaitMin, client.RetryWaitMax, client.Logger = 2, time.Millisecond, time.Millisecond, nil
			if polite {
				transport, err := politeness.New(politeness.Config{
					UserAgent: "RetryExample/1.0 (+https://example.com/bot; bot@example.com)",
					Base:      base, DangerouslyIgnoreRobots: true,
				})
				if err != nil {
					t.Fatal(err)
				}
				client.HTTPClient.Transport = transport
			}
			resp, err := client.Get(url)
			if err == nil {
				resp.Body.Close()
			}
			if n := base.n.Load(); err == nil || n != want {
				t.Errorf("polite %t: %d requests, want %d; %v", polite, n, want, err)
			}
		}
	}
}
