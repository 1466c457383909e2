package ports

import (
	"context"
	"log"
	"net/http"
	"net/url"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
)

// proxySwitcher has one proxy for each host, so that a host sees one crawler.
func proxySwitcher() {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.Proxy = func(req *http.Request) (*url.URL, error) {
		return url.Parse([]string{"http://127.0.0.1:1337", "http://127.0.0.1:1338"}[len(req.URL.Host)%2])
	}
	transport, err := politeness.New(politeness.Config{UserAgent: agent, Base: base})
	if err != nil {
		log.Fatal(err)
	}
	_, err = crawl.Run(context.Background(), crawl.Config{
		Transport: transport,
		Visit: func(_ context.Context, p *crawl.Page) error {
			log.Printf("%s\n", p.Body)
			return nil
		},
	}, "http://httpbin.org/ip", "http://httpbingo.org/ip")
	if err != nil {
		log.Fatal(err)
	}
}
