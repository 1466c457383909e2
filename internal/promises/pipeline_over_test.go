package promises_test

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/botauth"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// A countingBase sends by another transport, and lists the paths.
type countingBase struct {
	http.RoundTripper
	paths  []string
	closed int
}

func (c *countingBase) RoundTrip(req *http.Request) (*http.Response, error) {
	c.paths = append(c.paths, req.URL.Path)
	return c.RoundTripper.RoundTrip(req)
}

func (c *countingBase) CloseIdleConnections() { c.closed++ }

func TestOverSharesOneTransportAmongBases(t *testing.T) {
	virtually(t, politeness.Config{
		Budget: budget.New(budget.Limits{Pages: 3}),
		Retry:  politeness.Retry{Max: 1},
	}, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /private\nCrawl-delay: 2\n")
		b.site.Page("/a", "a").Page("/b", "b").Page("/c", "c")
		b.site.Handle("/old", http.RedirectHandler("/private/new", http.StatusFound))
		first := &countingBase{RoundTripper: b.web}
		second := &countingBase{RoundTripper: b.web}
		one := &http.Client{Transport: b.t.Over(first)}
		two := &http.Client{Transport: b.t.Over(second)}
		for _, step := range []struct {
			client *http.Client
			path   string
			target error
		}{
			{one, "/a", nil},
			{two, "/b", nil},
			{two, "/old", politeness.ErrDisallowed},
			{one, "/c", politeness.ErrBudget},
		} {
			_, err := fetch(b.Context(), step.client, "https://example.com"+step.path)
			if !errors.Is(err, step.target) {
				b.Errorf("%s: %v, want %v", step.path, err, step.target)
			}
		}
		// The first that asks fetches robots.txt, and nobody else does.
		if got := strings.Join(first.paths, " "); got != "/robots.txt /a" {
			b.Errorf("the first base sent %s", got)
		}
		if got := strings.Join(second.paths, " "); got != "/b /old" {
			b.Errorf("the second base sent %s", got)
		}
		b.mustBePolite(2 * time.Second)
		if n := len(b.log.Decisions(evidence.Fetched)); n != 3+1 {
			b.Errorf("%d records of fetches, want 3 pages and robots.txt", n)
		}
		one.CloseIdleConnections()
		if first.closed != 1 || second.closed != 0 {
			b.Errorf("idle connections closed: %d and %d times", first.closed, second.closed)
		}
	})
}

// mustBePolite fails if two requests, which are all of one host, came closer than gap.
func (b *bubble) mustBePolite(gap time.Duration) {
	b.Helper()
	requests := b.web.Requests()
	for i, r := range requests[1:] {
		if got := r.Start.Sub(requests[i].Start); got < gap {
			b.Errorf("%s came %v after the request before", r.URL, got)
		}
	}
}

