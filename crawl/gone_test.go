package crawl_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
)

// TestABrokenPageOfAHostOf404sIsDoneSoon: such a host answers, so the trouble is the page's own.
func TestABrokenPageOfAHostOf404sIsDoneSoon(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusGone} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			broken := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
			gone := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
			r.Site("https://example.com").Handle("/", http.HandlerFunc(gone)).Handle("/broken", http.HandlerFunc(broken))
			var urls []string
			for i := range 5 {
				urls = append(urls, fmt.Sprintf("https://example.com/%d", i))
			}
			urls = append(urls, "https://example.com/broken")
			began := time.Now()
			summary := r.run(t.Context(), t, urls...)
			wantOutcomes(t, summary, map[crawl.Outcome]int{crawl.Visited: 6})
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("status %d: it took %v", status, took)
			}
		})
	}
}
