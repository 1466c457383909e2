package ports

import (
	"context"
	"fmt"
	"log"

	"github.com/go-politeness/politeness/crawl"
)

func errorHandling() {
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Visit: func(_ context.Context, p *crawl.Page) error {
			fmt.Println(p.FinalURL)
			return p.StatusErr()
		},
		Done: func(r crawl.Result) {
			if r.Outcome != crawl.Visited {
				fmt.Println("Request URL:", r.URL, r.Outcome, "\nError:", r.Err)
			}
		},
	}, "https://definitely-not-a.website/")
	if err != nil {
		log.Fatal(err)
	}
}
