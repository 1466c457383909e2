package retries_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

func TestLoopsStopAtRefusals(t *testing.T) {
	for group, loops := range map[string][]loop{"by themselves": byThemselves, "with a line": withALine} {
		for _, l := range loops {
			t.Run(group+"/"+l.name, func(t *testing.T) { synctest.Test(t, l.stops) })
		}
	}
}

// A counter counts the requests of a path, redirects apart, and of the first hop.
type counter struct {
	http.RoundTripper
	first atomic.Int64
	hops  atomic.Int64
}

func (c *counter) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Response == nil {
		c.first.Add(1)
	} else {
		c.hops.Add(1)
	}
	return c.RoundTripper.RoundTrip(req)
}

func (l loop) stops(t *testing.T) {
	web := politenesstest.NewWeb()
	site := web.Site("https://example.com").Robots("User-agent: *\nDisallow: /private/").Page("/", "hello")
	site.Handle("/old", http.RedirectHandler("/private/new", http.StatusFound))
	transport, err := politeness.New(politeness.Config{
		UserAgent: "LoopTest/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      web,
		Hosts:     hostlimit.Config{MaxWait: 3 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/private/": l.disallowed, "/old": l.redirect} {
		counted := &counter{RoundTripper: transport}
		began := time.Now()
		err := l.get(t.Context(), counted, "https://example.com"+path)
		if err == nil || !strings.Contains(err.Error(), "disallowed by robots.txt") {
			t.Errorf("%s: error %v", path, err)
		}
		if n := int(counted.first.Load()); n != want {
			t.Errorf("%s: %d tries in %v, want %d", path, n, time.Since(began), want)
		}
		if took := time.Since(began); want == 1 && counted.hops.Load() <= 1 && took > 3*time.Second {
			t.Errorf("%s: it took %v", path, took)
		}
	}
	old := 0
	for _, r := range web.Requests() {
		if strings.HasSuffix(r.URL, "/old") {
			old++
		}
		if strings.Contains(r.URL, "/private/") {
			t.Errorf("the site was asked for %s", r.URL)
		}
	}
	if old != 1 {
		t.Errorf("the site was asked for the page before a refused one %d times", old)
	}
	// What isn't refused is the loop's business as ever.
	if err := l.get(t.Context(), transport, "https://example.com/"); err != nil {
		t.Errorf("a page: %v", err)
	}
}
