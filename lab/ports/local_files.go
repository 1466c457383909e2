package ports

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/PuerkitoBio/goquery"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
)

func localFiles() {
	transport, err := politeness.New(politeness.Config{UserAgent: agent, Base: http.NewFileTransport(http.Dir("html"))})
	if err != nil {
		log.Fatal(err)
	}
	_, err = crawl.Run(context.Background(), crawl.Config{
		Transport: transport,
		Follow:    crawl.SameHost,
		Workers:   1,
		Visit: func(_ context.Context, p *crawl.Page) error {
			doc, err := goquery.NewDocumentFromReader(p.Text())
			fmt.Println(p.FinalURL, ":", doc.Find("h1").Text())
			return err
		},
	}, "http://files.invalid/")
	if err != nil {
		log.Fatal(err)
	}
}
