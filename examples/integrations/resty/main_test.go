package main

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/go-resty/resty/v2"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/examples/internal/program"
	"github.com/go-politeness/politeness/internal/localsite"
)

func TestCrawl(t *testing.T) { program.Test(t, crawl) }

// polite returns a client, and the evidence of what goes through its Transport.
func polite(t *testing.T) (*resty.Client, *evidence.Recorder) {
	t.Helper()
	proof := new(evidence.Recorder)
	transport, err := politeness.New(politeness.Config{
		UserAgent: "RestyExample/1.0 (+https://example.com/bot; bot@example.com)",
		Evidence:  proof,
	})
	if err != nil {
		t.Fatal(err)
	}
	return resty.New().SetTransport(transport).SetLogger(discardingLogger{}), proof
}

// discardingLogger logs nothing.
type discardingLogger struct{}

func (discardingLogger) Errorf(string, ...any) {}
func (discardingLogger) Warnf(string, ...any)  {}
func (discardingLogger) Debugf(string, ...any) {}

// Resty's own retries repeat refusals, unless they are told not to.
func TestRestyRetriesRefusals(t *testing.T) {
	s := localsite.Start()
	defer s.Close()
	for _, test := range []struct {
		name   string
		change func(*resty.Client)
		asked  int
	}{
		{"by default", func(*resty.Client) {}, 4},
		{"retryOnlySent", func(c *resty.Client) { c.AddRetryCondition(retryOnlySent) }, 1},
	} {
		client, proof := polite(t)
		client.SetRetryCount(3).SetRetryWaitTime(time.Millisecond).SetRetryMaxWaitTime(2 * time.Millisecond)
		test.change(client)
		_, err := client.R().Get(s.URL + "/private/diary")
		if !errors.Is(err, politeness.ErrDisallowed) {
			t.Errorf("%s: error is %v", test.name, err)
		}
		if n := len(proof.Decisions(evidence.BlockedByRobots)); n != test.asked {
			t.Errorf("%s: asked %d times, not %d", test.name, n, test.asked)
		}
	}
	if n := len(s.Visits("/private*")); n != 0 {
		t.Errorf("%d requests for what is disallowed", n)
	}
}

// With retryOnlySent resty repeats a POST, which Config.Retry never does, and each try
// takes a turn.
func TestRestyRetriesPost(t *testing.T) {
	s := localsite.Start()
	defer s.Close()
	client, proof := polite(t)
	client.SetRetryCount(3).SetRetryWaitTime(time.Millisecond).SetRetryMaxWaitTime(2 * time.Millisecond).AddRetryCondition(retryOnlySent)
	resp, err := client.R().SetBody("hello").Post(s.URL + "/busy")
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode() != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode())
	}
	tries := proof.Decisions(evidence.Started)[1:] // after robots.txt
	if len(tries) != 2 || tries[1].Start.Sub(tries[0].Start) < time.Second {
		t.Errorf("not two tries at least Retry-After apart: %v", tries)
	}
}

// A body that resty doesn't read has to be closed to give the slot back.
func TestRawBodyGivesTheSlotBack(t *testing.T) {
	s := localsite.Start()
	defer s.Close()
	client, proof := polite(t)
	resp, err := client.R().SetDoNotParseResponse(true).Get(s.URL + "/a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.RawBody()); err != nil {
		t.Fatal(err)
	}
	resp.RawBody().Close()
	if ended := len(proof.Decisions(evidence.Fetched)); ended != 2 { // robots.txt, and the page
		t.Errorf("%d exchanges ended, want 2", ended)
	}
}

// What the package's comment warns of.
func TestSetProxyIsLoggedOnly(t *testing.T) {
	client, _ := polite(t)
	before := client.GetClient().Transport
	client.SetProxy("http://127.0.0.1:9")
	if client.GetClient().Transport != before || client.IsProxySet() {
		t.Error("SetProxy does something: the warning is out of date")
	}
}
