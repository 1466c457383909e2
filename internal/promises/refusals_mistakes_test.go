package promises_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/publicnet"
)

// What the caller gets wrong says nothing about the host, however often: no pause, no refusal, no
// block, nothing learned. The errors are net/http's own, over real connections.
func TestTheCallersMistakesAreNotTheHosts(t *testing.T) {
	t.Parallel() // it waits in real time
	body := func(r *http.Request, b io.Reader, length int64) {
		r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(b), length
	}
	for name, spoil := range map[string]func(*http.Request){
		"a method":         func(r *http.Request) { r.Method = "GET IT" },
		"a header's name":  func(r *http.Request) { r.Header["X Y"] = []string{"z"} },
		"a header's value": func(r *http.Request) { r.Header.Set("X", "a\nb") },
		"a trailer's name": func(r *http.Request) { body(r, strings.NewReader("x"), -1); r.Trailer = http.Header{"X Y": nil} },
		"a trailer that frames": func(r *http.Request) {
			body(r, strings.NewReader("x"), -1)
			r.Trailer = http.Header{"Content-Length": nil}
		},
		"a Host":                   func(r *http.Request) { r.Host = "a b" },
		"a control character":      func(r *http.Request) { r.URL.RawQuery = "a\x01b" },
		"a length without a body":  func(r *http.Request) { r.Method, r.ContentLength = http.MethodPost, 5 },
		"a body that is too long":  func(r *http.Request) { body(r, strings.NewReader("12345"), 3) },
		"a body that is too short": func(r *http.Request) { body(r, strings.NewReader("123"), 5) },
		"a body that fails":        func(r *http.Request) { body(r, iotest.ErrReader(errors.New("disk")), -1) },
		"a body that fails in the midst": func(r *http.Request) {
			body(r, io.MultiReader(strings.NewReader("x"), iotest.ErrReader(errors.New("disk"))), -1)
		},
		"a body that was cut": func(r *http.Request) { body(r, iotest.ErrReader(io.ErrUnexpectedEOF), -1) },
		"a body from a network that fails": func(r *http.Request) {
			body(r, iotest.ErrReader(&net.OpError{Op: "read", Net: "tcp", Err: errors.New("reset")}), -1)
		},
		"a header that is too large": func(r *http.Request) { r.Header.Set("X", strings.Repeat("x", 2<<20)) },
		"a field that HTTP/2 hasn't": func(r *http.Request) { r.Header.Set("Connection", "upgrade"); r.Header.Set("Upgrade", "\x01") },
	} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %t", name, h2), func(t *testing.T) {
				site := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
				site.EnableHTTP2 = h2
				site.StartTLS()
				defer site.Close()
				blameless(t, site.Client().Transport, site.URL, spoil)
			})
		}
	}
	t.Run("a header that is larger than the server has said it reads", func(t *testing.T) {
		site := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		site.EnableHTTP2 = true
		site.Config.MaxHeaderBytes = 4 << 10
		site.StartTLS()
		defer site.Close()
		resp, err := site.Client().Get(site.URL) // it says so with its first answer
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		blameless(t, site.Client().Transport, site.URL, func(r *http.Request) { r.Header.Set("X", strings.Repeat("x", 64<<10)) })
	})
	t.Run("an address that isn't public", func(t *testing.T) {
		site := httptest.NewServer(nil)
		defer site.Close()
		blameless(t, publicnet.Transport(nil), site.URL, func(*http.Request) {})
	})
}

// blameless makes six requests that fail, and fails where the host has paid for one.
func blameless(t *testing.T, base http.RoundTripper, url string, spoil func(*http.Request)) {
	t.Helper()
	log := &evidence.Recorder{}
	polite, err := politeness.New(politeness.Config{
		UserAgent: agent, Base: base, DangerouslyIgnoreRobots: true, Evidence: log,
		Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond, Max: time.Millisecond}},
		Retry: politeness.Retry{Max: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 6 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		spoil(req)
		resp, err := polite.RoundTrip(req)
		if err == nil { // HTTP/1 cuts what isn't a Host, HTTP/2 lets some lengths be wrong
			resp.Body.Close()
			return
		}
		var refused *politeness.Error
		if errors.As(err, &refused) {
			t.Fatalf("refused: %v", err)
		}
	}
	if n := len(log.Decisions(evidence.Retried)) + len(log.Decisions(evidence.HostBlocked)); n > 0 {
		t.Errorf("%d tries more, or blocks", n)
	}
	for _, d := range log.Decisions(evidence.Failed) {
		if !d.Left {
			t.Errorf("on record as the host's: %s", d.Err)
		}
	}
	for _, h := range polite.Status(t.Context()).Hosts {
		if h.Refusals > 0 || h.Refused > 0 || h.Learned > 0 || !h.BlockedUntil.IsZero() || h.InFlight > 0 {
			t.Errorf("the host has paid: %+v", h)
		}
	}
}
