package ports

import (
	"context"
	"fmt"
	"log"

	"github.com/go-politeness/politeness/crawl"
)

func requestContext() {
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Take: func(p *crawl.Page, _ crawl.Link, r *crawl.Request) bool {
			r.Data = p.FinalURL
			return true
		},
		Follow: crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			fmt.Println(p.FinalURL, "from", p.Data)
			return nil
		},
	}, "https://en.wikipedia.org/")
	if err != nil {
		log.Fatal(err)
	}
}
