package accesslog_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence/audit/accesslog"
)

// TestSidesShowBothLogs: each request once, in the order of the site's clock, with a hole where one
// of the logs lacks it, and the counts and gaps of each host.
func TestSidesShowBothLogs(t *testing.T) {
	const ahead = 2 * time.Hour
	s := newVisitedSite(1, "apache", ahead)
	s.latency = func(_ *rand.Rand) time.Duration { return 100 * time.Millisecond }
	begin := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	fates := []fate{told, told, hidden, told, invented, told, told, told, told, told, told, told}
	for i, f := range fates {
		s.visit(begin.Add(time.Duration(i)*10*time.Second), "site.test", fmt.Sprintf("/%d", i), f)
	}
	c := s.compare(t, accesslog.Options{})
	if len(c.Pairs) != len(fates) {
		t.Fatalf("%d pairs", len(c.Pairs))
	}
	for i, p := range c.Pairs {
		if want := fmt.Sprintf("/%d", i); p.Target != want || p.Host != "site.test" && fates[i] != hidden {
			t.Errorf("%d: %s%s", i, p.Host, p.Target)
		}
		inLog := fates[i] != invented
		inEvidence := fates[i] != hidden
		if p.Noted.IsZero() == inLog || (p.Line > 0) != inLog || p.Started.IsZero() == inEvidence || (p.Record > 0) != inEvidence {
			t.Errorf("%d: %+v", i, p)
		}
		at := begin.Add(ahead + time.Duration(i)*10*time.Second)
		for _, got := range []time.Time{p.Noted, p.Started} {
			if !got.IsZero() && got.Sub(at).Abs() > 2*time.Second {
				t.Errorf("%d: at %v, want %v", i, got, at)
			}
		}
	}
	if len(c.Hosts) == 0 {
		t.Fatal("no hosts")
	}
	h := c.Hosts[0]
	evidence, site := 0, 0
	for _, host := range c.Hosts { // lines of Apache don't name theirs
		evidence += host.Evidence.N
		site += host.Site.N
	}
	if h.Host != "site.test" || h.Matched != 10 || evidence != 11 || site != 11 {
		t.Errorf("%+v", c.Hosts)
	}
	if h.Evidence.MinGap != 10*time.Second || h.Site.MinGap < 9*time.Second {
		t.Errorf("%+v", h)
	}
}

// TestPairsAreBounded: a long log has its first requests named, and all counted.
func TestPairsAreBounded(t *testing.T) {
	s := newVisitedSite(1, "vhost", 0)
	begin := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for i := range 1200 {
		s.visit(begin.Add(time.Duration(i)*10*time.Second), "site.test", fmt.Sprintf("/%d", i), told)
	}
	c := s.compare(t, accesslog.Options{})
	if len(c.Pairs) != 1000 || len(c.Hosts) != 1 || c.Hosts[0].Matched != 1200 || c.Pairs[0].Target != "/0" {
		t.Errorf("%d pairs, %+v", len(c.Pairs), c.Hosts)
	}
}
