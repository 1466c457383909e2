package crawl_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
)

// bucket has a few tokens, and gets one more in each span. A request takes one. If none is left, it
// is answered with status.
func bucket(status, size int, span time.Duration) func(time.Duration, string) int {
	tokens := float64(size)
	last := time.Duration(0)
	return func(at time.Duration, _ string) int {
		gained := float64(at-last) / float64(span)
		tokens = min(float64(size), tokens+gained)
		last = at
		if tokens < 1 {
			return status
		}
		tokens--
		return http.StatusOK
	}
}

// withForbidden answers status for each tenth page, and asks protect for the others.
func withForbidden(status int, protect func(time.Duration, string) int) func(time.Duration, string) int {
	return func(at time.Duration, path string) int {
		says := protect(at, path)
		if strings.HasSuffix(path, "7") {
			return status
		}
		return says
	}
}

// presets are the Configs that most users have.
func presets() map[string]politeness.Config {
	return map[string]politeness.Config{
		"zero value": {UserAgent: userAgent}, "Bulk": politeness.Bulk(userAgent), "Responsive": politeness.Responsive(userAgent),
	}
}

// TestALimitThatForbidsSingleRequests: a limit refuses each request that is too early, in words that
// forbid a page or mean nothing, and serves others between. No page is lost, and few requests are refused.
func TestALimitThatForbidsSingleRequests(t *testing.T) {
	const pages = 200
	for name, cfg := range presets() {
		for _, tt := range []struct {
			status, size int
			span         time.Duration
		}{
			{401, 5, 6 * time.Second},
			{403, 1, time.Second / 3},
			{403, 1, time.Second},
			{403, 1, 2 * time.Second},
			{403, 5, time.Second},
			{430, 1, time.Second},
			{202, 1, time.Second},
			{202, 5, 6 * time.Second},
			{204, 1, 2 * time.Second},
			{206, 5, time.Second},
			{422, 1, time.Second / 3},
		} {
			t.Run(fmt.Sprintf("%d, %d each %v/%s", tt.status, tt.size, tt.span, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig()
					cfg.Base = r.Web
					r.politeness = cfg
					s := &guardedSite{began: time.Now(), protect: bucket(tt.status, tt.size, tt.span), asked: map[string]int{}, had: map[string]bool{}}
					r.Site("https://example.com").Handle("/", s)
					sum := r.run(t.Context(), t, numbered("example.com", pages)...)
					t.Logf("%d refused, all after %v", s.refused, s.last)
					if len(s.had) != pages {
						t.Errorf("%d of %d pages had: %v", len(s.had), pages, sum)
					}
					if s.refused > 30 {
						t.Errorf("%d refusals", s.refused)
					}
				})
			})
		}
	}
}

// TestForbiddenPagesCostLittle on a site that limits nothing, and on one that limits by the same
// status. Pages that aren't there cost nothing.
func TestForbiddenPagesCostLittle(t *testing.T) {
	const (
		pages     = 400
		forbidden = 40
	)
	none := func(int) func(time.Duration, string) int { return out(0, -1) }
	oneASecond := func(status int) func(time.Duration, string) int { return bucket(status, 1, time.Second) }
	for name, cfg := range presets() {
		for limit, tt := range map[string]struct {
			status  int
			protect func(status int) func(time.Duration, string) int
			again   int // requests for forbidden pages, beside one for each
			lost    int // pages, at most
		}{
			"no limit":          {403, none, 3, 0},
			"one a second":      {403, oneASecond, 2 * forbidden, 8},
			"no limit, 202":     {202, none, 3, 0},
			"no limit, 204":     {204, none, 3, 0},
			"no limit, 422":     {422, none, 3, 0},
			"no limit, 404":     {404, none, 0, 0},
			"one a second, 202": {202, oneASecond, 2 * forbidden, 8},
		} {
			t.Run(limit+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig()
					cfg.Base = r.Web
					r.politeness = cfg
					s := &guardedSite{began: time.Now(), protect: withForbidden(tt.status, tt.protect(tt.status)), asked: map[string]int{}, had: map[string]bool{}}
					r.Site("https://example.com").Handle("/", s)
					sum := r.run(t.Context(), t, numbered("example.com", pages)...)
					again := -forbidden
					for path, n := range s.asked {
						if strings.HasSuffix(path, "7") {
							again += n
						}
					}
					t.Logf("%d requests again, %d refused, all after %v, %v", again, s.refused, s.last, sum)
					if lost := pages - forbidden - len(s.had); lost > tt.lost {
						t.Errorf("%d of %d pages had: %v", len(s.had), pages-forbidden, sum)
					}
					if again > tt.again {
						t.Errorf("forbidden pages were asked for %d times again, want at most %d", again, tt.again)
					}
				})
			})
		}
	}
}
