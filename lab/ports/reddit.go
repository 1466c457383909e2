package ports

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/PuerkitoBio/goquery"

	"github.com/go-politeness/politeness/crawl"
)

type story struct {
	StoryURL, Source, Comments, Title string
	CrawledAt                         time.Time
}

func reddit() {
	var stories []story
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Workers:   1,
		Visit: func(_ context.Context, p *crawl.Page) error {
			doc, err := goquery.NewDocumentFromReader(p.Text())
			for _, top := range doc.Find(".top-matter").EachIter() {
				title := top.Find("a[data-event-action=title]")
				comments := top.Find("a[data-event-action=comments]").AttrOr("href", "")
				stories = append(stories, story{title.AttrOr("href", ""), p.FinalURL, comments, title.Text(), time.Now()})
			}
			if next, ok := doc.Find("span.next-button a").Attr("href"); ok {
				p.Add(next)
			}
			return err
		},
	}, os.Args[1:]...)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stories)
}
