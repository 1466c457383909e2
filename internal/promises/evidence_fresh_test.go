package promises_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
)

// TestEvidenceOfConditions: a log shows which requests were conditional, whoever made them so, and
// for how long each answer called itself fresh.
func TestEvidenceOfConditions(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Handle("/year", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=31536000")
			w.Header().Set("ETag", `"1"`)
			if r.Header.Get("If-None-Match") != "" {
				w.Header().Set("Cache-Control", "max-age=60")
				w.WriteHeader(http.StatusNotModified)
			}
		}))
		for _, header := range []http.Header{
			{},
			{"If-None-Match": {`"1"`}},
			{"If-Modified-Since": {"Sat, 01 Jan 2000 00:00:00 GMT"}},
			{"Range": {"bytes=0-1"}},
		} {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://example.com/year", http.NoBody)
			if err != nil {
				b.Fatal(err)
			}
			req.Header = header
			resp, err := b.client.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		var conditional []bool
		var fresh []time.Duration
		for _, d := range b.log.Decisions() {
			switch {
			case d.RobotsTxt:
			case d.Type == evidence.Started:
				conditional = append(conditional, d.Conditional)
			case d.Type == evidence.Fetched:
				fresh = append(fresh, d.Fresh)
			}
		}
		const month = 30 * 24 * time.Hour
		wantFresh := []time.Duration{month, time.Minute, month, month}
		wantConditional := []bool{false, true, true, false}
		for i := range wantFresh {
			if conditional[i] != wantConditional[i] || fresh[i] != wantFresh[i] {
				b.Errorf("request %d: conditional %t, fresh %v; want %t, %v", i, conditional[i], fresh[i], wantConditional[i], wantFresh[i])
			}
		}
	})
}
