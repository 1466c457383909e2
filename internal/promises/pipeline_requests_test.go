package promises_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// A closer counts how often a request's body is closed.
type closer struct {
	io.Reader
	closed atomic.Int64
}

func (c *closer) Close() error {
	c.closed.Add(1)
	return nil
}

func TestRequestBodyIsClosedOnEveryRefusal(t *testing.T) {
	spentOut := budget.New(budget.Limits{Pages: 1})
	if _, err := spentOut.Reserve(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	blocked := func(t *testing.T) hostlimit.Limiter {
		return limiter(t, hostlimit.Config{MaxWait: time.Second})
	}
	for _, test := range []struct {
		name  string
		url   string
		cfg   func(t *testing.T) politeness.Config
		stage politeness.Stage
	}{
		{"request", "ftp://example.com/", func(*testing.T) politeness.Config { return politeness.Config{} }, politeness.StageRequest},
		{"rule", "https://example.com/", func(*testing.T) politeness.Config {
			return politeness.Config{Refuse: func(*http.Request) error { return errors.New("no") }}
		}, politeness.StageRule},
		{"budget", "https://example.com/", func(*testing.T) politeness.Config { return politeness.Config{Budget: spentOut} }, politeness.StageBudget},
		{"robots", "https://example.com/private", func(*testing.T) politeness.Config { return politeness.Config{} }, politeness.StageRobots},
		{"turn", "https://example.com/", func(t *testing.T) politeness.Config { return politeness.Config{Limiter: blocked(t)} }, politeness.StageTurn},
		{"send", "https://nowhere.example/", func(*testing.T) politeness.Config {
			return politeness.Config{DangerouslyIgnoreRobots: true}
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			virtually(t, test.cfg(t), func(b *bubble) {
				b.site.Robots("User-agent: *\nDisallow: /private\nCrawl-delay: 100\n").Page("/", "page")
				body := &closer{Reader: strings.NewReader("body")}
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, test.url, body)
				if err != nil {
					b.Fatal(err)
				}
				resp, err := b.t.RoundTrip(req)
				if err == nil {
					resp.Body.Close()
				}
				if test.stage == "" {
					failed(b.T, err, nil)
				} else {
					refused(b.T, err, test.stage, nil)
				}
				if n := body.closed.Load(); n != 1 {
					b.Errorf("body closed %d times, want once", n)
				}
			})
		})
	}
}

func TestCallersRequestIsNeverChanged(t *testing.T) {
	virtually(t, politeness.Config{From: "bot@example.com", Response: politeness.ResponseLimits{CheckIndexing: true}}, func(b *bubble) {
		b.site.Page("/", "page")
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://example.com/", nil)
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("User-Agent", "Other/2.0")
		req.Header.Set("X-Mine", "1")
		req.Header.Set("Keep-Alive", "5") // as long as User-Agent
		resp, err := b.t.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		if len(req.Header) != 3 || req.Header.Get("User-Agent") != "Other/2.0" {
			b.Errorf("the caller's header is now %v", req.Header)
		}
		sent := b.web.Requests()[1].Header
		if sent.Get("User-Agent") != agent || sent.Get("From") != "bot@example.com" || sent.Get("X-Mine") != "1" || sent.Get("Keep-Alive") != "5" {
			b.Errorf("sent header %v", sent)
		}
	})
}

// TestTheAnswersRequestIsTheCallers, and the one that was sent, a clone of it with a From, ends with
// the exchange: what hangs on its context isn't kept.
func TestTheAnswersRequestIsTheCallers(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Handle("/", politenesstest.InTurn(politenesstest.Status(503), politenesstest.Text("page"))).
			Handle("/image", politenesstest.Status(200, "Content-Type", "image/png")).Handle("/moved", http.RedirectHandler("/", http.StatusFound))
		sent := &keepsRequests{next: b.web}
		tr := mustNew(b.T, politeness.Config{
			UserAgent: agent, From: "bot@example.com", Base: sent, Retry: politeness.Retry{Max: 1},
			Response: politeness.ResponseLimits{Reject: []string{"image/*"}},
		})
		for _, path := range []string{"/", "/moved"} {
			req := httptest.NewRequest(http.MethodGet, "https://example.com"+path, nil)
			req.Header.Set("User-Agent", agent)
			resp, err := tr.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			if resp.Request != req {
				b.Errorf("%s: the answer's request isn't the caller's", path)
			}
			resp.Body.Close()
		}
		// A request that has all of its headers is sent as another clone.
		req := httptest.NewRequest(http.MethodGet, "https://example.com/", nil)
		req.Header.Set("User-Agent", agent)
		if resp, err := b.t.RoundTrip(req); err != nil || resp.Request != req {
			b.Errorf("without a From: %+v, %v", resp, err)
		} else {
			resp.Body.Close()
		}
		_, err := tr.RoundTrip(httptest.NewRequest(http.MethodGet, "https://example.com/image", nil))
		refused(b.T, err, politeness.StageResponse, politeness.ErrContentType)
		if len(sent.requests) != 5 {
			b.Fatalf("%d requests, want robots.txt, two tries, a redirect and an image", len(sent.requests))
		}
		for _, r := range sent.requests {
			if r.Context().Err() == nil || r.Header.Get("From") != "bot@example.com" {
				b.Errorf("%s from %q: its context ended by %v", r.URL, r.Header.Get("From"), r.Context().Err())
			}
		}
	})
}

