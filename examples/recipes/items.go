package recipes

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
)

// An Item is what is wanted of a page.
type Item struct {
	URL   string `json:"url"`
	Title string `json:"title"`
	Bytes int    `json:"bytes"`
}

var title = regexp.MustCompile(`<title>(.*?)</title>`) // a parser such as goquery finds more

func itemOf(p *crawl.Page) Item {
	item := Item{URL: p.FinalURL, Bytes: len(p.Body)}
	if found := title.FindSubmatch(p.Body); found != nil {
		item.Title = string(found[1])
	}
	return item
}

// JSONLines writes a line of JSON for each page. One worker calls Visit for one page after the
// other, so the encoder needs no lock. Requests are made beside each other all the same.
func JSONLines(ctx context.Context, t *politeness.Transport, out io.Writer, urls ...string) error {
	lines := json.NewEncoder(out)
	_, err := run(ctx, crawl.Config{
		Transport: t,
		Workers:   1,
		Follow:    crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			if err := p.StatusErr(); err != nil {
				return err
			}
			return lines.Encode(itemOf(p))
		},
	}, urls...)
	return err
}

// CSV writes a row for each page.
func CSV(ctx context.Context, t *politeness.Transport, out io.Writer, urls ...string) error {
	table := csv.NewWriter(out)
	_, err := run(ctx, crawl.Config{
		Transport: t,
		Workers:   1,
		Follow:    crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			if err := p.StatusErr(); err != nil {
				return err
			}
			item := itemOf(p)
			return table.Write([]string{item.URL, item.Title, strconv.Itoa(item.Bytes)})
		},
	}, urls...)
	table.Flush()
	if err != nil {
		return err
	}
	return table.Error()
}

// Kinds calls a function of its own for each kind of page. A ServeMux of net/http tells the kinds
// by method, host and path. Its handlers are never called.
func Kinds(
	ctx context.Context, t *politeness.Transport, visits map[string]func(*crawl.Page) error, urls ...string,
) error {
	kinds := http.NewServeMux()
	for pattern := range visits {
		kinds.Handle(pattern, http.NotFoundHandler())
	}
	_, err := run(ctx, crawl.Config{
		Transport: t,
		Follow:    crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			_, pattern := kinds.Handler(p.Response.Request)
			if visit := visits[pattern]; visit != nil {
				return visit(p)
			}
			return nil // a page of no kind: its links are followed
		},
	}, urls...)
	return err
}
