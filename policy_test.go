package politeness_test

import (
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// TestPolicyOpensTheLog: it says what was promised, defaults included, before any other record, and
// every record names the Transport; what moved the host stands in fetched.
func TestPolicyOpensTheLog(t *testing.T) {
	cfg := politeness.Config{
		Limits: hostlimit.Config{
			Concurrency: 3, Backoff: backoff.Refusals{Statuses: []int{403, 520, 521, 522}, InARow: 4},
			Override: func(key string) (hostlimit.Limits, bool) { return hostlimit.Limits{Concurrency: 1}, true },
		},
		Spend: budget.Limits{Pages: 7},
	}
	virtually(t, cfg, func(b *bubble) {
		b.site.Handle("/busy", politenesstest.Status(429, "Retry-After", "9"))
		b.mustGet("https://example.com/busy", 429)
		all := b.log.Decisions()
		p := all[0].Policy
		if all[0].Type != evidence.PolicyStated || p == nil || len(p.ID) != 11 {
			b.Fatalf("%+v", all[0])
		}
		want := evidence.Policy{
			ID: p.ID, UserAgent: p.UserAgent, Product: p.Product, Slots: 3, DelayMin: p.DelayMin, DelayMax: p.DelayMax, Adaptive: "Learned",
			Ceiling: time.Minute, Overrides: true, LeaseTTL: 5 * time.Minute, MaxWait: time.Hour, HostKey: "host", Backoff: "fibonacci",
			BackoffStep: time.Second, BackoffCap: 10 * time.Minute, Statuses: "403,520-522", InARow: 4, MaxRetryAfter: 24 * time.Hour,
			Forgive: 30 * time.Minute, Robots: "obeyed", RobotsTTL: time.Hour, DenyTTL: 5 * time.Minute, Unreachable: "deny", Pages: 7,
		}
		if *p != want {
			b.Errorf("\n got %+v\nwant %+v", *p, want)
		}
		own := 0
		for _, d := range all {
			if d.Transport != p.ID[:6] {
				b.Errorf("%s by %q", d.Type, d.Transport)
			}
			if d.Type == evidence.PolicyStated && d.Host == "example.com" && d.Policy.Slots == 1 && d.Seq == 1 {
				own++
			}
		}
		if own != 1 {
			b.Errorf("the host's own limits are on record %d times", own)
		}
		if fetched := b.log.Decisions(evidence.Fetched); fetched[len(fetched)-1].RetryAfter != "9" {
			b.Errorf("%+v", fetched)
		}
	})
}
