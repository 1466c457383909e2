// Package recorder writes the records of a Transport.
package recorder

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/robots"
)

// A Recorder writes a Transport's records: its policy first, then each decision, marked with the
// Transport's id. A nil Recorder writes nothing.
type Recorder struct {
	sink   *evidence.Guard
	id     string // beginning of the policy's id, in each record
	policy *evidence.Policy
	name   func(context.Context) (limiter, process string)

	opening atomic.Bool   // one goroutine writes the policy
	stated  atomic.Bool   // the policy is written
	opened  chan struct{} // closed then

	mu sync.Mutex
	// Limits of the last start on each host that has limits of its own.
	own *simplelru.LRU[string, hostlimit.Limits]
}

const (
	ownLimits = 100_000 // hosts whose own limits are remembered: those of others are recorded again
	shortID   = 6       // length of the id in records: enough to distinguish the Transports of one log
)

// New returns a Recorder that writes to sink, and gives policy its id; name, the ID of the limiter,
// is called for it when the policy is written.
func New(
	sink evidence.Evidence, policy *evidence.Policy, name func(context.Context) (limiter, process string),
) *Recorder {
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	policy.ID = base64.RawURLEncoding.EncodeToString(id[:])
	own, _ := simplelru.NewLRU[string, hostlimit.Limits](ownLimits, nil) // fails for sizes below 1
	return &Recorder{
		sink:   evidence.Safe(sink),
		id:     policy.ID[:shortID],
		policy: policy,
		name:   name,
		opened: make(chan struct{}),
		own:    own,
	}
}

// Err returns what the sink lost: see evidence.Guard.
func (r *Recorder) Err() error {
	if r == nil {
		return nil
	}
	return r.sink.Err()
}

// Purposes returns what pages are fetched for, as the policy states it.
func (r *Recorder) Purposes() string { return r.policy.Purposes }

// Pass writes d to the sink. The policy goes before the first record, and no earlier: by then
// the crawl's clock runs.
func (r *Recorder) Pass(ctx context.Context, d *evidence.Decision) {
	if r == nil {
		return
	}
	// Once the policy is written, a record costs no lock.
	if !r.stated.Load() {
		r.open(ctx, d.Time)
	}
	d.Transport = r.id
	r.sink.Pass(ctx, d)
}

// open writes the policy, or waits until another goroutine has.
func (r *Recorder) open(ctx context.Context, at time.Time) {
	if !r.opening.CompareAndSwap(false, true) {
		// No record may come before the policy.
		<-r.opened
		return
	}
	// Goroutines that wait continue even if the sink panics.
	defer close(r.opened)
	r.nameLimiter(ctx)
	r.sink.Pass(ctx, &evidence.Decision{
		Type:      evidence.PolicyStated,
		Time:      at,
		Transport: r.id,
		Allowed:   true,
		Policy:    r.policy,
	})
	r.stated.Store(true)
}

// nameLimiter makes the policy name its limiter. The name of one that panics stays empty.
func (r *Recorder) nameLimiter(ctx context.Context) {
	defer func() { _ = recover() }()
	r.policy.Limiter, r.policy.Process = r.name(ctx)
}

// Limits records the limits of a start on host, where they aren't those of the start before.
func (r *Recorder) Limits(ctx context.Context, host string, g *hostlimit.Grant) {
	if !r.policy.Overrides || !r.changed(host, g.Own) {
		return
	}
	// Without limits of its own the host has those of all hosts again.
	p := &evidence.Policy{
		Slots:    r.policy.Slots,
		DelayMin: r.policy.DelayMin,
		DelayMax: r.policy.DelayMax,
		Adaptive: r.policy.Adaptive,
		Ceiling:  r.policy.Ceiling,
		FromEnd:  r.policy.FromEnd,
	}
	if g.Own != nil {
		StateLimits(p, *g.Own)
	}
	r.Pass(ctx, &evidence.Decision{
		Type:    evidence.PolicyStated,
		Time:    g.Start,
		Host:    host,
		Seq:     g.Seq,
		Allowed: true,
		Policy:  p,
	})
}

// StateLimits makes p state the limits l of a host.
func StateLimits(p *evidence.Policy, l hostlimit.Limits) {
	d := l.Delay
	p.Slots = l.Concurrency
	p.DelayMin = d.Min
	p.DelayMax = d.Max
	p.FromEnd = d.FromEnd
	p.Adaptive = d.Adaptive.String()
	p.Ceiling = d.Ceiling
}

// StatePurposes makes p state what the pages are fetched for: "train, search".
func StatePurposes(p *evidence.Policy, purposes []robots.Purpose) {
	names := make([]string, len(purposes))
	for i, purpose := range purposes {
		names[i] = purpose.String()
	}
	p.Purposes = strings.Join(names, ", ")
}

