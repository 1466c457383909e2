package ports

import (
	"context"
	"fmt"
	"log"

	"github.com/go-politeness/politeness/crawl"
)

// rateLimit sends two requests at once to a host, which is the default.
func rateLimit() {
	url := "https://httpbin.org/delay/2"
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Visit: func(_ context.Context, p *crawl.Page) error {
			fmt.Println(p.URL)
			return nil
		},
	}, url+"?n=0", url+"?n=1", url+"?n=2", url+"?n=3", url+"?n=4")
	if err != nil {
		log.Fatal(err)
	}
}
