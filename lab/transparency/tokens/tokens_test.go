package tokens_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"golang.org/x/oauth2"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
)

const agent = "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)"

// A site notes the Authorization of each request, by its path.
type site struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{seen: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen[r.URL.Path] = r.Header.Get("Authorization")
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestATokenNeverReachesRobotsTxt(t *testing.T) {
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "secret"})
	below := func(base http.RoundTripper) http.RoundTripper { return &oauth2.Transport{Source: source, Base: base} }
	for name, c := range map[string]struct {
		client func(t *testing.T, base http.RoundTripper) *http.Client
		want   error // of a page
	}{
		"outside": {func(t *testing.T, base http.RoundTripper) *http.Client {
			polite := newTransport(t, politeness.Config{Base: base})
			ctx := context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: polite})
			return oauth2.NewClient(ctx, source)
		}, nil},
		"below": {func(t *testing.T, base http.RoundTripper) *http.Client {
			return &http.Client{Transport: newTransport(t, politeness.Config{Base: below(base)})}
		}, politeness.ErrUnreachable},
		"below, with RobotsBase": {func(t *testing.T, base http.RoundTripper) *http.Client {
			return &http.Client{Transport: newTransport(t, politeness.Config{Base: below(base), RobotsBase: base})}
		}, nil},
		"over": {func(t *testing.T, base http.RoundTripper) *http.Client {
			return &http.Client{Transport: newTransport(t, politeness.Config{Base: base}).Over(below(base))}
		}, politeness.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			client := c.client(t, s.Client().Transport)
			err := get(t.Context(), client, s.URL+"/page")
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), "Config.RobotsBase") {
				t.Errorf("the error doesn't say what helps: %v", err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if token := s.seen["/robots.txt"]; token != "" {
				t.Errorf("robots.txt was asked for with %s", token)
			}
			if token := s.seen["/page"]; err == nil && token != "Bearer secret" {
				t.Errorf("the page was asked for with %q", token)
			}
		})
	}
}

func newTransport(t *testing.T, cfg politeness.Config) *politeness.Transport {
	t.Helper()
	cfg.UserAgent = agent
	cfg.Hosts = hostlimit.Config{Delay: hostlimit.Delay{DangerouslyNone: true}}
	polite, err := politeness.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return polite
}

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
