package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/publicnet"
)

// A host that the user's own rules, or the dialer, keep away from is given up at once: it won't be
// another one the next time, and they are told apart.
func TestHostsThatAreOutOfReachDontHoldACrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("https://example.com").Page("/", "hello")
		web.Site("https://private.example").Down(fmt.Errorf("10.0.0.1 is private: %w", publicnet.ErrPrivate))
		transport, err := politeness.New(politeness.Config{
			UserAgent: "ForGoodTest/1.0 (+https://example.com/bot)", Base: web,
			Refuse: func(req *http.Request) error {
				if strings.HasPrefix(req.URL.Host, "refused.") {
					return fmt.Errorf("%s is refused", req.URL.Host)
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		became := make(map[string]string)
		c, err := crawl.New(crawl.Config{
			Transport: transport,
			Visit:     func(context.Context, *crawl.Page) error { return nil },
			Done:      func(r crawl.Result) { became[r.Host] = fmt.Sprintf("%s, %v", r.Outcome, r.Err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		summary, err := c.Run(t.Context(), "https://example.com/", "https://private.example/", "https://refused.example/")
		if took := time.Since(begin); err != nil || summary.Visited() != 1 || took > 10*time.Second {
			t.Errorf("%v after %v: %v", err, took, summary)
		}
		if got, want := became["refused.example"], "left, politeness: refused.example: rule: refused.example is refused"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := became["private.example"]; !strings.HasPrefix(got, "failed, ") || !strings.Contains(got, "10.0.0.1 is private") {
			t.Error(got)
		}
	})
}
