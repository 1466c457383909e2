package promises_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
)

// openSite switches /socket to a protocol that echoes lines, and streams /events until it is closed.
func openSite(t *testing.T) *httptest.Server {
	t.Helper()
	over := make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/socket":
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			line, _ := buffered.ReadString('\n')
			fmt.Fprint(conn, line)
		case "/events":
			w.Header().Set("Content-Type", "Text/Event-Stream; charset=utf-8")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-over:
			case <-r.Context().Done():
			}
			fmt.Fprint(w, "data: 1\n\n")
		}
	}))
	t.Cleanup(site.Close)
	t.Cleanup(func() { close(over) })
	return site
}

// staysOpen is a crawl of openSite with one slot a host.
type staysOpen struct {
	t         *testing.T
	site      *httptest.Server
	transport *politeness.Transport
	log       *evidence.Log
	text      bytes.Buffer
}

func newStaysOpen(t *testing.T, upgrades, streams int) *staysOpen {
	t.Helper()
	s := &staysOpen{t: t, site: openSite(t)}
	s.log = evidence.JSONLines(&s.text)
	cfg := politeness.Config{
		UserAgent: "Test/1.0 (+https://example.com/bot)", Evidence: s.log,
		Upgrades: upgrades, Streams: streams,
	}
	cfg.Hosts.Concurrency = 1
	cfg.Hosts.Delay = hostlimit.Delay{DangerouslyNone: true}
	var err error
	if s.transport, err = politeness.New(cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *staysOpen) get(path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.site.URL+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	if path == "/socket" {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "websocket")
	}
	return s.transport.RoundTrip(req)
}

func (s *staysOpen) mustGet(path string) *http.Response {
	s.t.Helper()
	resp, err := s.get(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

func (s *staysOpen) report() *audit.Report {
	s.t.Helper()
	if err := s.log.Close(); err != nil {
		s.t.Fatal(err)
	}
	report, err := audit.Check(strings.NewReader(s.text.String()))
	if err != nil {
		s.t.Fatal(err)
	}
	return report
}

// TestSwitchedConnectionsHoldNoSlot: pages come while connections are open that were switched to
// another protocol. These have a bound of their own, and the log proves both.
func TestSwitchedConnectionsHoldNoSlot(t *testing.T) {
	t.Parallel()
	s := newStaysOpen(t, 3, 0)
	sockets := make([]*http.Response, 3)
	for i := range sockets {
		sockets[i] = s.mustGet("/socket")
		s.mustGet("/page").Body.Close()
	}
	if _, err := s.get("/socket"); !errors.Is(err, politeness.ErrBusy) {
		t.Errorf("one more than Upgrades: %v", err)
	}
	for i, resp := range sockets {
		conn, ok := resp.Body.(io.ReadWriteCloser)
		if !ok {
			t.Fatal("the body can't be written to")
		}
		fmt.Fprintln(conn, "hello")
		if line, err := bufio.NewReader(conn).ReadString('\n'); line != "hello\n" {
			t.Errorf("connection %d: %q, %v", i, line, err)
		}
		conn.Close()
	}
	s.mustGet("/socket").Body.Close() // there is room again
	report := s.report()
	if !report.OK() {
		t.Error(report)
	}
	if n := report.Records[evidence.StaysOpen]; n != 4 {
		t.Errorf("%d records of open answers, not 4", n)
	}
}

// TestStreamsHoldNoSlotWhereAsked: a stream of events keeps its slot unless Streams says otherwise.
func TestStreamsHoldNoSlotWhereAsked(t *testing.T) {
	t.Parallel()
	s := newStaysOpen(t, 0, 2)
	for range 2 {
		resp := s.mustGet("/events")
		defer resp.Body.Close()
		s.mustGet("/page").Body.Close()
	}
	third := s.mustGet("/events") // it has the slot
	state, err := s.transport.Limiter().State(t.Context(), strings.TrimPrefix(s.site.URL, "http://"))
	if err != nil || state.InFlight != 1 {
		t.Errorf("%d in flight, %v", state.InFlight, err)
	}
	third.Body.Close()
	s.mustGet("/page").Body.Close()
	if report := s.report(); !report.OK() || report.Records[evidence.StaysOpen] != 2 {
		t.Error(report)
	}
}

// TestWhatStaysOpenIsJudged: without its records, or beyond its bound, an open answer is one request
// too many in flight.
func TestWhatStaysOpenIsJudged(t *testing.T) {
	t.Parallel()
	s := newStaysOpen(t, 2, 0)
	for range 2 {
		resp := s.mustGet("/socket")
		defer resp.Body.Close()
	}
	s.mustGet("/page").Body.Close()
	if report := s.report(); len(report.Violations) > 0 {
		t.Error(report)
	}
	var without []string
	for _, line := range strings.SplitAfter(s.text.String(), "\n") {
		if !strings.Contains(line, string(evidence.StaysOpen)) {
			without = append(without, line)
		}
	}
	for name, text := range map[string]string{
		"taken out":       strings.Join(without, ""),
		"a smaller bound": strings.Replace(s.text.String(), `"upgrades":2`, `"upgrades":1`, 1),
		"another status":  strings.ReplaceAll(s.text.String(), `"status":101`, `"status":404`),
	} {
		report, err := audit.Check(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if report.OK() {
			t.Errorf("%s: proved all the same\n%v", name, report)
		}
	}
}