func TestOverRetriesByItsBase(t *testing.T) {
	virtually(t, politeness.Config{Retry: politeness.Retry{Max: 2}}, func(b *bubble) {
		var asked atomic.Int32
		b.site.Handle("/flaky", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		base := &countingBase{RoundTripper: b.web}
		status, err := fetch(b.Context(), &http.Client{Transport: b.t.Over(base)}, "https://example.com/flaky")
		if status != http.StatusOK || err != nil {
			b.Errorf("status %d, error %v", status, err)
		}
		if got := strings.Join(base.paths, " "); got != "/robots.txt /flaky /flaky /flaky" {
			b.Errorf("the base sent %s", got)
		}
	})
}

func TestOverSignsByItsBase(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := botauth.New(botauth.Config{Key: key, Agent: "https://bot.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Page("/a", "a")
		client := &http.Client{Transport: b.t.Over(signer.Transport(b.web))}
		if _, err := fetch(b.Context(), client, "https://example.com/a"); err != nil {
			b.Fatal(err)
		}
		for _, d := range b.log.Decisions(evidence.Started) {
			if d.Signed == "" {
				b.Errorf("%s: the record has no key", d.URL)
			}
		}
	})
}

type panickingBase struct{}

func (panickingBase) RoundTrip(*http.Request) (*http.Response, error) { panic("base") }

func TestOverGivesTheTurnBackAfterAPanic(t *testing.T) {
	virtually(t, politeness.Config{Hosts: hostlimit.Config{Concurrency: 1}}, func(b *bubble) {
		b.site.Page("/a", "a")
		b.mustGet("https://example.com/a", http.StatusOK) // robots.txt is known
		func() {
			defer func() {
				if recover() == nil {
					b.Error("the panic is lost")
				}
			}()
			_, _ = fetch(b.Context(), &http.Client{Transport: b.t.Over(panickingBase{})}, "https://example.com/a")
		}()
		b.mustGet("https://example.com/a", http.StatusOK)
	})
}

func TestOverReachesItsTransport(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Page("/", `<a href="/a">a</a>`).Page("/a", "a")
		base := &countingBase{RoundTripper: b.web}
		over := b.t.Over(base)
		if !b.t.IsReachedBy(b.Context(), over) {
			b.Error("not reached by what Over returns")
		}
		visited := 0
		c, err := crawl.New(crawl.Config{
			Transport: b.t,
			Client:    &http.Client{Transport: over},
			Follow:    crawl.SameHost,
			Visit:     func(context.Context, *crawl.Page) error { visited++; return nil },
		})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Run(b.Context(), "https://example.com/"); err != nil {
			b.Fatal(err)
		}
		if visited != 2 {
			b.Errorf("%d pages visited, want 2", visited)
		}
		if starts := b.t.Status(b.Context()).Starts; starts != 3 {
			b.Errorf("the status has %d starts, want 3", starts)
		}
	})
}

func TestOverRefusesATransportAsBase(t *testing.T) {
	inner := mustNew(t, politeness.Config{UserAgent: agent})
	tr := mustNew(t, politeness.Config{UserAgent: agent})
	for name, base := range map[string]http.RoundTripper{
		"another":        inner,
		"itself":         tr,
		"what it is":     tr.Over(politenesstest.NewWeb()),
		"in a wrapper":   unwrapper{inner},
		"a nil pointer":  (*http.Transport)(nil),
		"a nil in these": unwrapper{(*politeness.Transport)(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			body := &closeCounter{}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://example.com/", body)
			if err != nil {
				t.Fatal(err)
			}
			_, err = tr.Over(base).RoundTrip(req)
			e := refused(t, err, politeness.StageRequest, nil)
			if !strings.Contains(e.Error(), "Over: base") || body.closed != 1 {
				t.Errorf("%v; the body was closed %d times", e, body.closed)
			}
			tr.Over(base).(interface{ CloseIdleConnections() }).CloseIdleConnections() //nolint:forcetypeassert // it panics
		})
	}
	cfg := politeness.Config{UserAgent: agent, Base: tr.Over(nil)}
	mustSay(t, problemsOf(cfg), "Config.Base", "*politeness.Transport")
}

func undelayed() hostlimit.Config {
	return hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}}
}

type closeCounter struct {
	strings.Reader
	closed int
}

func (c *closeCounter) Close() error {
	c.closed++
	return nil
}

