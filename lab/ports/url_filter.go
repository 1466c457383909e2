package ports

import (
	"context"
	"fmt"
	"log"
	"regexp"

	"github.com/go-politeness/politeness/crawl"
)

func urlFilter() {
	wanted := regexp.MustCompile(`^http://httpbin\.org/(|e.+|h.+)$`)
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Follow:    func(_ *crawl.Page, l crawl.Link) bool { return wanted.MatchString(l.URL) },
		Visit: func(_ context.Context, p *crawl.Page) error {
			for _, l := range p.Links {
				fmt.Printf("Link found on %s: %s\n", p.FinalURL, l.URL)
			}
			return nil
		},
	}, "http://httpbin.org/")
	if err != nil {
		log.Fatal(err)
	}
}
