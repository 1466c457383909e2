package crawl_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness/crawl"
)

// What the Transport takes for a refusal is no page of the crawl, whatever its status: it is asked for
// again when the host serves pages.
func TestARefusalOfTheTransportIsNoPage(t *testing.T) {
	for name, header := range map[string]string{"a header": "Cf-Mitigated", "IsRefusal": "X-Mark"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.politeness.IsRefusal = func(resp *http.Response) error {
					if resp.Header.Get("X-Mark") != "" {
						return errors.New("a captcha")
					}
					return nil
				}
				r.crawl.Follow = crawl.SameHost
				var asked, refused atomic.Int64
				r.Site("https://example.com").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					n := asked.Add(1)
					if n > 10 && n <= 16 {
						refused.Add(1)
						w.Header().Set(header, "challenge")
						page("Just a moment")(w, req)
						return
					}
					page(`a page <a href="`+req.URL.Path+`1">next</a>`)(w, req)
				}))
				r.crawl.MaxDepth = 29
				sum := r.run(t.Context(), t, "https://example.com/1")
				for _, p := range r.visited {
					if strings.HasPrefix(string(p.Body), "Just") {
						t.Errorf("the challenge at %s was visited", p.URL)
					}
				}
				if sum.Visited() != 30 {
					t.Errorf("%s", sum)
				}
				if refused.Load() == 0 {
					t.Error("the site hasn't refused")
				}
			})
		})
	}
}
