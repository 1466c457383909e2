package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/politenesstest"
)

// A thousand pages are fetched at the pace of their site. A second expression has them at once, and asks nothing.
func TestReplay(t *testing.T) {
	const (
		pages  = 1000
		origin = "https://example.com/"
	)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		site := web.Site(origin)
		var links strings.Builder
		for n := range pages - 1 {
			fmt.Fprintf(&links, "<a href=/%d>", n)
			site.Handle(fmt.Sprintf("/%d", n), politenesstest.HTML(fmt.Sprintf("<title>page</title><h1>%d</h1>", n)))
		}
		site.Handle("/", politenesstest.HTML("<title>page</title><h1>start</h1>"+links.String()))

		var out bytes.Buffer
		summary, err := replay(t.Context(), &out, dir, "<title>(.*?)</title>", web, []string{origin})
		if err != nil || summary.Outcomes[crawl.Visited] != pages {
			t.Fatal(summary, err)
		}
		asked := len(web.Requests())

		out.Reset()
		began := time.Now()
		summary, err = replay(t.Context(), &out, dir, "<h1>([0-9]+)</h1>", web, []string{origin})
		if err != nil || summary.Outcomes[crawl.Visited] != pages-1 || summary.Outcomes[crawl.VisitFailed] != 1 {
			t.Error(summary, err)
		}
		if lines := strings.Count(out.String(), "\n"); lines != pages-1 || !strings.Contains(out.String(), "/998\t998\n") {
			t.Errorf("%d lines in\n%s", lines, &out)
		}
		if again := web.Requests()[asked:]; len(again) > 0 {
			t.Errorf("the site was asked again: %v", again)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		web.Check(t, politenesstest.Rules{Delay: 200 * time.Millisecond, Concurrency: 2})
	})
}
