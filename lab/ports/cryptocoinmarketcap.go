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

func cryptocoinmarketcap() {
	file, err := os.Create("cryptocoinmarketcap.csv")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	writer := csv.NewWriter(file)
	defer writer.Flush()
	header := []string{
		"Name", "Symbol", "Market Cap (USD)", "Price (USD)",
		"Circulating Supply (USD)", "Volume (24h)", "Change (1h)", "Change (24h)", "Change (7d)",
	}
	if err := writer.Write(header); err != nil {
		log.Fatal(err)
	}
	columns := []string{
		".cmc-table__column-name", ".cmc-table__cell--sort-by__symbol", ".cmc-table__cell--sort-by__market-cap",
		".cmc-table__cell--sort-by__price", ".cmc-table__cell--sort-by__circulating-supply",
		".cmc-table__cell--sort-by__volume-24-h",
		".cmc-table__cell--sort-by__percent-change-1-h",
		".cmc-table__cell--sort-by__percent-change-24-h", ".cmc-table__cell--sort-by__percent-change-7-d",
	}
	_, err = crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Visit: func(_ context.Context, p *crawl.Page) error {
			doc, err := goquery.NewDocumentFromReader(p.Text())
			for _, row := range doc.Find("tbody tr").EachIter() {
				var cells []string
				for _, column := range columns {
					cells = append(cells, row.Find(column).Text())
				}
				err = errors.Join(err, writer.Write(cells))
			}
			return err
		},
	}, "https://coinmarketcap.com/all/views/all/")
	if err != nil {
		log.Fatal(err)
	}
}
