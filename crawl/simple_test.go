package crawl_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/politenesstest"
)

// TestRunNeedsOnlyAUserAgent: a Transport with the defaults of package politeness keeps the pace.
func TestRunNeedsOnlyAUserAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://example.com").
			Robots("User-agent: *\nCrawl-delay: 5\n").
			Handle("/", page(`<a href=/next>next</a>`)).
			Handle("/next", page(""))
		was := http.DefaultTransport
		http.DefaultTransport = web
		defer func() { http.DefaultTransport = was }()
		var visited []string
		summary, err := crawl.Run(t.Context(), crawl.Config{
			UserAgent: "TestBot/1.0 (+https://example.com/bot)",
			Follow:    crawl.SameHost,
			Workers:   1,
			Visit: func(_ context.Context, p *crawl.Page) error {
				visited = append(visited, p.FinalURL)
				return nil
			},
		}, "https://example.com/")
		if err != nil || summary.Visited() != 2 || len(visited) != 2 {
			t.Errorf("%v, %v, visited %v", summary, err, visited)
		}
		if agent := web.Requests()[0].Header.Get("User-Agent"); !strings.HasPrefix(agent, "TestBot/1.0") {
			t.Errorf("User-Agent %q", agent)
		}
		web.Check(t, politenesstest.Rules{Concurrency: 2})
	})
}

// TestWhoCrawlsIsSaidOnce: by the Transport, or by UserAgent.
func TestWhoCrawlsIsSaidOnce(t *testing.T) {
	visit := func(context.Context, *crawl.Page) error { return nil }
	transport, err := politeness.New(politeness.Config{UserAgent: "TestBot/1.0 (+https://example.com/bot)"})
	if err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]crawl.Config{
		"Config.Transport is nil": {Visit: visit},
		"leave one out":           {Visit: visit, Transport: transport, UserAgent: "TestBot/1.0 (+https://example.com/bot)"},
		"has no contact":          {Visit: visit, UserAgent: "TestBot"},
	} {
		_, err := crawl.Run(t.Context(), cfg, "https://example.com/")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
