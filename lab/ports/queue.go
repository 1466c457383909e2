package ports

import (
	"context"
	"fmt"
	"log"

	"github.com/go-politeness/politeness/crawl"
)

func queue() {
	const url = "https://httpbin.org/delay/1"
	var urls []string
	for i := range 5 {
		urls = append(urls, fmt.Sprintf("%s?n=%d", url, i))
	}
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Visit: func(_ context.Context, p *crawl.Page) error {
			fmt.Println("visited", p.URL)
			if p.Depth < 2 {
				p.Add(p.URL + "&x=1")
			}
			return nil
		},
	}, urls...)
	if err != nil {
		log.Fatal(err)
	}
}
