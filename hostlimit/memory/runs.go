package memory

import (
	"context"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// Runs that share a Store and follow each other are paced as one. Gaps of a minute and less aren't
// saved in it. So a key that hasn't started yet in this process pays its gap from New on: the last
// start of an earlier process was before New.

// pay makes h pay its gap from New on, if h hasn't started yet: an earlier process may have started
// a request just before. h is nil without a Store.
func (m *Limiter) pay(h *host, lim *hostlimit.Limits, floor time.Duration) {
	if h == nil {
		return
	}
	sh := m.shard(h.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	isKnown := h.stored != nil && h.stored.paced // adoptStart has taken it over
	if !isKnown && (h.source == noStart || h.origin == ofNew) {
		h.payFrom(m.born, &lim.Delay, floor, m.now())
	}
}

// payFrom makes h keep its gap from the time born on, because an unknown start may have been then.
// If the gap of that start were far, the Store would have the next start.
func (h *host) payFrom(born time.Duration, d *hostlimit.Delay, floor, now time.Duration) {
	random := d.Max
	if d.Min <= far {
		random = min(random, far) // the gap may have been as long as that
	}
	var gap, paid time.Duration
	for _, g := range [...]time.Duration{random, floor, h.adaptive, h.refusals().Learned} {
		gap = max(gap, g)
		if g <= far {
			paid = max(paid, g)
		}
	}
	due := rules.Add(born, paid)
	switch {
	case due <= now && h.origin != ofNew, h.origin == ofNew && gap <= h.gap:
		return
	case due <= now: // the gap is over, also for a start that isn't known
		h.pace(stamp{})
	default:
		h.pace(stamp{due - gap, gap, byRandom}) // due is the next start for this floor too
		h.origin = ofNew
	}
	if h.active != nil {
		h.active.past = h.stamp()
	}
}

// payLater saves when h has paid its gap from New on, if a turn was refused for that gap: the next
// process needn't pay anew.
func (m *Limiter) payLater(ctx context.Context, h *host, lim *hostlimit.Limits, floor time.Duration) {
	if h == nil {
		return
	}
	sh := m.shard(h.key)
	if sh.payingFromNew(h, floor) {
		_, _ = sh.sync(context.WithoutCancel(ctx), h, lim, toSave)
	}
}

// noteNext notes that the next start of h is to be saved, and reports whether it is.
func (sh *shard) noteNext(h *host, floor time.Duration) bool {
	s := h.stored
	at := sh.m.at(h.earliest(floor)).Round(0).UTC()
	if s == nil || laterOf(s.debt.NextStart, s.unsaved.NextStart).After(at.Add(-margin)) {
		return false
	}
	s.unsaved.NextStart = at
	s.tried = false
	return true
}

// payingFromNew notes that the next start of h is to be saved, if h still pays its gap from New on.
// It reports whether that is to be saved.
func (sh *shard) payingFromNew(h *host, floor time.Duration) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return h.origin == ofNew && h.earliest(floor) > sh.m.now() && sh.noteNext(h, floor)
}
