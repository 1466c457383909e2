package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/examples/internal/virtual"
)

func TestCrawl(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		s := startSite()
		defer s.Close()
		var out bytes.Buffer
		report, err := crawl(t.Context(), io.MultiWriter(&out, t.Output()), s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if !report.OK() || report.Promise("verdicts right").Proved == 0 {
			t.Error(report)
		}
		for _, line := range []string{
			"/account  302 Found: ", "/login    200 OK: Hello, me.", "/account  200 OK: Hello, me.",
			errOffSite.Error(), "disallowed by robots.txt", "5 pages of the budget",
		} {
			if !strings.Contains(out.String(), line) {
				t.Errorf("no %q in the output", line)
			}
		}
		for target, want := range map[string]int{
			"/account": 3, "/login": 1, "/trap": 1, "/away": 1, "/robots.txt": 1, "/private*": 0,
		} {
			if got := len(s.Visits(target)); got != want {
				t.Errorf("%s was asked for %d times, not %d", target, got, want)
			}
		}
		for i, v := range s.Visits() {
			if got, want := v.Header.Get("Cookie") != "", i > 2; got != want { // after robots.txt, /account and /login
				t.Errorf("request %d, for %s, has the cookie: %v, not %v", i+1, v.Target, got, want)
			}
		}
	})
}

// robots.txt is fetched without the cookies that the jar already has for the site.
func TestRobotsWithoutCookies(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		s := startSite()
		defer s.Close()
		client, err := newClient(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/account", nil)
		if err != nil {
			t.Fatal(err)
		}
		client.Jar.SetCookies(req.URL, []*http.Cookie{{Name: "session", Value: "42"}})
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		for target, want := range map[string]string{"/robots.txt": "", "/account": "session=42"} {
			visits := s.Visits(target)
			if len(visits) != 1 || visits[0].Header.Get("Cookie") != want {
				t.Errorf("%s was asked for by %v", target, visits)
			}
		}
	})
}

// Whatever CheckRedirect decides, the slot comes back: the host has two, and each path
// would keep one.
func TestRedirectsGiveTheirSlotBack(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		s := startSite()
		defer s.Close()
		proof := new(evidence.Recorder)
		client, err := newClient(proof, budget.New(budget.Limits{Pages: 4}))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{
			"/away",    // refused by CheckRedirect
			"/account", // handed over as it is
			"/trap",    // refused by robots.txt
			"/moved",   // followed
		} {
			resp, err := client.Get(s.URL + path)
			if err == nil {
				resp.Body.Close()
			}
		}
		if started, ended := len(proof.Decisions(evidence.Started)), len(proof.Decisions(evidence.Fetched)); started != 6 || ended != 6 {
			t.Errorf("%d exchanges started and %d ended, not 6", started, ended)
		}
	})
}

// What the package's comment warns of.
func TestAnonymousRefusesCookies(t *testing.T) {
	virtual.Run(t, func(t *testing.T) {
		s := startSite()
		defer s.Close()
		s.Handle("GET /counted", func(w http.ResponseWriter, _ *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "visitor", Value: "1"})
		})
		transport, err := politeness.New(politeness.Config{
			UserAgent: "CookieExample/1.0 (+https://example.com/bot; bot@example.com)",
			Refuse:    politeness.Anonymous,
		})
		if err != nil {
			t.Fatal(err)
		}
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: transport, Jar: jar}
		for i := range 2 {
			resp, err := client.Get(s.URL + "/counted")
			if err == nil {
				resp.Body.Close()
			}
			if refused := errors.Is(err, politeness.ErrDisallowed); refused != (i == 1) {
				t.Errorf("request %d: %v", i+1, err)
			}
		}
	})
}
