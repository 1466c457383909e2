package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
)

// A walledSite has pages, all linked from /, behind a wall that stands for a while after each run of
// requests. Its text is on no page.
type walledSite struct {
	mu     sync.Mutex
	pages  int
	allow  int           // requests after which the wall stands, counted since it last fell
	stands time.Duration // how long
	again  bool          // it stands again after further requests
	wall   http.HandlerFunc

	served int
	until  time.Time
	falls  int
	into   int // requests into the wall that stands
	most   int // the largest of these
}

const wallText = "prove that you are a person"

// theWall answers with status and the text of a wall, which has an id of its own.
func theWall(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		fmt.Fprintf(w, "<title>%s</title><script>var id = %q</script><p>Request %d", wallText, req.URL, time.Now().UnixNano())
	}
}

func (s *walledSite) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case now.Before(s.until):
		s.into++
		s.most = max(s.most, s.into)
		s.wall(w, req)
		return
	case s.served == s.allow && (s.again || s.falls == 0):
		s.falls++
		s.served = 0
		s.until = now.Add(s.stands)
		s.into = 1
		s.most = max(s.most, 1)
		s.wall(w, req)
		return
	}
	s.served++
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<title>%s</title>", s.text(req.URL.Path))
	if req.URL.Path == "/" {
		for i := range s.pages - 1 {
			fmt.Fprintf(w, "<a href=/%d>page</a>", i)
		}
	}
}

// text returns what the page at path says: no two say the same.
func (s *walledSite) text(path string) string {
	return "page " + strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return 'a' + r - '0'
		}
		return r
	}, path)
}

// isPage reports whether the body is the page's.
func (s *walledSite) isPage(p *crawl.Page) bool {
	return strings.HasPrefix(string(p.Body), "<title>"+s.text(p.Response.Request.URL.Path)+"</title>")
}

// TestVisitCallsAPageARefusal: a captcha with status 200, which only Visit can tell from a page,
// blocks its host, and loses no page.
func TestVisitCallsAPageARefusal(t *testing.T) {
	presets := map[string]politeness.Config{
		"zero value": {UserAgent: userAgent}, "Bulk": politeness.Bulk(userAgent), "Responsive": politeness.Responsive(userAgent),
	}
	for name, cfg := range presets {
		for _, first := range []int{0, 1, 30} {
			t.Run(fmt.Sprintf("%s, after %d", name, first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const pages = 100
					s := &walledSite{pages: pages, allow: first, stands: time.Minute, wall: theWall(http.StatusOK)}
					r := newRig()
					cfg.Base = r.Web
					var log strings.Builder
					recorder, err := evidence.NewLog(&log, evidence.LogConfig{})
					if err != nil {
						t.Fatal(err)
					}
					cfg.Evidence = recorder
					r.politeness = cfg
					r.Site("https://example.com").Handle("/", s)
					r.crawl.Follow = crawl.SameHost
					had := make(map[string]bool)
					r.crawl.Visit = func(_ context.Context, p *crawl.Page) error {
						if strings.Contains(string(p.Body), wallText) {
							return fmt.Errorf("%w: a captcha", crawl.ErrRefused)
						}
						r.mu.Lock()
						defer r.mu.Unlock()
						had[p.URL] = s.isPage(p)
						return nil
					}
					sum := r.run(t.Context(), t, "https://example.com/")
					wantOutcomes(t, sum, map[crawl.Outcome]int{crawl.Visited: pages})
					if len(had) != pages {
						t.Errorf("%d pages had", len(had))
					}
					for url, is := range had {
						if !is {
							t.Errorf("%s has the text of another page", url)
						}
					}
					if s.most > 12 {
						t.Errorf("%d requests into the wall", s.most)
					}
					t.Logf("%s, after %d: %d requests into the wall of a minute, %v", name, first, s.most, sum)
					if err := recorder.Close(); err != nil {
						t.Fatal(err)
					}
					report, err := audit.Check(strings.NewReader(log.String()))
					if err != nil {
						t.Fatal(err)
					}
					if !strings.Contains(log.String(), `"late":true`) || !report.OK() {
						t.Errorf("the audit: %v", report)
					}
				})
			})
		}
	}
}
