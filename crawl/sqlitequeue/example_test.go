package sqlitequeue_test

import (
	"context"
	"log"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/sqlitequeue"
)

// A crawl that is started again goes on where it ended, whatever has ended it.
func ExampleOpen() {
	transport, err := politeness.New(politeness.Config{UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)"})
	if err != nil {
		log.Fatal(err)
	}
	urls, err := sqlitequeue.Open("crawl.db")
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
	summary, err := c.Run(context.Background(), "https://example.com/")
	log.Println(summary, err)
}
