package promises_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
	"github.com/go-politeness/politeness/politenesstest"
)

// TestRulesHoldWhateverTheSiteSaysOfOurCondition: an error that answers If-None-Match says nothing about
// robots.txt, so its rules hold all day, in each preset, and an honest log of it is proved.
func TestRulesHoldWhateverTheSiteSaysOfOurCondition(t *testing.T) {
	for name, cfg := range map[string]politeness.Config{
		"zero":         {},
		"Conservative": politeness.Conservative(agent),
		"Responsive":   politeness.Responsive(agent),
	} {
		for _, status := range []int{400, 403, 412, 416, 428} {
			cfg.Robots.RecordText = true
			virtually(t, cfg, func(b *bubble) {
				b.site.Handle("/robots.txt", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("ETag", `"1"`)
					if r.Header.Get("If-None-Match") != "" {
						w.WriteHeader(status)
						return
					}
					_, _ = io.WriteString(w, "User-agent: *\nDisallow: /private\n")
				}))
				b.site.Page("/", "page")
				for range 12 {
					b.mustGet("https://example.com/", http.StatusOK)
					if _, err := b.get("https://example.com/private"); err == nil {
						b.Fatalf("%s, %d: /private is fetched after %v", name, status, b.elapsed())
					}
					time.Sleep(2 * time.Hour)
				}
				report, err := audit.Check(bytes.NewReader(logtest.Write(t, b.log.Decisions())))
				if err != nil || !report.OK() {
					b.Errorf("%s, %d: %v, %v", name, status, report, err)
				}
			})
		}
	}
}

// TestRulesHoldWhateverTheCodingIsCalled: a Content-Encoding that names no coding is none. So the rules
// hold even where an unreachable robots.txt allows everything.
func TestRulesHoldWhateverTheCodingIsCalled(t *testing.T) {
	for _, coding := range []string{"none", "UTF-8", "aws-chunked", "8bit", "gzip", "gzip, identity", ""} {
		virtually(t, politeness.SiteAudit(agent), func(b *bubble) {
			b.site.Handle("/robots.txt", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", coding)
				_, _ = io.WriteString(w, "User-agent: *\nDisallow: /private\n")
			}))
			b.site.Page("/", "page")
			b.mustGet("https://example.com/", http.StatusOK)
			if _, err := b.get("https://example.com/private"); err == nil {
				b.Errorf("%q: /private is fetched", coding)
			}
		})
	}
}

// TestAChallengeIsNoRobotsTxt: AWS WAF answers 202 to a client that it wants to run a script.
func TestAChallengeIsNoRobotsTxt(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Handle("/robots.txt", politenesstest.Status(202, "X-Amzn-Waf-Action", "challenge"))
		b.site.Page("/", "page")
		if _, err := b.get("https://example.com/"); err == nil {
			b.Error("a page is fetched, and nothing is known of its robots.txt")
		}
		if d := b.last(evidence.RobotsUnreachable); d.Status != 202 || !strings.Contains(d.Reason, "202") {
			b.Errorf("%+v", d)
		}
	})
}
