package ports

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"strings"

	"github.com/PuerkitoBio/goquery"

	"github.com/go-politeness/politeness/crawl"
)

type mail struct{ Title, Link, Author, Date, Message string }

func googleGroups() {
	group := flag.String("group", "hspbp", "Google Groups group name")
	flag.Parse()
	threads := make(map[string][]mail)
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Workers:   1,
		Visit: func(_ context.Context, p *crawl.Page) error {
			doc, err := goquery.NewDocumentFromReader(p.Text())
			if strings.Contains(p.URL, "=topic/") {
				subject := doc.Find("h2").Text()
				for _, row := range doc.Find("table tr").EachIter() {
					cells := row.Find("td")
					threads[subject] = append(threads[subject], mail{
						cells.Eq(0).Text(), cells.Eq(0).Find("a").AttrOr("href", ""),
						cells.Eq(1).Text(), cells.Eq(2).Text(), cells.Eq(3).Text(),
					})
				}
			} else {
				for _, row := range doc.Find("tr").EachIter() {
					if link, ok := row.Find("td a").Attr("href"); ok {
						p.Add(strings.Replace(link, ".com/d/topic", ".com/forum/?_escaped_fragment_=topic", 1))
					}
				}
			}
			if next, ok := doc.Find("body > a[href]").Attr("href"); ok {
				p.Add(next)
			}
			return err
		},
	}, "https://groups.google.com/forum/?_escaped_fragment_=forum/"+*group)
	if err != nil {
		log.Fatal(err)
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	if err := enc.Encode(threads); err != nil {
		log.Fatal(err)
	}
}
