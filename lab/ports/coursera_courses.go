package ports

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"regexp"
	"strings"

	"github.com/PuerkitoBio/goquery"

	"github.com/go-politeness/politeness/crawl"
)

type course struct {
	Title, Description, Creator, Level, URL, Language, Commitment, Rating string
}

func courseraCourses() {
	courses := []course{}
	wanted := regexp.MustCompile(`^https://(www\.)?coursera\.org/(browse|learn)`)
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Workers:   1,
		Follow: func(_ *crawl.Page, l crawl.Link) bool {
			return wanted.MatchString(l.URL) &&
				!strings.Contains(l.URL, "=signup") && !strings.Contains(l.URL, "=login")
		},
		Visit: func(_ context.Context, p *crawl.Page) error {
			doc, err := goquery.NewDocumentFromReader(p.Text())
			if err != nil || !strings.Contains(p.FinalURL, "coursera.org/learn") {
				return err
			}
			c := course{
				Title:       doc.Find(".banner-title").Text(),
				URL:         p.FinalURL,
				Description: doc.Find("div.content").Text(),
				Creator:     doc.Find("li.banner-instructor-info > a > div > div > span").Text(),
				Rating:      doc.Find("span.number-rating").Text(),
			}
			for _, div := range doc.Find(".AboutCourse .ProductGlance > div").EachIter() {
				words := strings.Split(div.Find("div:nth-child(1) svg title").Text(), " ")
				value := div.Find("div:nth-child(2) > div:nth-child(1)").Text()
				switch last := words[len(words)-1]; last {
				case "languages":
					c.Language = value
				case "Level":
					c.Level = value
				case "complete":
					c.Commitment = value
				}
			}
			courses = append(courses, c)
			return nil
		},
	}, "https://coursera.org/browse")
	if err != nil {
		log.Fatal(err)
	}
	file, err := os.Create("courses.json")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	enc := json.NewEncoder(file)
	enc.SetIndent("", "  ")
	if err := enc.Encode(courses); err != nil {
		log.Fatal(err)
	}
}
