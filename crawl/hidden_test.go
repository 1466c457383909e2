package crawl_test

import (
	"context"
	"errors"
	"log"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/politenesstest"
)

// logged returns what f writes to the standard logger.
func logged(f func()) string {
	var out strings.Builder
	log.SetOutput(&out)
	defer log.SetOutput(os.Stderr)
	f()
	return out.String()
}

// TestSummaryNamesFirstErrors: the first error of each outcome, without what a server has put into it.
func TestSummaryNamesFirstErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", page("a page")).Handle("/drop", politenesstest.Drop())
		r.crawl.Workers = 1
		r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
			if p.URL == "https://example.com/" {
				return nil
			}
			return errors.New("database is \x1b[31mlocked\nreally")
		}
		s := r.run(t.Context(), t, "https://example.com/", "https://example.com/1", "https://example.com/2", "https://example.com/drop", "mailto:x")
		for _, want := range []string{
			`2 visit failed (database is \x1b[31mlocked\nreally), `, "1 failed (", `1 invalid (crawl: "mailto:x": scheme "mailto" is neither http nor https) in `,
		} {
			if !strings.Contains(s.String(), want) {
				t.Errorf("summary: %s\nwant in it: %s", s, want)
			}
		}
	})
}

// TestPanicsAreReported with their stacks, as net/http does, and end no crawl.
func TestPanicsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", page("a page"))
		r.crawl.Visit = func(context.Context, *crawl.Page) error { panic("no such table") }
		r.crawl.Progress = func(crawl.Progress) { panic("no terminal") }
		r.crawl.Discover = func(context.Context, string) []crawl.Request { panic("no sitemap") }
		var s crawl.Summary
		text := logged(func() { s = r.run(t.Context(), t, "https://example.com/a") })
		wantOutcomes(t, s, map[crawl.Outcome]int{crawl.VisitFailed: 1})
		for _, want := range []string{
			"crawl: panic in Visit of https://example.com/a: no such table\ngoroutine ", "crawl: panic in Progress: no terminal\n",
			"crawl: panic in Discover of https://example.com/a: no sitemap\n", "hidden_test.go:",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in the log:\n%s", want, text)
			}
		}
		if !strings.Contains(s.String(), "1 visit failed (crawl: panic in Visit of https://example.com/a: no such table)") {
			t.Errorf("summary: %s", s)
		}
	})
}
