package promises_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// acceptance runs f with a preset in a synctest bubble.
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
		if c.Limiter != nil || c.Budget != nil {
			t.Errorf("%s: two calls of New would share a limiter or a budget", name)
		}
	}
}

// TestPresetsLearn from refusals, and so does the zero value; Conservative keeps to its 3 s.
func TestPresetsLearn(t *testing.T) {
	for name, cfg := range map[string]politeness.Config{
		"zero value": {}, "SiteAudit": siteAudit(), "Bulk": bulk(), "Responsive": responsive(), "Conservative": conservative(),
	} {
		if learns := cfg.Hosts.Delay.Adaptive.Learns(); learns != (name != "Conservative") {
			t.Errorf("%s learns: %v", name, learns)
		}
	}
}

// What the presets' comments say, in numbers.
func TestPresetsHaveTheNumbersOfTheirComments(t *testing.T) {
	for name, test := range map[string]struct {
		cfg    politeness.Config
		limits hostlimit.Config
		spend  budget.Limits
	}{
		"SiteAudit": {
			siteAudit(),
			hostlimit.Config{
				Concurrency: 2,
				Delay:       hostlimit.Delay{Min: 200 * time.Millisecond, Max: 500 * time.Millisecond, Adaptive: hostlimit.Learned},
				SlotTimeout: 10 * time.Second, LeaseTTL: 5 * time.Minute,
			},
			budget.Limits{Pages: 200, Duration: time.Hour, WarnAt: 0.8},
		},
		"Conservative": {
			conservative(),
			hostlimit.Config{
				Concurrency: 1, Delay: hostlimit.Delay{Min: 3 * time.Second, Max: 3 * time.Second, Adaptive: hostlimit.Fixed, FromEnd: true},
				Backoff: backoff.Refusals{
					Policy:   backoff.Doubling{Start: 15 * time.Minute, Cap: 24 * time.Hour, Jitter: [2]float64{0.10, 0.20}},
					Statuses: []int{403}, AtLeast: true, Forgive: 24 * time.Hour,
				},
			},
			budget.Limits{},
		},
		"Bulk": {
			bulk(),
			hostlimit.Config{
				Concurrency: 2, MaxInFlight: 64, MaxWait: 30 * time.Second,
				Delay: hostlimit.Delay{
					Min: 200 * time.Millisecond, Max: 200 * time.Millisecond,
					Adaptive: hostlimit.Longest(hostlimit.Learned, hostlimit.Slower(1)),
				},
				Backoff: backoff.Fibonacci{Unit: time.Second, Cap: 600 * time.Second},
			},
			budget.Limits{},
		},
		"Responsive": {
			responsive(),
			hostlimit.Config{
				Concurrency: 1,
				Delay: hostlimit.Delay{
					Min: 500 * time.Millisecond, Max: 1500 * time.Millisecond, Ceiling: 24 * time.Hour, FromEnd: true,
					Adaptive: hostlimit.Longest(hostlimit.Squared, hostlimit.Learned),
				},
				Backoff: backoff.Fibonacci{Unit: time.Second, Cap: 600 * time.Second},
			},
			budget.Limits{},
		},
	} {
		if !reflect.DeepEqual(test.cfg.Hosts, test.limits) {
			t.Errorf("%s: limits %+v, want %+v", name, test.cfg.Hosts, test.limits)
		}
		if test.cfg.Spend != test.spend {
			t.Errorf("%s: spend %+v, want %+v", name, test.cfg.Spend, test.spend)
		}
	}
	if r := conservative().Robots; r.TTL != time.Hour || r.DenyTTL != 5*time.Minute || !conservative().StrictUserAgent {
		t.Errorf("Conservative: %+v", conservative())
	}
	if siteAudit().Robots.OnUnreachable != robotscache.Allow {
		t.Errorf("SiteAudit: %+v", siteAudit())
	}
	if c := bulk(); c.Retry.Max != 5 || c.Response.MaxBytes != 10<<20 || !c.Response.CheckIndexing {
		t.Errorf("Bulk: %+v", c)
	}
}
