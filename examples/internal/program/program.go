// Package program has the main function that the examples of other clients share, and its test.
package program

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"testing"

	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/localsite"
)

// A Crawl gets all urls, tells out what came of each, and returns what the log of it proves.
type Crawl func(ctx context.Context, out io.Writer, urls []string) (*audit.Report, error)

// Run crawls the URLs of the command line or, without any, a site of its own on loopback, and
// prints the report. It exits with 1 after an error, which it prints behind the program's name.
func Run(name string, crawl Crawl) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	urls := os.Args[1:]
	if len(urls) == 0 {
		s := localsite.Start()
		defer s.Close()
		urls = s.URLs()
	}
	report, err := crawl(ctx, os.Stdout, urls)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	fmt.Print("\n", report)
}

// Test crawls a local site: the report has no fault and has judged by robots.txt, the site was
// treated politely, and the log has all that the site saw. The site is open until the test ends.
func Test(t *testing.T, crawl Crawl) *localsite.Site {
	t.Helper()
	s := localsite.Start()
	t.Cleanup(s.Close)
	report, err := crawl(t.Context(), t.Output(), s.URLs())
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() || report.Promise("verdicts right").Proved == 0 {
		t.Error(report)
	}
	s.CheckVisits(t)
	logged := report.Records["started"]
	seen := len(s.Visits())
	if logged != seen {
		t.Errorf("the log knows of %d requests, the server of %d", logged, seen)
	}
	return s
}
