package promises_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
)

// instant answers at once: what is measured is what politeness adds to it.
type instant struct{ body bool }

type readOnce struct{ strings.Reader }

func (*readOnce) Close() error { return nil }

func (t instant) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}
	if t.body {
		resp.Body = &readOnce{*strings.NewReader("hello")}
	}
	if strings.HasSuffix(req.URL.Path, "/robots.txt") {
		resp.Body = io.NopCloser(strings.NewReader("User-agent: *\nDisallow: /private\nAllow: /private/open\nDisallow: /*.pdf$\n"))
	}
	return resp, nil
}

// everything is a Config with every stage on, and no delay.
func everything(tb testing.TB, base http.RoundTripper) politeness.Config {
	tb.Helper()
	hosts, err := memory.New(hostlimit.Config{Concurrency: 1 << 20, Delay: hostlimit.Delay{DangerouslyNone: true}})
	if err != nil {
		tb.Fatal(err)
	}
	return politeness.Config{
		UserAgent: agent,
		Base:      base,
		Limiter:   hosts,
		Budget:    budget.New(budget.Limits{Pages: 1 << 50, Bytes: 1 << 60, Duration: 1000 * time.Hour}),
		Evidence:  evidence.Func(func(context.Context, evidence.Decision) {}),
	}
}

func mustNew(tb testing.TB, cfg politeness.Config) *politeness.Transport {
	tb.Helper()
	t, err := politeness.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func pageRequest(tb testing.TB, signed bool) *http.Request {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, "https://example.com/articles/2026/some-page?page=2&sort=asc", nil)
	if err != nil {
		tb.Fatal(err)
	}
	if signed {
		req.Header.Set("User-Agent", agent)
	}
	return req
}

func roundTrip(tb testing.TB, rt http.RoundTripper, req *http.Request, buf []byte) {
	resp, err := rt.RoundTrip(req)
	if err != nil {
		tb.Fatal(err)
	}
	for err == nil {
		_, err = resp.Body.Read(buf)
	}
	resp.Body.Close()
}

// BenchmarkRoundTrip measures what the whole pipeline (robots, turn, budget,
// evidence) adds to a transport that does nothing: subtract bare.
func BenchmarkRoundTrip(b *testing.B) {
	for _, body := range []bool{false, true} {
		name := "/no body"
		if body {
			name = "/body"
		}
		base := instant{body}
		for _, c := range []struct {
			name   string
			rt     http.RoundTripper
			signed bool
		}{
			{"bare", base, true},
			{"signed request", mustNew(b, everything(b, base)), true},
			{"unsigned request", mustNew(b, everything(b, base)), false},
		} {
			b.Run(c.name+name, func(b *testing.B) {
				req, buf := pageRequest(b, c.signed), make([]byte, 512)
				roundTrip(b, c.rt, req, buf)
				b.ReportAllocs()
				for b.Loop() {
					roundTrip(b, c.rt, req, buf)
				}
			})
		}
	}
}

func BenchmarkRoundTripParallel(b *testing.B) {
	t := mustNew(b, everything(b, instant{true}))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		req, buf := pageRequest(b, true), make([]byte, 512)
		for pb.Next() {
			roundTrip(b, t, req, buf)
		}
	})
}

// The pipeline costs four allocations where the request is signed already: all that it knows of the
// request in one, with the request that is sent, its context and the body's wrapper; the URL's text;
// and the hooks that net/http calls when it wants a connection and when it has one. A request that isn't signed costs its
// header map, of two allocations.
func TestPipelineAddsFourAllocations(t *testing.T) {
	for _, body := range []bool{false, true} {
		base := instant{body}
		told := everything(t, base)
		untold := told
		untold.Evidence = nil
		for _, signed := range []bool{true, false} {
			req, buf := pageRequest(t, signed), make([]byte, 512)
			bare := testing.AllocsPerRun(200, func() { roundTrip(t, base, req, buf) })
			for name, cfg := range map[string]politeness.Config{"evidence": told, "no evidence": untold} {
				want := 4.0
				if !signed {
					want += 2
				}
				polite := mustNew(t, cfg)
				if ours := testing.AllocsPerRun(200, func() { roundTrip(t, polite, req, buf) }); ours-bare > want {
					t.Errorf("body %t, signed %t, %s: %v allocations added, want %v", body, signed, name, ours-bare, want)
				}
			}
		}
	}
}
