package pgqueue_test

import (
	"context"
	"log"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/pgqueue"
)

// The same program runs on each machine. A real one shares a limiter, too: see
// examples/integrations/fleet.
func ExampleOpen() {
	ctx := context.Background()
	transport, err := politeness.New(politeness.Config{UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)"})
	if err != nil {
		log.Fatal(err)
	}
	urls, err := pgqueue.Open(ctx, "postgres://crawler@db.internal/crawls", "news-2026")
	if err != nil {
		log.Fatal(err)
	}
	defer urls.Close()
	c, err := crawl.New(crawl.Config{
		Transport: transport,
		Queue:     urls,
		Follow:    crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			log.Println(p.Response.StatusCode, p.FinalURL)
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	summary, err := c.Run(ctx, "https://example.com/")
	log.Println(summary, err)
}
