package promises_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
)

// What forwards the methods of an interface, and has none besides.
type (
	forwardingLimiter struct{ hostlimit.Limiter }
	forwardingLease   struct{ hostlimit.Lease }
	forwardingBudget  struct{ budget.Budget }
)

func (l forwardingLimiter) Acquire(ctx context.Context, key string, floor time.Duration) (hostlimit.Lease, error) {
	lease, err := l.Limiter.Acquire(ctx, key, floor)
	if err != nil {
		return nil, err
	}
	return forwardingLease{lease}, nil
}

// TestWrappedLimiterLeaseAndBudgetLoseNothing crawls bare and through wrappers, through a
// block, a leak, a slow body and to the end of the budget, and compares the two logs.
func TestWrappedLimiterLeaseAndBudgetLoseNothing(t *testing.T) {
	crawl := func(wrapped bool) (string, *audit.Report) {
		var log bytes.Buffer
		virtually(t, politeness.Config{}, func(b *bubble) {
			sink := evidence.JSONLines(&log)
			memory, err := memory.New(hostlimit.Config{
				Delay: hostlimit.Delay{Min: time.Second}, LeaseTTL: 20 * time.Second, MaxWait: time.Minute, MaxInFlight: 2,
			})
			if err != nil {
				b.Fatal(err)
			}
			var hosts hostlimit.Limiter = memory
			var spent budget.Budget = budget.New(budget.Limits{Pages: 6, Duration: time.Hour, WarnAt: 0.5})
			if wrapped {
				hosts, spent = forwardingLimiter{hosts}, forwardingBudget{spent}
			}
			b.client.Transport = mustNew(b.T, politeness.Config{UserAgent: agent, Base: b.web, Evidence: sink, Limiter: hosts, Budget: spent})
			b.site.Handle("/busy", politenesstest.InTurn(politenesstest.Status(429, "Retry-After", "5"), politenesstest.Text("page")))
			b.site.Handle("/slow", politenesstest.Drip("x", 50, time.Second)) // reads renew its lease
			b.site.Page("/page", "page")
			b.mustGet("https://example.com/busy", 429)
			b.mustGet("https://example.com/busy", 200)
			b.mustGet("https://example.com/slow", 200)
			leak, err := b.client.Get("https://example.com/page")
			if err != nil {
				b.Fatal(err)
			}
			time.Sleep(time.Minute)
			b.mustGet("https://example.com/page", 200)
			leak.Body.Close()
			b.mustGet("https://example.com/page", 200)
			if _, err := b.get("https://example.com/page"); err == nil {
				b.Error("the budget isn't spent")
			}
			if err := sink.Close(); err != nil {
				b.Fatal(err)
			}
		})
		id := regexp.MustCompile(`"(by|id|limiter|of)":"[^"]*"`)
		text := id.ReplaceAllString(log.String(), `"$1":"T"`)
		report, err := audit.Check(&log)
		if err != nil || !report.OK() {
			t.Errorf("wrapped %v: %v, %v", wrapped, report, err)
		}
		return text, report
	}
	bare, proofs := crawl(false)
	through, same := crawl(true)
	if bare != through {
		t.Errorf("the log through wrappers:\n%s\nand bare:\n%s", through, bare)
	}
	if fmt.Sprint(proofs.Promises) != fmt.Sprint(same.Promises) {
		t.Errorf("proofs through wrappers: %+v, bare: %+v", same.Promises, proofs.Promises)
	}
	for _, typ := range []evidence.Type{evidence.HostBlocked, evidence.HostCleared, evidence.LeaseExpired, evidence.BudgetWarning, evidence.BudgetExceeded} {
		if !bytes.Contains([]byte(bare), []byte(`"type":"`+string(typ)+`"`)) {
			t.Errorf("the crawl made no %s", typ)
		}
	}
}
