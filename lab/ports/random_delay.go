package ports

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/hostlimit"
)

func randomDelay() {
	transport, err := politeness.New(politeness.Config{
		UserAgent: agent,
		Hosts:     hostlimit.Config{Delay: hostlimit.Delay{Min: time.Millisecond, Max: 5 * time.Second}},
	})
	if err != nil {
		log.Fatal(err)
	}
	url := "https://httpbin.org/delay/2"
	_, err = crawl.Run(context.Background(), crawl.Config{
		Transport: transport,
		Visit: func(_ context.Context, p *crawl.Page) error {
			fmt.Println(p.URL)
			return nil
		},
	}, url, url+"?n=0", url+"?n=1", url+"?n=2", url+"?n=3")
	if err != nil {
		log.Fatal(err)
	}
}
