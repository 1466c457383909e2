package crawl_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/robots"
)

// packed returns text in a coding.
func packed(t *testing.T, coding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	switch coding {
	case "zlib":
		w = zlib.NewWriter(&b)
	case "deflate":
		var err error
		w, err = flate.NewWriter(&b, flate.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := io.WriteString(w, text)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A codedPage is the answer of a server, and what a crawl makes of it.
type codedPage struct {
	coding, body string
	outcome      crawl.Outcome
	truncated    bool
}

func codedPages(t *testing.T) map[string]codedPage {
	t.Helper()
	text := `<html><a href="/next">next</a>` + strings.Repeat("the page ", 1000) + "</html>"
	gz := packed(t, "gzip", text)
	damaged := gz[:len(gz)-6] + "xx" + gz[len(gz)-4:]
	return map[string]codedPage{
		"gzip":             {"gzip", gz, crawl.Visited, false},
		"line ends behind": {"gzip", gz + "\r\n\r\n\n\n\n\n\n\n\n\n", crawl.Visited, false},
		"zeros behind":     {"gzip", gz + strings.Repeat("\x00", 64), crawl.Visited, false},
		"no trailer":       {"gzip", gz[:len(gz)-8], crawl.Visited, false},
		"half a trailer":   {"gzip", gz[:len(gz)-3], crawl.Visited, false},
		"a wrong checksum": {"gzip", damaged, crawl.Visited, false},
		"half of the data": {"gzip", packed(t, "gzip", `<a href="/next">`+noise(100_000))[:50_000], crawl.Visited, true},
		"x-gzip":           {"x-gzip", gz, crawl.Visited, false},
		"upper case":       {"X-GZip", gz, crawl.Visited, false},
		"deflate, zlib":    {"deflate", packed(t, "zlib", text), crawl.Visited, false},
		"deflate, raw":     {"deflate", packed(t, "deflate", text), crawl.Visited, false},
		"gzip twice":       {"gzip, gzip", packed(t, "gzip", gz), crawl.Visited, false},
		"two codings":      {"deflate, x-gzip", packed(t, "gzip", packed(t, "zlib", text)), crawl.Visited, false},
		"identity":         {"identity", text, crawl.Visited, false},

		"plain text":        {"gzip", text, crawl.Failed, false},
		"an unknown coding": {"br", text, crawl.Failed, false},
		"one of two":        {"zstd, gzip", gz, crawl.Failed, false},
		"no deflate":        {"deflate", "\xff\xff\xff\xff", crawl.Failed, false},
	}
}

// noise returns letters that pack badly.
func noise(n int) string {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = 'a' + byte(x>>27)%26
	}
	return string(b)
}

// check compares the outcome of /start with what is wanted.
func (c *codedPage) check(t *testing.T, s crawl.Summary, visited []*crawl.Page) {
	t.Helper()
	if s.Outcomes[c.outcome] == 0 || c.outcome == crawl.Failed && s.Errors[crawl.Failed] == nil {
		t.Errorf("%v, want %s", s, c.outcome)
	}
	if c.outcome != crawl.Visited {
		return
	}
	if len(visited) != 2 || len(visited[0].Links) != 1 || visited[0].Truncated != c.truncated || !strings.Contains(string(visited[0].Body), "next") {
		t.Errorf("%d pages, links %v, truncated %t", len(visited), visited[0].Links, visited[0].Truncated)
	}
}

// TestCodingsThatBrowsersForgive, left on the body by the Transport's base.
func TestCodingsThatBrowsersForgive(t *testing.T) {
	for name, tt := range codedPages(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.crawl.Follow = crawl.SameHost
				r.Site("https://example.com").Handle("/next", page("next")).Handle("/start", coded(&tt))
				tt.check(t, r.run(t.Context(), t, "https://example.com/start"), r.visited)
			})
		})
	}
}

func coded(c *codedPage) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Encoding", c.coding)
		_, _ = io.WriteString(w, c.body)
	})
}

// TestCodingsOfNetHTTP is TestCodingsThatBrowsersForgive where net/http decodes gzip by itself.
func TestCodingsOfNetHTTP(t *testing.T) {
	for name, tt := range codedPages(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			mux.Handle("/start", coded(&tt))
			mux.Handle("/next", page("next"))
			server := httptest.NewServer(mux)
			defer server.Close()
			base := server.Client().Transport.(*http.Transport).Clone()
			defer base.CloseIdleConnections()
			r := newRig()
			r.politeness = politeness.Config{
				UserAgent: userAgent, Base: base, Hosts: hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}},
			}
			r.crawl.Follow = crawl.SameHost
			tt.check(t, r.run(t.Context(), t, server.URL+"/start"), r.visited)
		})
	}
}

// TestPrepareAsksForItsOwnCoding: the body is as it came then.
func TestPrepareAsksForItsOwnCoding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/start", coded(&codedPage{coding: "br", body: "brotli"}))
		r.crawl.Prepare = func(_ crawl.Request, req *http.Request) error {
			req.Header.Set("Accept-Encoding", "br")
			return nil
		}
		s := r.run(t.Context(), t, "https://example.com/start")
		if s.Visited() != 1 || string(r.visited[0].Body) != "brotli" || r.visited[0].Response.Header.Get("Content-Encoding") != "br" {
			t.Errorf("%v, %d pages", s, len(r.visited))
		}
	})
}

// TestReservationsOfCodedPages: what the Transport's base leaves in its coding is read as well.
func TestReservationsOfCodedPages(t *testing.T) {
	const meta = `<head><meta name="tdm-reservation" content="1"></head>`
	for _, text := range []string{meta, meta + noise(300_000), "<head><script>" + noise(20_000) + "</script>" + meta[len("<head>"):] + noise(300_000)} {
		for _, coding := range []string{"gzip", "x-gzip", "deflate"} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.Site("https://example.com").Handle("/start", coded(&codedPage{coding: coding, body: packed(t, strings.Replace(coding, "x-", "", 1), text)}))
				r.politeness.Purposes = []robots.Purpose{robots.Train}
				s := r.run(t.Context(), t, "https://example.com/start")
				if s.Outcomes[crawl.Disallowed] != 1 || len(r.visited) > 0 {
					t.Errorf("%s, %d bytes: %v", coding, len(text), s)
				}
			})
		}
	}
}

// TestReservationsBeforeAForgivenError: what the page states counts, though the transport's decoder
// ends with an error that the crawl forgives.
func TestReservationsBeforeAForgivenError(t *testing.T) {
	body := packed(t, "gzip", `<meta name="tdm-reservation" content="1"><p>a page without a head`)
	for _, c := range []codedPage{{coding: "gzip", body: body + strings.Repeat("\n", 20)}, {coding: "gzip", body: body[:len(body)-8]}} {
		mux := http.NewServeMux()
		mux.Handle("/start", coded(&c))
		server := httptest.NewServer(mux)
		defer server.Close()
		base := server.Client().Transport.(*http.Transport).Clone()
		defer base.CloseIdleConnections()
		r := newRig()
		r.politeness = politeness.Config{
			UserAgent: userAgent, Base: base, Purposes: []robots.Purpose{robots.Train},
			Hosts: hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}},
		}
		s := r.run(t.Context(), t, server.URL+"/start")
		if s.Outcomes[crawl.Disallowed] != 1 || len(r.visited) > 0 {
			t.Errorf("%v", s)
		}
	}
}
