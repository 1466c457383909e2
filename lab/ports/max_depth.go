package ports

import (
	"context"
	"fmt"
	"log"

	"github.com/go-politeness/politeness/crawl"
)

func maxDepth() {
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		MaxDepth:  1,
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
