// Selectors extracts data from pages with goquery, in the Visit of package crawl. It prints a line
// of JSON for each book of a shop, over all pages of its list.
//
//	go run -C examples/integrations/selectors .          # a small shop on loopback
//	go run -C examples/integrations/selectors . URL...   # a shop with the same markup, such as https://books.toscrape.com/
//
// A page's body is in memory, so goquery reads it without a further request. If a page lacks an
// element that it should have, Visit returns an error. The crawl continues, and the summary has the
// first of these errors.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"

	"github.com/PuerkitoBio/goquery"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/hostlimit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	urls := os.Args[1:]
	if len(urls) == 0 {
		shop := startShop()
		defer shop.Close()
		urls = []string{shop.URL + "/"}
	}
	if err := run(ctx, os.Stdout, os.Stderr, hostlimit.Delay{}, urls); err != nil {
		fmt.Fprintln(os.Stderr, "selectors:", err)
		os.Exit(1)
	}
}

// A book has the data that the program takes out of a page.
type book struct {
	URL     string  `json:"url"`
	Title   string  `json:"title"`
	Price   float64 `json:"price"`
	InStock bool    `json:"inStock"`
}

// run writes the books of the shops to out.
func run(ctx context.Context, out, messages io.Writer, delay hostlimit.Delay, urls []string) error {
	transport, err := politeness.New(politeness.Config{
		UserAgent: "SelectorsExample/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      reach.Base(urls),
		Hosts:     hostlimit.Config{Delay: delay},
		Evidence:  evidence.Console(messages),
	})
	if err != nil {
		return err
	}
	var mu sync.Mutex // Visit runs in several goroutines
	enc := json.NewEncoder(out)
	crawler, err := crawl.New(crawl.Config{
		Transport: transport,
		// The links worth following are chosen by a selector below, not by their URLs here.
		Visit: func(_ context.Context, p *crawl.Page) error {
			if err := p.StatusErr(); err != nil {
				return err
			}
			doc, err := goquery.NewDocumentFromReader(p.Text())
			if err != nil {
				return err
			}
			doc.Find("article.product_pod h3 a, ul.pager a").Each(func(_ int, a *goquery.Selection) {
				if href, ok := a.Attr("href"); ok {
					p.Add(href) // as a browser resolves it
				}
			})
			product := doc.Find("article.product_page").First()
			if product.Length() == 0 {
				return nil // a page of the list
			}
			b, err := read(product)
			if err != nil {
				return fmt.Errorf("%s: %w", p.FinalURL, err)
			}
			b.URL = p.FinalURL
			mu.Lock()
			defer mu.Unlock()
			return enc.Encode(b)
		},
	})
	if err != nil {
		return err
	}
	summary, err := crawler.Run(ctx, urls...)
	fmt.Fprintln(messages, summary)
	return err
}

// read takes a book out of the element of a page that has it.
func read(product *goquery.Selection) (book, error) {
	b := book{Title: strings.TrimSpace(product.Find("h1").First().Text())}
	if b.Title == "" {
		return b, errors.New("no title")
	}
	text := strings.TrimLeft(strings.TrimSpace(product.Find(".price_color").First().Text()), "£$€")
	price, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return b, fmt.Errorf("price: %w", err)
	}
	b.Price = price
	b.InStock = strings.Contains(product.Find(".availability").First().Text(), "In stock")
	return b, nil
}
