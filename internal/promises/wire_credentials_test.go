package promises_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-politeness/politeness"
)

// An authorizingBase adds a header to each request, as an oauth2.Transport does.
type authorizingBase struct {
	http.RoundTripper
	name string
}

func (a authorizingBase) RoundTrip(req *http.Request) (*http.Response, error) {
	clone := req.Clone(req.Context())
	clone.Header.Set(a.name, "Bearer secret")
	return a.RoundTripper.RoundTrip(clone)
}

func TestCredentialsOfBaseNeverReachRobotsTxt(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for name, c := range map[string]struct {
			header     string
			robotsBase bool
			want       error // of the page
		}{
			"oauth2":                 {"Authorization", false, politeness.ErrUnreachable},
			"a key of an API":        {"X-Api-Key", false, politeness.ErrUnreachable},
			"a session":              {"Cookie", false, politeness.ErrUnreachable},
			"of another spelling":    {"x-auth-TOKEN", false, politeness.ErrUnreachable},
			"a trace":                {"Traceparent", false, nil},
			"oauth2 with RobotsBase": {"Authorization", true, nil},
		} {
			if secure {
				name += " over HTTP/2"
			}
			t.Run(name, func(t *testing.T) {
				var mu sync.Mutex
				seen := map[string][]string{} // values of the header by path
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					seen[r.URL.Path] = append(seen[r.URL.Path], r.Header.Get(c.header))
					_, _ = io.WriteString(w, "User-agent: *\nDisallow:\n")
				}))
				server.EnableHTTP2 = secure
				if secure {
					server.StartTLS()
				} else {
					server.Start()
				}
				defer server.Close()
				plain := server.Client().Transport
				cfg := politeness.Config{UserAgent: agent, Hosts: undelayed(), Base: authorizingBase{plain, c.header}}
				if c.robotsBase {
					cfg.RobotsBase = plain
				}
				for range 2 {
					status, err := fetch(t.Context(), &http.Client{Transport: mustNew(t, cfg)}, server.URL+"/page")
					if !errors.Is(err, c.want) || err == nil && status != http.StatusOK {
						t.Errorf("status %d, error %v, want %v", status, err, c.want)
					}
					if err != nil && (!strings.Contains(err.Error(), "Config.RobotsBase") || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.header))) {
						t.Errorf("the error doesn't help: %v", err)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for _, value := range seen["/robots.txt"] {
					if value != "" && c.header != "Traceparent" {
						t.Errorf("robots.txt was asked for with %s: %s", c.header, value)
					}
				}
				if c.want == nil && (len(seen["/page"]) != 2 || seen["/page"][0] == "") {
					t.Errorf("the page was asked for with %q", seen["/page"])
				}
			})
		}
	}
}
