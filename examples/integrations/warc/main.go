// Warc crawls politely into WARC files (ISO 28500), the format of web archives. The library of the
// National Library of Norway writes the bytes of each exchange as they went over the connection.
//
//	go run -C examples/integrations/warc . [-dir DIR]          # a small site on loopback
//	go run -C examples/integrations/warc . [-dir DIR] URL...   # real sites, links to the same host
//
// The archive is the Base of the Transport, below politeness. So it has exactly the requests that
// the sites saw, and their responses: robots.txt, each hop of a redirect, a 429 and the page that
// came after it. URLs that robots.txt disallows aren't in it. Chunks and compression are kept:
// net/http undoes both for the crawler only. If interim responses such as 103 Early Hints came
// first, the record has only the final response. Connections use HTTP/1.1, because a WARC file
// can't hold the frames of HTTP/2.
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
	"time"

	"github.com/nlnwa/gowarc/v2"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/localsite"
)

const agent = "WarcExample/1.0 (+https://example.com/bot; bot@example.com)"

func main() {
	dir := flag.String("dir", ".", "directory of the WARC files")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	urls := flag.Args()
	if len(urls) == 0 {
		s := localsite.Start()
		defer s.Close()
		urls = []string{s.URL + "/"}
	}
	if err := run(ctx, os.Stdout, *dir, hostlimit.Delay{}, urls); err != nil {
		fmt.Fprintln(os.Stderr, "warc:", err)
		os.Exit(1)
	}
}

// run crawls the hosts of urls into files in dir.
func run(ctx context.Context, out io.Writer, dir string, delay hostlimit.Delay, urls []string) (err error) {
	base, ok := reach.Base(urls).(*http.Transport)
	if !ok {
		return errors.New("http.DefaultTransport is no *http.Transport")
	}
	names := &gowarc.PatternNameGenerator{Directory: dir, Prefix: "polite-"}
	files := gowarc.NewWarcFileWriter(
		gowarc.WithFileNameGenerator(names),
		gowarc.WithCompression(true),
		gowarc.WithAddWarcConcurrentToHeader(true),
		gowarc.WithWarcInfoFunc(describe),
	)
	defer func() { err = errors.Join(err, files.Close()) }()
	archive := newArchive(base, files)
	transport, err := politeness.New(politeness.Config{
		UserAgent: agent,
		Base:      archive,
		Hosts:     hostlimit.Config{Delay: delay},
		Evidence:  evidence.Console(os.Stderr),
	})
	if err != nil {
		return err
	}
	crawler, err := crawl.New(crawl.Config{
		Transport: transport,
		Follow:    crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			fmt.Fprintf(out, "%d  %s\n", p.Response.StatusCode, p.FinalURL)
			return archive.lost() // a page that isn't in the archive is no success
		},
	})
	if err != nil {
		return err
	}
	summary, err := crawler.Run(ctx, urls...)
	fmt.Fprintf(out, "%v; %d exchanges in the archive\n", summary, archive.written())
	return errors.Join(err, archive.lost())
}

// describe makes the record with which each file begins.
func describe(info gowarc.WarcRecordBuilder) error {
	_, err := fmt.Fprintf(info, "software: %s\r\nformat: WARC File Format 1.1\r\n"+
		"conformsTo: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n"+
		"robots: obey\r\nhttp-header-user-agent: %s\r\ncreated: %s\r\n",
		"politeness examples/integrations/warc", agent, time.Now().UTC().Format(time.RFC3339))
	return err
}
