package crawl_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness/crawl"
)

// A Summary counts the statuses of pages, so that a line shows if they are no pages.
func TestSummaryCountsStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.Site("https://example.com").Handle("/", page("a page")).
			Handle("/gone", http.NotFoundHandler()).
			Handle("/teapot", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusTeapot)
			}))
		s := r.run(t.Context(), t, "https://example.com/1", "https://example.com/gone",
			"https://example.com/gone?2", "https://example.com/teapot", "https://example.com/2")
		if want := map[int]int{200: 2, 404: 2, 418: 1}; !maps.Equal(s.Statuses, want) {
			t.Errorf("statuses %v, want %v", s.Statuses, want)
		}
		if !strings.HasPrefix(s.String(), "5 visited, 2 of them 404, 1 of them 418 in ") {
			t.Errorf("summary: %s", s)
		}
		many := crawl.Summary{
			Outcomes: map[crawl.Outcome]int{crawl.Visited: 10},
			Statuses: map[int]int{500: 1, 404: 4, 202: 3, 403: 2},
		}
		if !strings.HasPrefix(many.String(), "10 visited, 4 of them 404, 3 of them 202, 2 of them 403 and so on in ") {
			t.Errorf("summary: %s", many)
		}
	})
}
