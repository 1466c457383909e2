// Cookies logs in to a site, keeps its session in a cookie jar, and decides about redirects with
// CheckRedirect. The jar and CheckRedirect belong to http.Client, and work as they do without
// politeness.
//
//	go run ./examples/cookies
//
// It crawls a small site on loopback, and prints the result of each page and the findings of
// audit.Check on the log.
//
//   - The jar belongs to the http.Client. The Transport fetches robots.txt, always without
//     cookies and without credentials.
//   - http.Client calls CheckRedirect before it sends a hop. Each hop that CheckRedirect allows
//     is then checked against robots.txt and waits for its own host. All hops of a navigation
//     count as one page of the budget.
//   - With http.ErrUseLastResponse you get the 3xx response itself. Its body occupies the host's
//     slot, so close it.
//   - A login is a POST, and is sent once. Config.Retry repeats only requests that are safe to
//     send twice.
//
// Don't use a jar with politeness.Anonymous, or with the preset Conservative, which sets Anonymous.
// Anonymous refuses every request that carries a cookie. After the first Set-Cookie of a site,
// every further request to that site is refused. A crawler of public pages needs no jar.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := startSite()
	defer s.Close()
	report, err := crawl(ctx, os.Stdout, s.URL)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cookies:", err)
		os.Exit(1)
	}
	fmt.Print("\n", report)
}

// errOffSite is why a redirect isn't followed.
var errOffSite = errors.New("leads to another host")

// newClient makes a client with a session that stays on the hosts that it was sent to.
func newClient(proof evidence.Evidence, pages budget.Budget) (*http.Client, error) {
	transport, err := politeness.New(politeness.Config{
		UserAgent: "CookieExample/1.0 (+https://example.com/bot; bot@example.com)",
		Robots:    robotscache.Config{RecordText: true}, // so that the auditor can decide again
		Budget:    pages,
		Evidence:  proof,
	})
	if err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List})
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Transport: transport,
		Jar:       jar,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			switch {
			case strings.HasPrefix(req.URL.Path, "/login"):
				return http.ErrUseLastResponse // let the caller see that the session is over
			case req.URL.Host != via[0].URL.Host:
				return errOffSite
			case len(via) == 10: // as http.Client's own
				return errors.New("stopped after 10 redirects")
			}
			return nil
		},
	}, nil
}

// crawl logs in and gets some pages, and returns what the log of it proves.
func crawl(ctx context.Context, out io.Writer, site string) (*audit.Report, error) {
	var log bytes.Buffer
	proof := evidence.JSONLines(&log)
	pages := budget.New(budget.Limits{Pages: 10})
	client, err := newClient(evidence.Multi(proof, evidence.Console(os.Stderr)), pages)
	if err != nil {
		return nil, err
	}
	for _, step := range []struct {
		path string
		form url.Values // nil: GET
	}{
		{"/account", nil}, // redirects to the login page
		{"/login", url.Values{"user": {"me"}, "password": {"secret"}}}, // sets a cookie, redirects to /account
		{"/account", nil},
		{"/trap", nil}, // redirects to /private/diary, which robots.txt disallows
		{"/away", nil}, // redirects to another host
	} {
		status, body, err := send(ctx, client, site+step.path, step.form)
		if err != nil {
			fmt.Fprintf(out, "%-8s  %v\n", step.path, err)
			continue
		}
		fmt.Fprintf(out, "%-8s  %s: %s\n", step.path, status, body)
	}
	usage, err := pages.Usage(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "\n%d pages of the budget\n", usage.Pages)
	if err := proof.Close(); err != nil {
		return nil, err
	}
	return audit.Check(&log)
}

func send(ctx context.Context, client *http.Client, url string, form url.Values) (status, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if form != nil {
		req, err = http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(form.Encode()))
	}
	if err != nil {
		return "", "", err
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.Status, strings.TrimSpace(string(text)), err
}
