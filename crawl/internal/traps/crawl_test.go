package traps_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/crawl/internal/traps"
	"github.com/go-politeness/politeness/hostlimit"
)

// A visit is a crawl of a site.
type visit struct {
	site     *traps.Site
	most     int // requests
	end      context.CancelFunc
	requests int
	all      int // requests when all pages were had; 0: they weren't
	had      map[string]bool
	asked    map[string]bool
	repeats  bool     // a URL was asked for once more
	urls     []string // until then, in their order
}

func (v *visit) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{
		StatusCode: http.StatusOK, Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}},
	}
	if req.URL.Path == "/robots.txt" {
		resp.StatusCode = http.StatusNotFound
		resp.Body = http.NoBody
		return resp, nil
	}
	// Where answers are alike in a row, a crawl asks again for pages that it knows. These don't count:
	// they are for another rule.
	isRepeated := v.asked[req.URL.RequestURI()]
	v.asked[req.URL.RequestURI()] = true
	v.repeats = v.repeats || isRepeated
	if !isRepeated {
		v.requests++
	}
	if !v.repeats {
		v.urls = append(v.urls, req.URL.RequestURI())
	}
	p := v.site.Get(req.URL.EscapedPath(), req.URL.RawQuery)
	if v.site.Real[p.ID] {
		v.had[p.ID] = true
	}
	if v.all == 0 && len(v.had) == len(v.site.Real) {
		v.all = v.requests
	}
	if v.all > 0 || v.requests >= v.most {
		v.end()
	}
	resp.Body = io.NopCloser(strings.NewReader(text(p)))
	return resp, nil
}

// text writes a page in HTML.
func text(p traps.SitePage) string {
	var b strings.Builder
	b.WriteString("<!doctype html>")
	if p.NoIndex {
		b.WriteString(`<meta name=robots content=noindex>`)
	}
	for _, line := range p.Lines {
		fmt.Fprintf(&b, "<p>%s\n", html.EscapeString(line))
	}
	for _, link := range p.Links {
		fmt.Fprintf(&b, `<a href="%s"></a>`, html.EscapeString(link))
	}
	return b.String()
}

// crawled crawls a site until all pages were had, or it has taken most requests a page. It returns
// the requests a page.
func crawled(t *testing.T, s *traps.Site, how crawl.Traps, most float64) float64 {
	v := crawlOf(t, s, how, most)
	if v.all == 0 {
		return most + 1
	}
	return float64(v.all) / float64(len(s.Real))
}

func crawlOf(t *testing.T, s *traps.Site, how crawl.Traps, most float64) *visit {
	v := &visit{site: s, most: int(most*float64(len(s.Real))) + 1, had: map[string]bool{}, asked: map[string]bool{}}
	synctest.Test(t, func(t *testing.T) {
		transport, err := politeness.New(politeness.Config{
			UserAgent: "TestBot/1.0 (+https://example.com/bot)", Base: v,
			Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second}, Concurrency: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		v.end = cancel
		_, err = crawl.Run(ctx, crawl.Config{
			Transport: transport, Follow: crawl.SameHost, Traps: how,
			Visit: func(context.Context, *crawl.Page) error { return nil },
		}, "http://site.example"+s.Start)
		if err != nil {
			t.Fatal(err)
		}
	})
	return v
}

// TestTrapsIgnored: without the rule URLs are asked for in the order in which they were found, request
// by request.
func TestTrapsIgnored(t *testing.T) {
	others := traps.Sites() // of those that count sessions
	for i, s := range traps.Sites() {
		const most = 2
		v := crawlOf(t, s, crawl.TrapsIgnored, most)
		want := others[i].InOrder(len(v.urls))
		for i, url := range v.urls {
			if url != want[i] {
				t.Errorf("%s: request %d is for %s, want %s", s.Name, i, url, want[i])
				break
			}
		}
	}
}

// TestSitesThroughACrawl: a crawl needs as many requests as the rule by itself, within a tenth.
func TestSitesThroughACrawl(t *testing.T) {
	for _, s := range traps.Sites() {
		t.Run(s.Name, func(t *testing.T) {
			const most = 8
			rule := s.Needed(most)
			got := crawled(t, s, crawl.TrapsLast, 1.3*rule)
			t.Logf("%d pages: %.2f requests a page, %.2f by the rule alone, %.2f in the simulation", len(s.Real), got, rule, s.Simulated)
			more := 1.1
			if s.Name == "numbers, calendar" || s.Name == "redmine" {
				more = 1.15 // pages that are alike wait until the crawl knows that they are no wall
			}
			if got > more*rule {
				t.Errorf("%.2f requests a page, and %.2f by the rule alone", got, rule)
			}
		})
	}
}
