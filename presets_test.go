package politeness_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/politenesstest"
)

// acceptance runs f with a preset in a synctest bubble. The preset is made there:
// its limiter and its budget tell the bubble's time.
func acceptance(t *testing.T, preset func() politeness.Config, f func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, web: politenesstest.NewWeb(), log: &evidence.Recorder{}, began: time.Now()}
		b.site = b.web.Site("https://example.com")
		cfg := preset()
		cfg.Base, cfg.Evidence = b.web, b.log
		var err error
		if b.t, err = politeness.New(cfg); err != nil {
			t.Fatal(err)
		}
		b.client = &http.Client{Transport: b.t}
		f(b)
	})
}

// know makes robots.txt known, so that what follows is about pages.
func (b *bubble) know() {
	b.Helper()
	if _, err := b.t.Check(b.Context(), "https://example.com/"); err != nil {
		b.Fatal(err)
	}
}

// starts returns when the requests for pages of https://example.com started.
func (b *bubble) starts() []time.Time {
	var at []time.Time
	for _, r := range b.web.Requests() {
		if strings.HasPrefix(r.URL, "https://example.com/") && !strings.HasSuffix(r.URL, "/robots.txt") {
			at = append(at, r.Start)
		}
	}
	return at
}

// gaps returns the times between two starts on https://example.com, robots.txt included.
func (b *bubble) gaps() []time.Duration {
	var gaps []time.Duration
	var last time.Time
	for _, r := range b.web.Requests() {
		if !strings.HasPrefix(r.URL, "https://example.com/") {
			continue
		}
		if !last.IsZero() {
			gaps = append(gaps, r.Start.Sub(last))
		}
		last = r.Start
	}
	return gaps
}

func within(d, least, most time.Duration) bool { return least <= d && d <= most }

func TestPresetsAreValid(t *testing.T) {
	for name, preset := range map[string]func(string) politeness.Config{
		"SiteAudit": politeness.SiteAudit, "Conservative": politeness.Conservative,
		"Bulk": politeness.Bulk, "Responsive": politeness.Responsive,
	} {
		c := preset(agent)
		if _, err := politeness.New(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if other := preset(agent); c.Hosts == other.Hosts || c.Budget != nil && c.Budget == other.Budget {
			t.Errorf("%s: two calls share a limiter or a budget", name)
		}
	}
}
