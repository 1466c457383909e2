package promises_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
)

// inOtherWords are paths that one server or another reads as /private/x.
var inOtherWords = []string{
	"/a/%2e%2e/private/x", "/a/.%2E/private/x", "/a/../private/x", "/./private/x", "//private/x", "/a//../../private/x",
	"/a%5C..%5Cprivate/x", "/%70rivate/x", "/%2fprivate/x", "/a%2F..%2Fprivate/x", "/a/%2E%2E%2fprivate/x", "/private/x/%2e",
	"/private;v=1/x", "/a/..;/private/x", "/;a/private/x", "/a/%252e%252e/private/x", "/%2570rivate/x", "/a%252F..%252Fprivate/x",
}

// A path that robots.txt forbids in one reading is forbidden, however it is spelled: for a page that
// is asked for, and for a hop that a site's redirect leads to.
func TestAForbiddenPathIsForbiddenInAllItsSpellings(t *testing.T) {
	var log strings.Builder
	lines := evidence.JSONLines(&log)
	cfg := politeness.Config{Evidence: lines}
	virtually(t, cfg, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /private\n").Page("/", "page")
		lures := b.web.Site("https://lures.example").Robots("")
		for i, path := range inOtherWords {
			url := "https://example.com" + path
			if _, err := b.get(url); !errors.Is(err, politeness.ErrDisallowed) {
				b.Errorf("%s: %v", path, err)
			}
			if v, err := b.t.Check(b.Context(), url); err != nil || v.Allowed || v.Line != 2 {
				b.Errorf("Check(%s): %+v, %v", path, v, err)
			}
			lure := "/" + strings.Repeat("x", i+1)
			lures.Handle(lure, http.RedirectHandler(url, http.StatusFound))
			if _, err := b.get("https://lures.example" + lure); !errors.Is(err, politeness.ErrDisallowed) {
				b.Errorf("a hop to %s: %v", path, err)
			}
		}
		b.mustGet("https://example.com/?next=/a/../private", http.StatusOK)
		for _, asked := range b.asked() {
			if strings.Contains(asked, "rivate") && !strings.Contains(asked, "?next") {
				b.Errorf("the site was asked for %s", asked)
			}
		}
	})
	if err := lines.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := audit.Check(strings.NewReader(log.String()))
	if err != nil || !report.OK() {
		t.Errorf("%v\n%v", report, err)
	}
}
