package crawl_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
)

// TestNamesOfASiteAreNoCopies: pages at one path of several names are pages of their own, also if
// the names share a key of the Transport.
func TestNamesOfASiteAreNoCopies(t *testing.T) {
	for name, how := range map[string]crawl.Traps{"last": crawl.TrapsLast, "left": crawl.TrapsLeft} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const names, pages = 5, 30
				r := newRig()
				r.crawl.Follow = crawl.Everywhere
				r.crawl.Traps = how
				r.politeness.HostKey = politeness.BySite
				var b strings.Builder
				for i := range pages {
					fmt.Fprintf(&b, "<a href=/page/%d>x</a><a href=/page/%d/>x</a>", i, i)
				}
				var start []string
				for n := range names {
					host := fmt.Sprintf("https://%s.example.com", letter(fmt.Sprint(n)))
					start = append(start, host+"/")
					r.Site(host).Handle("/", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
						text := fmt.Sprintf("<p>%s of %s", letter(strings.Trim(req.URL.Path, "/page")), req.Host)
						if req.URL.Path == "/" {
							text += b.String()
						}
						page(text)(w, req)
					}))
				}
				pagesOf := func(url string) string { return strings.TrimSuffix(url, "/") }
				first := map[string]bool{}
				var late []string
				r.crawl.Done = func(r crawl.Result) {
					isCopy := first[pagesOf(r.URL)]
					first[pagesOf(r.URL)] = true
					isLate := strings.Contains(r.Why, "changes nothing")
					if isLate && !isCopy {
						late = append(late, r.URL+": "+r.Why)
					}
				}
				s := r.run(t.Context(), t, start...)
				visited := map[string]bool{}
				for _, p := range r.visited {
					visited[pagesOf(p.FinalURL)] = true
				}
				if len(late) > 0 || len(visited) != names*(pages+1) {
					t.Errorf("%d of %d pages were visited, and %d postponed: %q; %v", len(visited), names*(pages+1), len(late), late, s)
				}
			})
		})
	}
}