// A test that puts its own transport in the place of http.DefaultTransport, as httpmock.Activate
// does, reaches no network, whenever the Transport was made.
func TestBaseNilIsTheDefaultTransportOfEachRequest(t *testing.T) {
	reached := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer server.Close()
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	own := mustNew(t, politeness.Config{UserAgent: agent, Hosts: undelayed()})
	for name, rt := range map[string]http.RoundTripper{
		"Config.Base": own,
		"Over":        mustNew(t, politeness.Config{UserAgent: agent, Base: before, Hosts: undelayed()}).Over(nil),
	} {
		web := politenesstest.NewWeb()
		web.Site(server.URL).Page("/", "fake")
		fake := &countingBase{RoundTripper: web}
		http.DefaultTransport = fake
		status, err := fetch(t.Context(), &http.Client{Transport: rt}, server.URL+"/")
		if status != http.StatusOK || err != nil || reached > 0 {
			t.Errorf("%s: status %d, error %v, %d requests reached the network", name, status, err, reached)
		}
		(&http.Client{Transport: rt}).CloseIdleConnections()
		if fake.closed != 1 {
			t.Errorf("%s: CloseIdleConnections isn't passed on", name)
		}
		http.DefaultTransport = before
	}
}

// A bareWrapper leads to another transport, and doesn't say so by Unwrap.
type bareWrapper struct{ inner http.RoundTripper }

func (w bareWrapper) RoundTrip(req *http.Request) (*http.Response, error) {
	return w.inner.RoundTrip(req.Clone(req.Context()))
}

// A program that makes http.DefaultTransport polite still sends by that of before, in one turn.
func TestBaseNilBelowAPoliteDefaultTransport(t *testing.T) {
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	for name, wrap := range map[string]func(*politeness.Transport) http.RoundTripper{
		"itself":               func(t *politeness.Transport) http.RoundTripper { return t },
		"over":                 func(t *politeness.Transport) http.RoundTripper { return t.Over(nil) },
		"a wrapper":            func(t *politeness.Transport) http.RoundTripper { return unwrapper{t} },
		"one without Unwrap":   func(t *politeness.Transport) http.RoundTripper { return bareWrapper{t} },
		"one of what it is":    func(t *politeness.Transport) http.RoundTripper { return bareWrapper{t.Over(nil)} },
		"several without that": func(t *politeness.Transport) http.RoundTripper { return bareWrapper{bareWrapper{t}} },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, politeness.Config{Hosts: hostlimit.Config{Concurrency: 1}}, func(b *bubble) {
				http.DefaultTransport = b.web
				b.site.Page("/", "page")
				tr := mustNew(b.T, politeness.Config{UserAgent: agent, Hosts: hostlimit.Config{Concurrency: 1}})
				http.DefaultTransport = wrap(tr)
				status, err := fetch(b.Context(), http.DefaultClient, "https://example.com/")
				if status != http.StatusOK || err != nil {
					b.Errorf("status %d, error %v", status, err)
				}
				if got := tr.Status(b.Context()).Starts; got != 2 {
					b.Errorf("%d starts, want one of robots.txt and one of the page", got)
				}
				http.DefaultTransport = before
			})
		})
	}
}

// A retryingBase asks for one connection after the other, none of which answers.
type retryingBase struct{ last error }

func (r retryingBase) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(req.Context())
	for range 10 {
		if err := req.Context().Err(); err != nil {
			return nil, cmp.Or(r.last, err)
		}
		trace.GetConn(req.URL.Host)
	}
	return nil, errors.New("it wasn't stopped")
}

func TestABaseThatIsGivenUpNamesItsLastError(t *testing.T) {
	refused := errors.New("giving up after 4 attempts: connection refused")
	for _, last := range []error{refused, nil} {
		virtually(t, politeness.Config{}, func(b *bubble) {
			b.site.Page("/", "page")
			b.mustGet("https://example.com/", http.StatusOK)
			client := &http.Client{Transport: b.t.Over(retryingBase{last})}
			_, err := fetch(b.Context(), client, "https://example.com/")
			if err == nil || !strings.Contains(err.Error(), "given up after 3 connections") || errors.Is(err, refused) != (last != nil) {
				b.Errorf("error %v, want one that wraps %v", err, last)
			}
			// The caller hasn't left, and the host has failed.
			if errors.Is(err, context.Canceled) || b.last(evidence.Failed).Left {
				b.Errorf("%v counts as the caller's leaving", err)
			}
		})
	}
}
