package ports

import (
	"context"
	"encoding/json"
	"log"
	"net/http"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
)

type pageInfo struct {
	StatusCode int
	Links      []crawl.Link
}

type scraper struct{ transport *politeness.Transport }

func (s scraper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var info pageInfo
	_, err := crawl.Run(r.Context(), crawl.Config{
		Transport: s.transport,
		Visit: func(_ context.Context, p *crawl.Page) error {
			info = pageInfo{p.Response.StatusCode, p.Links}
			return nil
		},
	}, r.FormValue("url"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(info); err != nil {
		log.Println(err)
	}
}

func scraperServer() {
	transport, err := politeness.New(politeness.Config{UserAgent: agent})
	if err != nil {
		log.Fatal(err)
	}
	log.Println("listening on :7171")
	log.Fatal(http.ListenAndServe(":7171", scraper{transport}))
}
