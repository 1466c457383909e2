package ports

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/PuerkitoBio/goquery"

	"github.com/go-politeness/politeness/crawl"
)

type openCourse struct {
	CourseID, Run, Name, Number string
	StartDate, EndDate          time.Time
	URL                         string
}

func openedxCourses() {
	courses := []openCourse{}
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Workers:   1,
		Follow: func(_ *crawl.Page, l crawl.Link) bool {
			return strings.HasPrefix(l.URL, "https://www.indonesiax.co.id/courses/")
		},
		Visit: func(_ context.Context, p *crawl.Page) error {
			doc, err := goquery.NewDocumentFromReader(p.Text())
			if err != nil || doc.Find("section#course-info").Length() == 0 {
				return err
			}
			id := doc.Find("input[name=course_id]").AttrOr("value", "")
			dates := doc.Find("span[data-datetime]")
			start, _ := time.Parse("02 Jan, 2006", dates.Eq(0).Text())
			end, _ := time.Parse("02 Jan, 2006", dates.Eq(1).Text())
			_, run, _ := strings.Cut(id, "_")
			title, _, _ := strings.Cut(doc.Find(".course-info__title").Text(), "\n")
			number := doc.Find("span.course-number").Text()
			about := fmt.Sprintf("/courses/%s/about", id)
			courses = append(courses, openCourse{id, run, title, number, start, end, about})
			return nil
		},
	}, "https://www.indonesiax.co.id/courses")
	if err != nil {
		log.Fatal(err)
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	if err := enc.Encode(courses); err != nil {
		log.Fatal(err)
	}
}
