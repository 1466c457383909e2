package traps

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
)

// A software is a real program, and what its pages show.
type software struct {
	handler http.Handler
	path    string // of the first page
	pages   int    // with content of their own

	// shows returns the pages that an answer shows.
	shows func(r *http.Request, body string) []string
}

// A visit is a crawl of a software, which ends when it has had all pages.
type visit struct {
	*software
	most int // requests

	mu       sync.Mutex
	had      map[string]bool
	requests int
	all      int // requests when all pages were had; 0: they weren't
	end      context.CancelFunc
}

func (v *visit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	v.handler.ServeHTTP(answer, r)
	v.note(r, answer.Body.String())
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func (v *visit) note(r *http.Request, body string) {
	if r.URL.Path == "/robots.txt" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests++
	for _, page := range v.shows(r, body) {
		v.had[page] = true
	}
	if v.all == 0 && len(v.had) == v.pages {
		v.all = v.requests
	}
	if v.all > 0 || v.requests >= v.most {
		v.end()
	}
}

// crawled crawls a software until all its pages were had, or it has answered most requests for each.
func crawled(t *testing.T, s *software, how crawl.Traps, most int) *visit {
	t.Helper()
	v := &visit{software: s, most: most * s.pages, had: make(map[string]bool)}
	server := httptest.NewServer(v)
	defer server.Close()
	transport, err := politeness.New(politeness.Config{
		UserAgent: "TestBot/1.0 (+https://example.com/bot)",
		Hosts:     hostlimit.Config{Concurrency: 1, Delay: hostlimit.Delay{DangerouslyNone: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	v.end = cancel
	summary, err := crawl.Run(ctx, crawl.Config{
		Transport: transport, Follow: crawl.SameHost, Traps: how,
		Visit: func(context.Context, *crawl.Page) error { return nil },
	}, server.URL+s.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d pages, %d requests: %v", len(v.had), s.pages, v.requests, summary)
	return v
}

// comparesOrders crawls s in the order of its links and with the rule. Both end after most requests a
// page. With the rule at most withRule are needed, and no more than without it.
func comparesOrders(t *testing.T, s *software, most, withRule int) {
	t.Helper()
	inOrder := crawled(t, s, crawl.TrapsIgnored, most)
	last := crawled(t, s, crawl.TrapsLast, most)
	isSlower := inOrder.all > 0 && last.all > inOrder.all
	if last.all == 0 || last.all > withRule*s.pages || isSlower {
		t.Errorf("%d requests for %d pages, and %d in order (0: not within %d a page)", last.all, s.pages, inOrder.all, most)
	}
}
