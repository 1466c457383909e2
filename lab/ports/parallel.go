package ports

import (
	"context"
	"fmt"
	"log"

	"github.com/go-politeness/politeness/crawl"
)

// parallel sends two requests at once to a host, which is the default.
func parallel() {
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		MaxDepth:  2,
		Follow:    crawl.Everywhere,
		Visit: func(_ context.Context, p *crawl.Page) error {
			for _, l := range p.Links {
				fmt.Println(l.URL)
			}
			return nil
		},
	}, "https://en.wikipedia.org/")
	if err != nil {
		log.Fatal(err)
	}
}