// StateRefusals makes p state what counts as a refusal, and for how long it blocks.
func StateRefusals(p *evidence.Policy, r backoff.Refusals) {
	statuses := slices.Clone(r.Statuses)
	slices.Sort(statuses)
	p.Statuses = ranges(slices.Compact(statuses))
	p.Network = r.Network
	p.AtLeast = r.AtLeast
	p.InARow = r.InARow
	p.MaxRetryAfter = r.MaxRetryAfter
	p.Forgive = r.Forgive
	switch b := r.Policy.(type) {
	case backoff.Fibonacci:
		p.Backoff = "fibonacci"
		p.BackoffStep = b.Unit
		p.BackoffCap = b.Cap
	case backoff.Doubling:
		p.Backoff = "doubling"
		p.BackoffStep = b.Start
		p.BackoffCap = b.Cap
		p.JitterMin = b.Jitter[0]
		p.JitterMax = b.Jitter[1]
	default:
		p.Backoff = "own"
	}
}

// ranges writes sorted numbers as "403,520-530".
func ranges(numbers []int) string {
	var b []byte
	for i := 0; i < len(numbers); i++ {
		first := i
		// i ends at the last of the numbers that follow one another.
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

// changed stores a host's own limits, nil for none, and reports whether they are new.
func (r *Recorder) changed(host string, l *hostlimit.Limits) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A host whose override is gone has the limits of all again, which is a change once.
	if l == nil {
		return r.own.Remove(host)
	}
	// A host that was forgotten counts as new: its limits are recorded once more.
	old, known := r.own.Get(host)
	if known && old == *l {
		return false
	}
	r.own.Add(host, *l)
	return true
}

// TakenBack records that slots were taken back before a start at the given time. The records name
// the starts that lost their slots and no request, since those were other ones.
func (r *Recorder) TakenBack(ctx context.Context, leases []hostlimit.TakenBack, at time.Time) {
	if r == nil {
		return
	}
	for _, lease := range leases {
		d := evidence.Decision{
			Type: evidence.LeaseExpired,
			Time: at,
			Host: lease.Key,
			Reason: "a response body on this host was not closed in time (LeaseTTL); its slot was taken back: " +
				"close the body on every path",
		}
		r.NameLease(&d, lease)
		r.Pass(ctx, &d)
	}
}

// NameLease makes d name the start that lost its slot.
func (r *Recorder) NameLease(d *evidence.Decision, lease hostlimit.TakenBack) {
	own := cmp.Or(r.policy.Process, r.policy.Limiter)
	process := cmp.Or(lease.Process, own)
	d.Of = process + "/" + strconv.FormatUint(lease.Seq, 10)
	// A number of another process isn't one of this log's.
	if process == own {
		d.Seq = lease.Seq
	}
}

// State records a block of host that was restored from the Store, and what a person has done to it,
// unless they are nil. Neither is the doing of a request, so their records name none.
func (r *Recorder) State(ctx context.Context, host string, restored *hostlimit.Restored, act *hostlimit.Debt) {
	// Each request calls it, deep in calls, and hardly ever for something. A Decision is large, so the
	// stack must have room for one only then.
	if restored != nil {
		r.restored(ctx, host, restored)
	}
	if act != nil {
		r.byHand(ctx, host, act)
	}
}

// restored records a block that was restored from the Store.
func (r *Recorder) restored(ctx context.Context, host string, restored *hostlimit.Restored) {
	d := evidence.Decision{
		Type:     evidence.HostBlocked,
		Time:     restored.Met,
		Host:     host,
		Restored: true,
		Until:    restored.BlockedUntil,
		RetryAt:  restored.BlockedUntil,
		Refusals: rules.InARow(&restored.Debt),
		Reason:   "restored: " + restored.Cause,
	}
	if !restored.BlockedAt.IsZero() {
		d.Reason += ago(restored.Met.Sub(restored.BlockedAt))
	}
	r.Pass(ctx, &d)
}

// byHand records what a person has done to a host.
func (r *Recorder) byHand(ctx context.Context, host string, act *hostlimit.Debt) {
	d := evidence.Decision{
		Type:    evidence.HostBlocked,
		Time:    act.BlockedAt,
		Host:    host,
		Hand:    true,
		Until:   act.BlockedUntil,
		RetryAt: act.BlockedUntil,
		Reason:  act.Cause,
	}
	if !act.ClearedAt.IsZero() {
		d.Type = evidence.HostCleared
		d.Time = act.ClearedAt
		d.Allowed = true
		d.Reason = "by hand"
	}
	r.Pass(ctx, &d)
}

// Act records what a person has done to the limiter.
func (r *Recorder) Act(a hostlimit.Act) {
	ctx := context.Background()
	r.State(ctx, a.Key, a.Restored, a.ByHand)
	if a.Drained {
		r.Pass(ctx, &evidence.Decision{
			Type:   evidence.Drained,
			Time:   time.Now(),
			Hand:   true,
			Reason: "by hand: no request starts any more",
		})
	}
}

// ago returns roughly how long ago something was.
func ago(d time.Duration) string {
	switch {
	case d < 0: // the clock has been set back
		return ""
	case d < time.Minute:
		return fmt.Sprintf(", %d s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf(", %d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf(", %d h ago", d/time.Hour)
	}
	return fmt.Sprintf(", %d days ago", d/(24*time.Hour))
}
