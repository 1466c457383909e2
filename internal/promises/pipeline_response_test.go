package promises_test

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

func TestMaxBytes(t *testing.T) {
	for _, test := range []struct {
		name   string
		size   int
		length bool // sends Content-Length
		ok     bool
	}{
		{"short", 50, true, true},
		{"exact", 100, true, true},
		{"one more", 101, true, false},
		{"short, no length", 50, false, true},
		{"exact, no length", 100, false, true},
		{"one more, no length", 101, false, false},
		{"much more, no length", 1 << 20, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := politeness.Config{Response: politeness.ResponseLimits{MaxBytes: 100}, Limiter: limiter(t, hostlimit.Config{Concurrency: 1})}
			virtually(t, cfg, func(b *bubble) {
				b.site.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if !test.length {
						w.(http.Flusher).Flush()
					}
					_, _ = io.WriteString(w, strings.Repeat("x", test.size))
				}))
				resp, err := b.client.Get("https://example.com/")
				if !test.ok && test.length {
					refused(b.T, err, politeness.StageResponse, politeness.ErrTooLarge)
					if !strings.HasSuffix(err.Error(), "more than 100 bytes (Content-Length 101)") {
						b.Error(err)
					}
				} else {
					if err != nil {
						b.Fatal(err)
					}
					text, err := io.ReadAll(resp.Body)
					if test.ok {
						if err != nil || len(text) != test.size {
							b.Errorf("%d bytes, %v", len(text), err)
						}
					} else {
						refused(b.T, err, politeness.StageBody, politeness.ErrTooLarge)
						if !strings.HasSuffix(err.Error(), "more than 100 bytes") {
							b.Error(err)
						}
						if len(text) != 100 {
							b.Errorf("%d bytes read, want the limit", len(text))
						}
					}
				}
				if !test.ok {
					b.one(evidence.ResponseRejected)
				}
				b.site.Page("/next", "page")
				b.mustGet("https://example.com/next", 200) // the slot is free, though the body isn't closed
				if resp != nil {
					resp.Body.Close()
				}
			})
		})
	}
}

func TestMaxBytesCountsAfterDecompression(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(make([]byte, 1<<20))
		_ = z.Close()
	}))
	defer server.Close()
	tr, err := politeness.New(politeness.Config{
		UserAgent: agent, Base: server.Client().Transport,
		Limiter:  limiter(t, hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}}),
		Response: politeness.ResponseLimits{MaxBytes: 100_000},
	})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: tr}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	refused(t, err, politeness.StageBody, politeness.ErrTooLarge)
	if n != 100_000 {
		t.Errorf("%d bytes read", n)
	}
}

func TestAcceptAndReject(t *testing.T) {
	for _, test := range []struct {
		accept, reject []string
		contentType    string
		ok             bool
	}{
		{nil, nil, "image/png", true},
		{[]string{"text/*"}, nil, "text/html; charset=utf-8", true},
		{[]string{"text/*"}, nil, "TEXT/HTML", true},
		{[]string{"text/*"}, nil, "image/png", false},
		{[]string{"text/*", "image/png"}, nil, "image/png", true},
		{[]string{"*/*"}, []string{"image/*"}, "image/png", false},
		{nil, []string{"image/*"}, "text/html", true},
		{[]string{"text/*"}, []string{"text/css"}, "text/css", false},
		{[]string{"text/*"}, nil, "text/html; charset=\"", true},
		{[]string{"text/*"}, nil, "none", false},
		{[]string{"application/octet-stream"}, nil, "none", true},
	} {
		t.Run(strings.Join(test.accept, ",")+" "+strings.Join(test.reject, ",")+" "+test.contentType, func(t *testing.T) {
			virtually(t, politeness.Config{Response: politeness.ResponseLimits{Accept: test.accept, Reject: test.reject}}, func(b *bubble) {
				b.site.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header()["Content-Type"] = []string{test.contentType}
					if test.contentType == "none" {
						w.Header()["Content-Type"] = nil
					}
					_, _ = io.WriteString(w, "body")
				}))
				_, err := b.get("https://example.com/")
				if test.ok {
					if err != nil {
						b.Fatal(err)
					}
					return
				}
				refused(b.T, err, politeness.StageResponse, politeness.ErrContentType)
				if d := b.one(evidence.ResponseRejected); d.Status != 200 || d.ContentType != strings.TrimPrefix(test.contentType, "none") || d.Reason == "" {
					b.Errorf("%+v", d)
				}
				if d := b.log.Decisions(evidence.Fetched); d[len(d)-1].Bytes != 0 {
					b.Errorf("%d bytes of the body were read", d[len(d)-1].Bytes)
				}
			})
		})
	}
}

