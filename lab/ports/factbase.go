package ports

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/PuerkitoBio/goquery"

	"github.com/go-politeness/politeness/crawl"
)

const searchURL = "https://factba.se/json/json-transcript.php?q=&f=&dt=&p="

type transcript struct{ Speaker, Text string }

func factbase() {
	_, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Visit: func(_ context.Context, p *crawl.Page) error {
			if after, ok := strings.CutPrefix(p.URL, searchURL); ok {
				return addTranscripts(p, after)
			}
			doc, err := goquery.NewDocumentFromReader(p.Text())
			if err != nil {
				return err
			}
			t := []transcript{}
			for _, row := range doc.Find(".topic-media-row").EachIter() {
				t = append(t, transcript{row.Find(".speaker-label").Text(), row.Find(".transcript-text-block").Text()})
			}
			data, err := json.MarshalIndent(t, "", "  ")
			if err != nil {
				return err
			}
			return os.WriteFile(p.Data+".json", data, 0o644)
		},
	}, searchURL+"1")
	if err != nil {
		log.Fatal(err)
	}
}

func addTranscripts(p *crawl.Page, number string) error {
	var found struct{ Data []struct{ Slug, Date string } }
	if err := json.Unmarshal(p.Body, &found); err != nil || len(found.Data) == 0 {
		return err
	}
	for _, t := range found.Data {
		p.AddRequest(crawl.Request{URL: "https://factba.se/transcript/" + t.Slug, Data: t.Date + "_" + t.Slug})
	}
	n, err := strconv.Atoi(number)
	p.Add(fmt.Sprint(searchURL, n+1))
	return err
}