// keepsRequests is a base that keeps what it has sent.
type keepsRequests struct {
	next     http.RoundTripper
	requests []*http.Request
}

func (k *keepsRequests) RoundTrip(req *http.Request) (*http.Response, error) {
	k.requests = append(k.requests, req)
	return k.next.RoundTrip(req)
}

func TestBadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	for name, url := range map[string]string{
		"no host":   "https:///path",
		"scheme":    "ftp://example.com/",
		"opaque":    "mailto:a@example.com",
		"no scheme": "//example.com/",
		"4 KB host": "https://" + strings.Repeat("a", 4096) + "/",
		"only port": "http://:80/",
		"only dots": "http://../",
		"no name":   "http://%C2%AD/", // a soft hyphen, by which net/http dials the own machine

		"host one byte too long": "https://" + strings.Repeat("a", 260) + "/",
		"long in all":            "https://example.com/" + strings.Repeat("p", 32<<10) + "?" + strings.Repeat("q", 32<<10),
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, politeness.Config{}, func(b *bubble) {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
				if err != nil {
					b.Fatal(err)
				}
				resp, err := b.t.RoundTrip(req)
				if err == nil {
					resp.Body.Close()
				}
				e := refused(b.T, err, politeness.StageRequest, nil)
				if len(e.Error()) > 300 {
					b.Errorf("error of %d bytes", len(e.Error()))
				}
				if name != "no host" { // Check reads URLs as browsers do: the host is called path
					_, err = b.t.Check(b.Context(), url)
					refused(b.T, err, politeness.StageRequest, nil)
				}
				if n := len(b.web.Requests()); n != 0 {
					b.Errorf("%d requests sent", n)
				}
			})
		})
	}
	virtually(t, politeness.Config{}, func(b *bubble) {
		_, err := b.t.RoundTrip(&http.Request{Method: http.MethodGet, Header: http.Header{}})
		refused(b.T, err, politeness.StageRequest, nil)
	})
}

func TestHostsOfOneNameAreOneKey(t *testing.T) {
	virtually(t, politeness.Config{DangerouslyIgnoreRobots: true}, func(b *bubble) {
		b.site.Page("/", "page")
		b.web.Site("https://xn--mnchen-3ya.example").Page("/", "page")
		keys := map[string]string{
			"https://EXAMPLE.com/":             "example.com",
			"https://example.com:443/":         "example.com",
			"https://example.com:0443/":        "example.com",
			"https://example.com:08443/":       "example.com:8443",
			"https://example.com./":            "example.com",
			"https://münchen.example/":         "xn--mnchen-3ya.example",
			"https://example.com:8443/":        "example.com:8443",
			"http://example.com:443/":          "example.com",
			"https://example.com:80/":          "example.com",
			"https://example.com:0/":           "example.com:0",
			"https://example.com\u3002/":       "example.com",
			"https://example.com\uff61/":       "example.com",
			"http://\uff11\uff12\uff17.0.0.1/": "127.0.0.1",
			"http://[::ffff:127.0.0.1]/":       "127.0.0.1",
			"http://[2001:DB8::1]:80/":         "[2001:db8::1]",
			"http://[2001:db8:0::01]/":         "[2001:db8::1]",
			"http://[2001:db8::1]:8080/x":      "[2001:db8::1]:8080",
		}
		for url, want := range keys {
			b.log.Reset()
			_, _ = b.get(url)
			if got := b.log.Decisions(evidence.Started)[0].Host; got != want {
				b.Errorf("key of %s: %q, want %q", url, got, want)
			}
		}
	})
}