// The answer to HEAD has no body, and may say of which type it would be.
func TestAcceptAndRejectBodilessAnswers(t *testing.T) {
	virtually(t, politeness.Config{Response: politeness.ResponseLimits{Accept: []string{"text/*"}}}, func(b *bubble) {
		b.site.Handle("/film", politenesstest.Status(http.StatusOK, "Content-Type", "video/mp4"))
		b.site.Handle("/none", politenesstest.Status(http.StatusNoContent))
		resp, err := b.client.Head("https://example.com/film")
		if err == nil {
			resp.Body.Close()
		}
		refused(b.T, err, politeness.StageResponse, politeness.ErrContentType)
		b.mustGet("https://example.com/none", http.StatusNoContent)
	})
}

func TestGuardsLetErrorsAndRedirectsPass(t *testing.T) {
	virtually(t, politeness.Config{Response: politeness.ResponseLimits{Accept: []string{"application/pdf"}, MaxBytes: 1}}, func(b *bubble) {
		b.site.Handle("/go", http.RedirectHandler("/missing", http.StatusFound))
		b.mustGet("https://example.com/go", 404)
	})
}

func TestBytesOfTheBudgetAreNeverPassed(t *testing.T) {
	spent := budget.New(budget.Limits{Bytes: 150, WarnAt: 0.8})
	virtually(t, politeness.Config{Budget: spent}, func(b *bubble) {
		b.site.Page("/", strings.Repeat("x", 100)).Page("/fits", strings.Repeat("x", 50))
		b.mustGet("https://example.com/", 200)
		if n := len(b.log.Decisions(evidence.BudgetWarning)); n != 0 {
			b.Error("warned at 100 of 150 bytes")
		}
		resp, err := b.client.Get("https://example.com/")
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		buf := make([]byte, 200)
		n, err := resp.Body.Read(buf)
		refused(b.T, err, politeness.StageBody, politeness.ErrBudget)
		if string(buf) != strings.Repeat("x", 50)+strings.Repeat("\x00", 150) || n != 50 {
			b.Errorf("%d bytes read, want 50; the buffer holds %q", n, buf)
		}
		if u, _ := spent.Usage(b.Context()); u.Bytes != 150 {
			b.Errorf("%d bytes spent", u.Bytes)
		}
		b.one(evidence.BudgetWarning)
		b.one(evidence.BudgetExceeded)
	})
}

func TestWaitThatWouldOutlastTheTimeLimitIsRefusedEarly(t *testing.T) {
	virtually(t, politeness.Config{Budget: budget.New(budget.Limits{Duration: time.Minute})}, func(b *bubble) {
		b.site.Robots("User-agent: *\nCrawl-delay: 100\n").Page("/", "page")
		b.web.Site("https://other.example").Page("/", "page")
		b.mustGet("https://other.example/", 200) // starts the clock
		asked := time.Now()
		_, err := b.get("https://example.com/")
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
		if time.Since(asked) != 0 {
			b.Errorf("refused after %v", time.Since(asked))
		}
	})
}

