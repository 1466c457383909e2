package politeness

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/internal/recorder"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// policyOf states what a Transport made of cfg promises, with every default filled in.
func policyOf(cfg *Config, product string, hosts hostlimit.Config, spend budget.Limits) *evidence.Policy {
	hosts, rules := hosts.WithDefaults(), cfg.Robots.WithDefaults()
	p := &evidence.Policy{
		UserAgent: cfg.UserAgent, From: cfg.From, Product: product,
		Overrides: hosts.Override != nil, MaxInFlight: hosts.MaxInFlight, SlotTimeout: hosts.SlotTimeout,
		LeaseTTL: hosts.LeaseTTL, MaxWait: hosts.MaxWait, HostKey: keyName(cfg.HostKey),
		OwnRefused: cfg.Refused != nil, OwnRules: cfg.Refuse != nil, Purposes: purposesText(cfg.Purposes),
		Pages: spend.Pages, PagesPerHost: spend.PagesPerHost, Bytes: spend.Bytes, MaxTime: spend.Duration, Every: spend.Every,
		Retries: cfg.Retry.Max, Robots: "ignored",
	}
	recorder.StateLimits(p, hostlimit.Limits{Concurrency: hosts.Concurrency, Delay: hosts.Delay})
	statesRefusals(p, hosts.Backoff.(backoff.Refusals))
	if !cfg.DangerouslyIgnoreRobots {
		p.Robots, p.RobotsTTL, p.DenyTTL, p.Unreachable = "obeyed", rules.TTL, rules.DenyTTL, "deny"
		p.ServeStale, p.Lenient, p.Patterns, p.RobotsText = rules.ServeStale, rules.LenientAgents, rules.AgentPatterns, rules.RecordText
		if rules.OnUnreachable == robotscache.Allow {
			p.Unreachable = "allow"
		}
	}
	return p
}

// statesRefusals states what counts as a refusal, and for how long it blocks.
func statesRefusals(p *evidence.Policy, r backoff.Refusals) {
	statuses := slices.Clone(r.Statuses)
	slices.Sort(statuses)
	p.Statuses = ranges(slices.Compact(statuses))
	p.Network, p.AtLeast, p.InARow = r.Network, r.AtLeast, r.InARow
	p.MaxRetryAfter, p.Forgive = r.MaxRetryAfter, r.Forgive
	switch b := r.Policy.(type) {
	case backoff.Fibonacci:
		p.Backoff, p.BackoffStep, p.BackoffCap = "fibonacci", b.Unit, b.Cap
	case backoff.Doubling:
		p.Backoff, p.BackoffStep, p.BackoffCap = "doubling", b.Start, b.Cap
		p.JitterMin, p.JitterMax = b.Jitter[0], b.Jitter[1]
	default:
		p.Backoff = "own"
	}
}

// ranges writes sorted numbers as "403,520-530".
func ranges(numbers []int) string {
	var b []byte
	for i := 0; i < len(numbers); i++ {
		first := i
		for i+1 < len(numbers) && numbers[i+1] == numbers[i]+1 {
			i++
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(numbers[first]), 10)
		if i > first {
			b = strconv.AppendInt(append(b, '-'), int64(numbers[i]), 10)
		}
	}
	return string(b)
}

// keyName returns the name of a Config.HostKey in policies.
func keyName(key func(*http.Request) string) string {
	switch {
	case key == nil:
		return "host"
	case reflect.ValueOf(key).Pointer() == reflect.ValueOf(BySite).Pointer():
		return "site"
	}
	return "own"
}