// TestAHostOfItsOwnIsSentInTheOneSpelling, as that of the URL is: the site is one host for both.
func TestAHostOfItsOwnIsSentInTheOneSpelling(t *testing.T) {
	var sent []string
	web := politenesstest.NewWeb()
	web.Site("https://example.com").Page("/", "page")
	base := baseThatSees{web, func(req *http.Request) { sent = append(sent, req.Host) }}
	transport, err := politeness.New(politeness.Config{UserAgent: agent, Base: base, DangerouslyIgnoreRobots: true})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{"": "example.com", "WWW.Example.COM:443": "www.example.com", "münchen.example": "xn--mnchen-3ya.example"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host, sent = host, nil
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if len(sent) != 1 || sent[0] != want && sent[0] != "" {
			t.Errorf("Host %q was sent as %q, want %q", host, sent, want)
		}
	}
}

// baseThatSees calls see with each request.
type baseThatSees struct {
	http.RoundTripper
	see func(*http.Request)
}

func (b baseThatSees) RoundTrip(req *http.Request) (*http.Response, error) {
	b.see(req)
	return b.RoundTripper.RoundTrip(req)
}

// TestTheLongestURLThatIsFetched: what is as long as it may be isn't too long.
func TestTheLongestURLThatIsFetched(t *testing.T) {
	virtually(t, politeness.Config{DangerouslyIgnoreRobots: true}, func(b *bubble) {
		host := "https://" + strings.Repeat("a", 259)
		b.web.Site(host).Page("/", "page")
		b.mustGet(host+"/", 200)
		path := "/" + strings.Repeat("p", 32<<10-1)
		b.site.Page(path, "page")
		b.mustGet("https://example.com"+path+"?"+strings.Repeat("q", 32<<10), 200)
		b.mustGet("HTTPS://example.com"+path, 200)
		for _, d := range b.log.Decisions(evidence.RobotsAllowed) {
			if d.Reason != "robots.txt is ignored by configuration" {
				b.Errorf("%+v", d)
			}
		}
	})
}

// TestPathsOfEveryForm: what net/http would send as it stands either begins with a slash, or is the
// asterisk, which is about the whole site, or isn't sent. With evidence and without, robots.txt is
// asked about the same.
func TestPathsOfEveryForm(t *testing.T) {
	for _, recorded := range []bool{true, false} {
		for _, c := range []struct {
			url     url.URL
			allowed string // path on record; empty: refused by its form
		}{
			{url.URL{}, "/"},
			{url.URL{Path: "/a b"}, "/a%20b"},
			{url.URL{Path: "/a/b", RawPath: "/a%2Fb"}, "/a%2Fb"},
			{url.URL{Path: "*"}, "/*"},
			{url.URL{Opaque: "/a%2Fb", RawQuery: "q"}, "/a%2Fb?q"},
			{url.URL{Path: "/a", RawPath: "%2Fa"}, ""},
			{url.URL{Path: "a"}, ""},
			{url.URL{Opaque: "a"}, ""},
			{url.URL{Opaque: "//other.example/"}, ""},
			{url.URL{Opaque: "*", Path: "*"}, ""},
		} {
			synctest.Test(t, func(t *testing.T) {
				web, log := politenesstest.NewWeb(), &evidence.Recorder{}
				site := web.Site("https://example.com").Robots("User-agent: *\nAllow: /a\n")
				cfg := politeness.Config{UserAgent: agent, Base: web}
				if recorded {
					cfg.Evidence = log
				}
				tr := mustNew(t, cfg)
				ask := func() error {
					req := httptest.NewRequest(http.MethodOptions, "https://example.com/", nil)
					u := c.url
					u.Scheme, u.Host, req.URL = "https", "example.com", &u
					resp, err := tr.RoundTrip(req)
					if err == nil {
						resp.Body.Close()
					}
					return err
				}
				err := ask()
				if c.allowed == "" {
					refused(t, err, politeness.StageRequest, nil)
					return
				}
				if err != nil {
					t.Errorf("%+v: %v", c.url, err)
				}
				if recorded {
					if d := log.Decisions(evidence.RobotsAllowed)[0]; d.URL != "https://example.com"+c.allowed {
						t.Errorf("%+v is on record as %s", c.url, d.URL)
					}
				}
				site.Robots("User-agent: *\nDisallow: " + c.allowed + "\n")
				time.Sleep(2 * time.Hour)
				refused(t, ask(), politeness.StageRobots, politeness.ErrDisallowed)
				site.Robots("User-agent: *\nDisallow: /$\n")
				time.Sleep(2 * time.Hour)
				if err := ask(); (err == nil) != (c.allowed != "/") {
					t.Errorf("%+v, where the home page is disallowed: %v", c.url, err)
				}
			})
		}
	}
}
