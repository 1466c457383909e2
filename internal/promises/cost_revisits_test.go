package promises_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
)

// dated is instant with all fields of an answer that say when a page may be asked for again.
type dated struct{ instant }

// datedHeader is shared by all answers, so that it costs none of them anything.
var datedHeader = func() http.Header {
	now := time.Now().UTC()
	h := http.Header{}
	h.Set("Cache-Control", `public, max-age="3600", no-cache="Set-Cookie"`)
	h.Set("Expires", now.Add(time.Hour).Format(http.TimeFormat))
	h.Set("Date", now.Format(http.TimeFormat))
	h.Set("Last-Modified", now.Add(-time.Hour).Format(http.TimeFormat))
	h.Set("Age", "600")
	h.Set("Etag", `W/"5f3c-61b2a4"`)
	return h
}()

func (t dated) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.instant.RoundTrip(req)
	if err == nil {
		resp.Header = datedHeader
	}
	return resp, err
}

// TestWhoAsksOnceAllocatesNothingForRevisits: that a start and an answer are recorded with what a
// judge of revisits reads costs no allocation. A request costs the four that it cost before there
// were revisits, and so does one with conditions of its own.
func TestWhoAsksOnceAllocatesNothingForRevisits(t *testing.T) {
	for _, body := range []bool{false, true} {
		base := dated{instant{body}}
		told := everything(t, base)
		untold := told
		untold.Evidence = nil
		for name, cfg := range map[string]politeness.Config{"evidence": told, "no evidence": untold} {
			for _, conditional := range []bool{false, true} {
				req := pageRequest(t, true)
				if conditional {
					req.Header.Set("If-None-Match", `W/"5f3c-61b2a4"`)
					req.Header.Set("If-Modified-Since", datedHeader.Get("Last-Modified"))
				}
				buf := make([]byte, 512)
				polite := mustNew(t, cfg)
				bare := testing.AllocsPerRun(200, func() { roundTrip(t, base, req, buf) })
				ours := testing.AllocsPerRun(200, func() { roundTrip(t, polite, req, buf) })
				if added := ours - bare; added > 4 {
					t.Errorf("body %t, %s, conditional %t: %v allocations added, want 4 at most", body, name, conditional, added)
				}
			}
		}
	}
}
