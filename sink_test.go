package politeness_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
)

// A sink that fetches through the Transport that it is told by doesn't go round for
// ever: it isn't told of its own requests, and a log beside it is.
func TestSinkThatFetchesIsNotToldOfIt(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		var calls atomic.Int64
		var own *http.Client
		fetching := evidence.Func(func(_ context.Context, d evidence.Decision) {
			calls.Add(1)
			if d.Type != evidence.Fetched || d.RobotsTxt {
				return
			}
			resp, err := own.Get("https://example.com/report")
			if err != nil {
				b.Error(err)
				return
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
		})
		tr := mustNew(b.T, politeness.Config{UserAgent: agent, Base: b.web, Evidence: evidence.Multi(b.log, fetching)})
		own = &http.Client{Transport: tr}
		b.client.Transport = tr
		b.site.Page("/", "page").Page("/report", "thanks")
		for range 3 {
			b.mustGet("https://example.com/", 200)
		}
		// robots.txt: started, fetched, robots_fetched; a page: a verdict, started, fetched.
		if n := calls.Load(); n != 3+3*3 {
			b.Errorf("the sink was told of %d decisions, want 12", n)
		}
		if n := len(b.log.Decisions(evidence.Fetched)); n != 1+2*3 {
			b.Errorf("the log has %d fetches, want 7", n)
		}
	})
}
