package promises_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
)

// throughKey is the key under which a context has the proxy of its request.
type throughKey struct{}

// proxied returns a Transport that takes the proxy of the context, and what the proxy was asked for.
func proxied(t *testing.T) (transport *politeness.Transport, proxy *url.URL, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var urls []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		urls = append(urls, r.URL.String())
		fmt.Fprint(w, "User-agent: *\nAllow: /\n")
	}))
	t.Cleanup(server.Close)
	proxy, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{Proxy: func(req *http.Request) (*url.URL, error) {
		chosen, ok := req.Context().Value(throughKey{}).(*url.URL)
		if !ok {
			return nil, fmt.Errorf("%s: no proxy in the context", req.URL)
		}
		return chosen, nil
	}}
	t.Cleanup(base.CloseIdleConnections)
	transport, err = politeness.New(politeness.Config{
		UserAgent: "ProxyTest/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      base,
	})
	if err != nil {
		t.Fatal(err)
	}
	return transport, proxy, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(urls)
	}
}

// TestRobotsGoesByTheProxyOfItsContext: robots.txt is fetched with the values of the context of whoever
// asks first, so a proxy that is chosen by them is that of robots.txt too.
func TestRobotsGoesByTheProxyOfItsContext(t *testing.T) {
	transport, proxy, asked := proxied(t)
	ctx := context.WithValue(t.Context(), throughKey{}, proxy)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://site.example/page", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if want := []string{"http://site.example/robots.txt", "http://site.example/page"}; !slices.Equal(asked(), want) {
		t.Errorf("the proxy was asked for %q, not %q", asked(), want)
	}
}

// TestRobotsOfACrawlGoesByTheProxyOfRun: package crawl asks for robots.txt ahead, with the context of Run.
func TestRobotsOfACrawlGoesByTheProxyOfRun(t *testing.T) {
	transport, proxy, asked := proxied(t)
	c, err := crawl.New(crawl.Config{
		Transport: transport,
		Visit:     func(context.Context, *crawl.Page) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithValue(t.Context(), throughKey{}, proxy)
	summary, err := c.Run(ctx, "http://site.example/page")
	if err != nil || summary.Outcomes[crawl.Visited] != 1 {
		t.Error(summary, err)
	}
	if want := []string{"http://site.example/robots.txt", "http://site.example/page"}; !slices.Equal(asked(), want) {
		t.Errorf("the proxy was asked for %q, not %q", asked(), want)
	}
}
