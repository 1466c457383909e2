package promises_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// The robots.txt files of many names lead to a third site. It is asked for what its own robots.txt
// allows, at the pace that it wants, and the log of it all is proved.
func TestRobotsTxtThatLeadsToAStrangerKeepsItsRulesAndPace(t *testing.T) {
	const names = 12
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		victim := web.Site("https://victim.test").Robots("User-agent: *\nDisallow: /costly\nCrawl-delay: 7\n")
		victim.Page("/costly", "a report").Page("/rules", "User-agent: *\nDisallow: /private\n")
		for i := range names {
			to := []string{"/robots.txt", "/rules", "/costly", "/a/%2e%2e/costly"}[i%4]
			lure := web.Site(fmt.Sprintf("https://n%d.example", i)).Page("/", "page").Page("/private", "page")
			lure.Handle("/robots.txt", http.RedirectHandler("https://victim.test"+to, http.StatusFound))
		}
		sink := logtest.New(t, &log, evidence.LogConfig{Chained: true})
		transport, err := politeness.New(politeness.Config{
			UserAgent: agent,
			Base:      web,
			Evidence:  sink,
			Robots:    robotscache.Config{RecordText: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: transport}
		var all sync.WaitGroup
		for i := range names {
			all.Go(func() {
				_, err := fetch(t.Context(), client, fmt.Sprintf("https://n%d.example/", i))
				forbidden := i%4 >= 2
				if forbidden != errors.Is(err, politeness.ErrDisallowed) || !forbidden && err != nil {
					t.Errorf("n%d.example: %v", i, err)
				}
				if i%4 != 1 {
					return
				}
				_, err = fetch(t.Context(), client, fmt.Sprintf("https://n%d.example/private", i))
				if !errors.Is(err, politeness.ErrDisallowed) {
					t.Errorf("n%d.example/private: %v", i, err)
				}
			})
		}
		all.Wait()
		var last time.Time
		asked := make(map[string]int)
		for _, r := range web.Requests() {
			if !strings.HasPrefix(r.URL, "https://victim.test/") {
				continue
			}
			asked[strings.TrimPrefix(r.URL, "https://victim.test")]++
			if gap := r.Start.Sub(last); !last.IsZero() && gap < 7*time.Second {
				t.Errorf("%s after %v, its Crawl-delay is 7 s", r.URL, gap)
			}
			last = r.Start
		}
		if asked["/robots.txt"] != 1+names/4 || asked["/rules"] != names/4 || len(asked) != 2 {
			t.Errorf("the site was asked for %v", asked)
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
	})
	report, err := audit.Check(bytes.NewReader(log.Bytes()))
	if err != nil || !report.Complete() {
		t.Errorf("%v, %v", report, err)
	}
}