func TestAnonymousAndRefusePaths(t *testing.T) {
	rules := politeness.RefuseAny(nil, politeness.Anonymous, politeness.RefusePaths(regexp.MustCompile(`^/login`), regexp.MustCompile(`[?&]session=`)))
	virtually(t, politeness.Config{Refuse: rules}, func(b *bubble) {
		b.site.Page("/", "page")
		for _, test := range []struct {
			method, url, header string
			reason              string
		}{
			{http.MethodGet, "https://example.com/", "", ""},
			{http.MethodHead, "https://example.com/", "", ""},
			{http.MethodPost, "https://example.com/", "", "POST"},
			{http.MethodGet, "https://example.com/", "authorization", "Authorization"},
			{http.MethodGet, "https://example.com/", "Cookie", "Cookie"},
			{http.MethodGet, "https://u:p@example.com/", "", "userinfo"},
			{http.MethodGet, "https://example.com/login?x", "", "^/login"},
			{http.MethodGet, "https://example.com/?session=1", "", "session"},
		} {
			b.log.Reset()
			req, err := http.NewRequestWithContext(b.Context(), test.method, test.url, nil)
			if err != nil {
				b.Fatal(err)
			}
			if test.header != "" {
				req.Header[test.header] = []string{"secret"}
			}
			before := time.Now()
			resp, err := b.t.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			if test.reason == "" {
				if err != nil {
					b.Errorf("%s %s: %v", test.method, test.url, err)
				}
				continue
			}
			refused(b.T, err, politeness.StageRule, politeness.ErrDisallowed)
			if d := b.one(evidence.BlockedByRule); !strings.Contains(d.Reason, test.reason) || d.Allowed {
				b.Errorf("record %+v, want a reason with %q", d, test.reason)
			}
			if strings.Contains(err.Error(), "u:p") || time.Since(before) != 0 {
				b.Errorf("error %v after %v", err, time.Since(before))
			}
		}
	})
}

func TestRefuseErrorOfTheUserIsKept(t *testing.T) {
	mine := errors.New("my rule")
	virtually(t, politeness.Config{Refuse: func(*http.Request) error { return mine }}, func(b *bubble) {
		_, err := b.get("https://example.com/")
		refused(b.T, err, politeness.StageRule, mine)
	})
}

func TestSwitchedConnectionKeepsItsWriter(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString(line)
		_ = rw.Flush()
	}))
	defer server.Close()
	tr, err := politeness.New(politeness.Config{UserAgent: agent, Limiter: limiter(t, hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}})})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d, body %T can't be written to", resp.StatusCode, resp.Body)
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); err != nil || string(text) != "hello\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

const indexedPage = `<!doctype html><html><head><title>x</title><meta name="robots" content="nofollow"></head><body>text</body></html>`

func TestDirectivesOfHeaderAndMeta(t *testing.T) {
	virtually(t, politeness.Config{Response: politeness.ResponseLimits{CheckIndexing: true}}, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("X-Robots-Tag", "otherbot: noarchive")
			w.Header().Add("X-Robots-Tag", "noindex")
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, indexedPage)
		}))
		resp, err := b.client.Get("https://example.com/")
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		if d := politeness.DirectivesOf(resp); !d.NoIndex || d.NoFollow || d.NoArchive {
			b.Errorf("by the header: %+v", d)
		}
		page, err := io.ReadAll(iotest.OneByteReader(resp.Body))
		if err != nil || string(page) != indexedPage {
			b.Errorf("page %q, %v", page, err)
		}
		if d := politeness.DirectivesOf(resp); !d.NoIndex || !d.NoFollow {
			b.Errorf("by header and meta: %+v", d)
		}
		if d := b.one(evidence.NoIndex); !strings.Contains(d.Directives, "noindex") || !strings.Contains(d.Directives, "nofollow") {
			b.Errorf("record %+v", d)
		}
	})
}

// TestDirectivesOfAnAnswerToAClone: a Base may send a clone of its request, and say so.
func TestDirectivesOfAnAnswerToAClone(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Page("/", indexedPage)
		tr := mustNew(b.T, politeness.Config{
			UserAgent: agent, Response: politeness.ResponseLimits{CheckIndexing: true},
			Base: roundTripFunc(func(req *http.Request) (*http.Response, error) { return b.web.RoundTrip(req.Clone(req.Context())) }),
		})
		resp, err := (&http.Client{Transport: tr}).Get("https://example.com/")
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadAll(resp.Body); err != nil || !politeness.DirectivesOf(resp).NoFollow {
			b.Errorf("by meta: %+v, %v", politeness.DirectivesOf(resp), err)
		}
	})
}

func TestDirectivesOfAPlainPageAreNone(t *testing.T) {
	virtually(t, politeness.Config{Response: politeness.ResponseLimits{CheckIndexing: true}}, func(b *bubble) {
		b.site.Page("/", "<p>hello")
		b.mustGet("https://example.com/", 200)
		if n := len(b.log.Decisions(evidence.NoIndex)); n != 0 {
			b.Errorf("%d records", n)
		}
	})
	if d := politeness.DirectivesOf(&http.Response{Header: http.Header{}}); d.NoIndex || d.NoFollow {
		t.Errorf("of somebody else's response: %+v", d)
	}
}
