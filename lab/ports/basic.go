package ports

import (
	"context"
	"fmt"
	"log"

	"github.com/go-politeness/politeness/crawl"
)

func basic() {
	summary, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Follow:    crawl.Hosts("hackerspaces.org", "wiki.hackerspaces.org"),
		Visit: func(_ context.Context, p *crawl.Page) error {
			for _, l := range p.Links {
				fmt.Printf("Link found on %s: %s\n", p.FinalURL, l.URL)
			}
			return nil
		},
	}, "https://hackerspaces.org/")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(summary)
}
