package ports

import (
	"context"
	"encoding/csv"
	"errors"
	"log"
	"os"

	"github.com/PuerkitoBio/goquery"

	"github.com/go-politeness/politeness/crawl"
)

func xkcdStore() {
	file, err := os.Create("xkcd_store_items.csv")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	writer := csv.NewWriter(file)
	defer writer.Flush()
	header := []string{"Name", "Price", "URL", "Image URL"}
	if err := writer.Write(header); err != nil {
		log.Fatal(err)
	}
	summary, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Workers:   1,
		Visit: func(_ context.Context, p *crawl.Page) error {
			doc, err := goquery.NewDocumentFromReader(p.Text())
			for _, item := range doc.Find(".product-grid-item").EachIter() {
				link, _ := p.Resolve(item.Find("a").AttrOr("href", ""))
				image, _ := p.Resolve(item.Find("img").AttrOr("src", ""))
				row := []string{item.Find("a").AttrOr("title", ""), item.Find("span").Text(), link, image}
				err = errors.Join(err, writer.Write(row))
			}
			if next, ok := doc.Find(".next a[href]").Attr("href"); ok {
				p.Add(next)
			}
			return err
		},
	}, "https://store.xkcd.com/collections/everything")
	if err != nil {
		log.Fatal(err)
	}
	log.Println(summary)
}
