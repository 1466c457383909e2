package ports

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/PuerkitoBio/goquery"

	"github.com/go-politeness/politeness/crawl"
)

type quote struct {
	Text, Author string
	Tags         []string
}

type author struct{ Name, Birthdate, Bio string }

func scrapyTutorial() {
	start := "https://quotes.toscrape.com/"
	if len(os.Args) > 1 {
		start += "tag/" + os.Args[1] + "/"
	}
	out := json.NewEncoder(os.Stdout)
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Workers:   1,
		Visit: func(_ context.Context, p *crawl.Page) error {
			doc, err := goquery.NewDocumentFromReader(p.Text())
			if err != nil {
				return err
			}
			for _, q := range doc.Find("div.quote").EachIter() {
				tags := q.Find("a.tag").Map(func(_ int, tag *goquery.Selection) string { return tag.Text() })
				row := quote{q.Find("span.text").Text(), q.Find("small.author").Text(), tags}
				if err := out.Encode(row); err != nil {
					return err
				}
			}
			for _, link := range doc.Find("li.next a, .author + a").EachIter() {
				p.Add(link.AttrOr("href", ""))
			}
			if name := doc.Find("h3.author-title"); name.Length() > 0 {
				born := doc.Find(".author-born-date").Text()
				return out.Encode(author{name.Text(), born, doc.Find(".author-description").Text()})
			}
			return nil
		},
	}, start)
	if err != nil {
		log.Fatal(err)
	}
}
