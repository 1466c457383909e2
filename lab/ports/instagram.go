package ports

import (
	"context"
	"crypto/md5"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/PuerkitoBio/goquery"

	"github.com/go-politeness/politeness/crawl"
)

const (
	nextPageURL     = `https://www.instagram.com/graphql/query/?query_hash=%s&variables=%s`
	nextPagePayload = `{"id":"%s","first":50,"after":"%s"}`
)

var queryID = regexp.MustCompile(`queryId:"(.{32})"`)

type media struct {
	PageInfo struct {
		EndCursor string `json:"end_cursor"`
		NextPage  bool   `json:"has_next_page"`
	} `json:"page_info"`
	Edges []struct {
		Node struct {
			ImageURL string `json:"display_url"`
			IsVideo  bool   `json:"is_video"`
		} `json:"node"`
	} `json:"edges"`
}

type user struct {
	ID    string `json:"id"`
	Media media  `json:"edge_owner_to_timeline_media"`
}

type profile struct {
	Rhxgis    string `json:"rhx_gis"`
	EntryData struct {
		ProfilePage []struct{ Graphql struct{ User user } }
	} `json:"entry_data"`
}

type account struct {
	name, dir string
	user      user
	gis       string // of the profile
	query     string // id of the query for further pages
}

func instagram() {
	if len(os.Args) != 2 {
		log.Fatal("Missing account name argument")
	}
	a := account{name: os.Args[1], dir: "instagram_" + os.Args[1]}
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		log.Fatal(err)
	}
	summary, err := crawl.Run(context.Background(), crawl.Config{
		UserAgent: agent,
		Workers:   1,
		Prepare:   a.prepare,
		Visit:     a.visit,
	}, "https://instagram.com/"+a.name)
	if err != nil {
		log.Fatal(err)
	}
	log.Println(summary)
}

func (a *account) prepare(r crawl.Request, req *http.Request) error {
	req.Header.Set("X-Requested-With", "XMLHttpRequest")
	req.Header.Set("Referer", "https://www.instagram.com/"+a.name)
	if r.Data != "" {
		req.Header.Set("X-Instagram-GIS", fmt.Sprintf("%x", md5.Sum([]byte(a.gis+":"+r.Data))))
	}
	return nil
}

func (a *account) visit(_ context.Context, p *crawl.Page) error {
	switch kind := p.Response.Header.Get("Content-Type"); {
	case strings.Contains(kind, "image"):
		return os.WriteFile(path.Join(a.dir, path.Base(p.Response.Request.URL.Path)), p.Body, 0o644)
	case strings.Contains(kind, "javascript"):
		ids := queryID.FindAllSubmatch(p.Body, -1)
		a.query = string(ids[1][1])
		a.add(p, a.user.Media)
	case strings.Contains(kind, "json"):
		var next struct{ Data struct{ User user } }
		if err := json.Unmarshal(p.Body, &next); err != nil {
			return err
		}
		a.add(p, next.Data.User.Media)
	default:
		return a.visitProfile(p)
	}
	return nil
}

func (a *account) visitProfile(p *crawl.Page) error {
	doc, err := goquery.NewDocumentFromReader(p.Text())
	if err != nil {
		return err
	}
	_, data, _ := strings.Cut(doc.Find("body > script").First().Text(), "=")
	var found profile
	if err := json.Unmarshal([]byte(strings.TrimSuffix(strings.TrimSpace(data), ";")), &found); err != nil {
		return err
	}
	a.user = found.EntryData.ProfilePage[0].Graphql.User
	a.gis = found.Rhxgis
	p.Add(doc.Find(`link[as="script"]`).AttrOr("href", ""))
	return nil
}

// add adds the images of a page, and the page behind it.
func (a *account) add(p *crawl.Page, m media) {
	for _, edge := range m.Edges {
		if !edge.Node.IsVideo {
			p.Add(edge.Node.ImageURL)
		}
	}
	if m.PageInfo.NextPage {
		variables := fmt.Sprintf(nextPagePayload, a.user.ID, m.PageInfo.EndCursor)
		p.AddRequest(crawl.Request{URL: fmt.Sprintf(nextPageURL, a.query, url.QueryEscape(variables)), Data: variables})
	}
}
