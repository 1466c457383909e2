package statuspage_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/statuspage"
)

// What the crawl is doing right now: a page for people, JSON and metrics for programs.
func Example() {
	web := politenesstest.NewWeb()
	web.Site("https://example.org").Page("/", "hello")
	t, err := politeness.New(politeness.Config{
		UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      web,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/politeness", statuspage.Handler(t)) // on a port that only you can reach

	resp, err := (&http.Client{Transport: t}).Get("https://example.org/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close() // until then it holds a slot

	server := httptest.NewServer(mux)
	defer server.Close()
	metrics, err := http.Get(server.URL + "/debug/politeness?format=prometheus")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer metrics.Body.Close()
	text, err := io.ReadAll(metrics.Body)
	if err != nil {
		fmt.Println(err)
		return
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "politeness_starts_total") || strings.HasPrefix(line, "politeness_hosts{") {
			fmt.Print(line)
		}
	}
	// Output:
	// politeness_starts_total 2
	// politeness_hosts{state="in flight"} 1
}
