package ports

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/PuerkitoBio/goquery"

	"github.com/go-politeness/politeness/crawl"
)

type comment struct {
	Author, URL, Comment string
	Replies              []*comment
}

func hackernewsComments() {
	id := flag.String("id", "", "hackernews post id")
	flag.Parse()
	if *id == "" {
		log.Fatal("Hackernews post id required")
	}
	root := &comment{}
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Visit: func(_ context.Context, p *crawl.Page) error {
			doc, err := goquery.NewDocumentFromReader(p.Text())
			for _, row := range doc.Find(".comment-tree tr.athing").EachIter() {
				width, err := strconv.Atoi(row.Find("td.ind img").AttrOr("width", ""))
				if err != nil {
					continue
				}
				parent := root
				for range width / 40 {
					parent = parent.Replies[len(parent.Replies)-1]
				}
				url, _ := p.Resolve(row.Find(".age a").AttrOr("href", ""))
				text := strings.TrimSuffix(strings.TrimSpace(row.Find(".comment").Text()), "reply")
				reply := comment{row.Find("a.hnuser").Text(), url, strings.TrimSpace(text), nil}
				parent.Replies = append(parent.Replies, &reply)
			}
			return err
		},
	}, "https://news.ycombinator.com/item?id="+*id)
	if err != nil {
		log.Fatal(err)
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root.Replies); err != nil {
		log.Fatal(err)
	}
}
