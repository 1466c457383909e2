// Replay tries a regular expression on the pages of a site, as often as you like, and fetches each
// page only once. The pages are kept in a directory. A kept page costs no request and no wait, so
// the second try takes no time.
//
//	go run ./examples/replay -find '<h1>(.*?)</h1>' URL...
//	go run ./examples/replay -find '<h1 class="title">(.*?)</h1>' URL...
//
// Without a URL it tries the expression twice on a small shop on loopback.
//
// The pages stay those of the first crawl, however old they are. Remove the directory to fetch them
// again. robots.txt is kept in the directory as well, and is fetched again after an hour. A page
// that was refused is requested again by the next run.
//
// recipes.Record keeps the pages. It stands between the crawl and the Transport. A response from
// its directory costs the host nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/examples/recipes"
)

func main() {
	dir := flag.String("dir", "pages", "keep pages in this directory")
	find := flag.String("find", "<title>(.*?)</title>", "print the matches of this regular expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := try(ctx, *dir, *find, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

// try crawls urls, or the shop twice.
func try(ctx context.Context, dir, find string, urls []string) error {
	rounds := 1
	if len(urls) == 0 {
		shop := startShop()
		defer shop.Close()
		urls = []string{shop.URL + "/"}
		rounds = 2
		temporary, err := os.MkdirTemp("", "replay")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		dir = temporary
	}
	for range rounds {
		summary, err := replay(ctx, os.Stdout, dir, find, reach.Base(urls), urls)
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, summary)
	}
	return nil
}

// replay prints the matches of an expression in the pages of a crawl, which are kept in dir.
func replay(
	ctx context.Context, out io.Writer, dir, find string, base http.RoundTripper, urls []string,
) (summary crawl.Summary, err error) {
	wanted, err := regexp.Compile(find)
	if err != nil {
		return summary, err
	}
	pages := filepath.Join(dir, "answers")
	if err := os.MkdirAll(pages, 0o700); err != nil {
		return summary, err
	}
	transport, err := politeness.New(politeness.Config{
		UserAgent: "ReplayExample/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      base,
		Evidence:  evidence.Console(os.Stderr),
	}.WithState(filepath.Join(dir, "state")))
	if err != nil {
		return summary, err
	}
	c, err := crawl.New(crawl.Config{
		Transport: transport,
		Client:    &http.Client{Transport: recipes.Record{Over: transport, Dir: pages}},
		Workers:   1, // one line after the other
		Follow:    crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			if err := p.StatusErr(); err != nil {
				return err
			}
			text, err := io.ReadAll(p.Text())
			if err != nil {
				return err
			}
			found := wanted.FindSubmatch(text)
			if found == nil {
				return errNone
			}
			_, err = fmt.Fprintf(out, "%s\t%s\n", p.FinalURL, found[len(found)-1])
			return err
		},
	})
	if err != nil {
		return summary, err
	}
	return c.Run(ctx, urls...)
}

// errNone is why a page has no line. The Summary names the first such page.
var errNone = errors.New("nothing is found")
