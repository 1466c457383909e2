package rivals

import (
	"context"
	"net/http"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
)

// NewPoliteness wraps base with every stage on: robots.txt, slots and delay, a budget of pages,
// bytes and time that never ends, and evidence.
func NewPoliteness(base http.RoundTripper, t Terms) (http.RoundTripper, error) {
	cfg := politeness.Config{
		UserAgent: UserAgent,
		Base:      base,
		Hosts:     hostlimit.Config{Concurrency: t.Slots, Delay: hostlimit.Delay{Min: t.gap()}},
	}
	if !t.Plain {
		cfg.Spend = budget.Limits{Pages: 1 << 50, Bytes: 1 << 60, Duration: 1000 * time.Hour}
		cfg.Evidence = t.Evidence
		if cfg.Evidence == nil {
			cfg.Evidence = evidence.Func(func(context.Context, evidence.Decision) {})
		}
	}
	return politeness.New(cfg)
}
