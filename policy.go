package politeness

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A witness is how a Transport tells its evidence: first what it has promised, then each decision
// under its own name.
type witness struct {
	sink   *evidence.Guard
	id     string // beginning of the policy's, by which records name the Transport
	policy *evidence.Policy

	opening atomic.Bool   // somebody states the policy
	stated  atomic.Bool   // it is stated
	opened  chan struct{} // closed then

	mu  sync.Mutex
	own map[string]hostlimit.Limits // those of the last start on a host for which Override has limits
}

// ownLimits bounds how many hosts' own limits are remembered: beyond it they are told anew.
const ownLimits = 100_000

// shortID is how much of its id names a Transport: enough to tell those of one log apart.
const shortID = 6

func newWitness(sink evidence.Evidence, policy *evidence.Policy) *witness {
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	policy.ID = base64.RawURLEncoding.EncodeToString(id[:])
	return &witness{
		sink: evidence.Safe(sink), id: policy.ID[:shortID], policy: policy,
		opened: make(chan struct{}), own: map[string]hostlimit.Limits{},
	}
}

// pass hands d to the evidence. The policy goes before the first record, and is stated no earlier:
// by then the crawl's clock runs.
func (w *witness) pass(ctx context.Context, d *evidence.Decision) {
	if !w.stated.Load() {
		w.open(ctx, d.Time)
	}
	d.Transport = w.id
	w.sink.Pass(ctx, d)
}

// open states the policy, or waits until somebody has.
func (w *witness) open(ctx context.Context, at time.Time) {
	if !w.opening.CompareAndSwap(false, true) {
		<-w.opened
		return
	}
	defer close(w.opened)
	w.sink.Pass(ctx, &evidence.Decision{Type: evidence.PolicyStated, Time: at, Transport: w.id, Allowed: true, Policy: w.policy})
	w.stated.Store(true)
}

// limits tells what limits the start g was given, where they aren't those of the start before.
func (w *witness) limits(ctx context.Context, host string, g *hostlimit.Grant) {
	if !w.policy.Overrides {
		return
	}
	if !w.changed(host, g.Own) {
		return
	}
	l := g.Own
	p := &evidence.Policy{
		Slots: w.policy.Slots, DelayMin: w.policy.DelayMin, DelayMax: w.policy.DelayMax,
		Adaptive: w.policy.Adaptive, Ceiling: w.policy.Ceiling, FromEnd: w.policy.FromEnd,
	}
	if l != nil {
		statesLimits(p, *l)
	}
	w.pass(ctx, &evidence.Decision{
		Type: evidence.PolicyStated, Time: g.Start, Host: host, Seq: g.Seq, Allowed: true, Policy: p,
	})
}

// changed notes the own limits of a host, nil for none, and reports whether they are new.
func (w *witness) changed(host string, l *hostlimit.Limits) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, known := w.own[host]
	switch {
	case l == nil && !known, l != nil && known && old == *l:
		return false
	case l == nil:
		delete(w.own, host)
	default:
		if len(w.own) >= ownLimits {
			clear(w.own)
		}
		w.own[host] = *l
	}
	return true
}

// policyOf states what a Transport made of cfg promises, with every default filled in.
func policyOf(cfg *Config, product string, hosts hostlimit.Config, spend budget.Limits) *evidence.Policy {
	hosts, rules := hosts.WithDefaults(), cfg.Robots.WithDefaults()
	p := &evidence.Policy{
		UserAgent: cfg.UserAgent, From: cfg.From, Product: product,
		Overrides: hosts.Override != nil, MaxInFlight: hosts.MaxInFlight, SlotTimeout: hosts.SlotTimeout,
		LeaseTTL: hosts.LeaseTTL, MaxWait: hosts.MaxWait,
		HostKey:    keyName(cfg.HostKey),
		OwnRefused: cfg.Refused != nil, OwnRules: cfg.Refuse != nil, Purposes: purposesText(cfg.Purposes),
		Pages: spend.Pages, PagesPerHost: spend.PagesPerHost, Bytes: spend.Bytes, MaxTime: spend.Duration, Every: spend.Every,
		Retries: cfg.Retry.Max,
		Robots:  "obeyed", RobotsTTL: rules.TTL, DenyTTL: rules.DenyTTL,
		Unreachable: "deny", ServeStale: rules.ServeStale, Lenient: rules.LenientAgents, RobotsText: rules.RecordText,
	}
	statesLimits(p, hostlimit.Limits{Concurrency: hosts.Concurrency, Delay: hosts.Delay})
	statesRefusals(p, hosts.Backoff.(backoff.Refusals))
	if rules.OnUnreachable == robotscache.Allow {
		p.Unreachable = "allow"
	}
	if cfg.DangerouslyIgnoreRobots {
		p.Robots = "ignored"
		p.RobotsTTL, p.DenyTTL, p.Unreachable, p.ServeStale, p.Lenient, p.RobotsText = 0, 0, "", false, false, false
	}
	return p
}

func statesLimits(p *evidence.Policy, l hostlimit.Limits) {
	d := l.Delay
	p.Slots, p.DelayMin, p.DelayMax, p.FromEnd = l.Concurrency, d.Min, d.Max, d.FromEnd
	p.Adaptive, p.Ceiling = d.Adaptive.String(), d.Ceiling
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

// keyName tells how Config.HostKey makes keys.
func keyName(key func(*http.Request) string) string {
	switch {
	case key == nil:
		return "host"
	case reflect.ValueOf(key).Pointer() == reflect.ValueOf(BySite).Pointer():
		return "site"
	}
	return "own"
}
