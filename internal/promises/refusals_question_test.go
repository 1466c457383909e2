package promises_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
)

// TestTwoQuestionsTeachNothingOfEachOther: a server that refuses the HEAD of each page, and serves its
// GET, keeps the usual pace, whatever status it refuses HEAD with. A checker of 200 links took six
// hours, as each GET was taken for the proof that the HEAD was refused for its pace.
func TestTwoQuestionsTeachNothingOfEachOther(t *testing.T) {
	for _, status := range []int{501, 405, 400} {
		virtually(t, politeness.Config{}, func(b *bubble) {
			b.site.Robots("User-agent: *\n").Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodHead {
					w.WriteHeader(status)
				}
			}))
			const links = 50
			for i := range links {
				url := "https://example.com/" + strconv.Itoa(i)
				for _, method := range []string{http.MethodHead, http.MethodGet} {
					req, err := http.NewRequestWithContext(b.Context(), method, url, http.NoBody)
					if err != nil {
						b.Fatal(err)
					}
					resp, err := b.client.Do(req)
					if err != nil {
						b.Fatal(err)
					}
					resp.Body.Close()
				}
			}
			if took := b.elapsed(); took > 2*links*time.Second {
				b.Errorf("HEAD answered with %d: %d links took %v", status, links, took)
			}
			if blocks := b.log.Decisions(evidence.HostBlocked); len(blocks) > 0 {
				b.Errorf("HEAD answered with %d: %d blocks", status, len(blocks))
			}
		})
	}
}

// TestRetryAfterOfARedirect: it holds the host if the target is on it. On the way to another host it
// holds nothing here, and neither does that of a page that was served.
func TestRetryAfterOfARedirect(t *testing.T) {
	for location, want := range map[string]time.Duration{
		"/job":                   10 * time.Second,
		"https://other.example/": 0,
	} {
		virtually(t, politeness.Config{}, func(b *bubble) {
			b.web.Site("https://other.example").Robots("User-agent: *\n").Page("/", "there")
			b.site.Robots("User-agent: *\n").Page("/job", "done").Handle("/start", http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", location)
					w.Header().Set("Retry-After", "10")
					w.WriteHeader(http.StatusSeeOther)
				}))
			b.mustGet("https://example.com/start", http.StatusOK)
			blocks := b.log.Decisions(evidence.HostBlocked)
			if want == 0 && len(blocks) > 0 {
				b.Errorf("to %s: %+v", location, blocks)
			}
			if want > 0 && (len(blocks) != 1 || blocks[0].Until.Sub(blocks[0].Time) != want) {
				b.Errorf("to %s: %+v, want a block of %v", location, blocks, want)
			}
		})
	}
}
