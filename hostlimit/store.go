package hostlimit

import (
	"context"
	"strings"
	"time"

	"github.com/go-politeness/politeness/internal/statedir"
)

// A Store keeps the debts of keys beyond the life of a process, so that a crawler that is started
// every hour is as polite as one that never stops. [Dir] is the Store on disk, and Config.Store
// takes it. Implementations are safe for concurrent use.
//
// A Store may have a further method, as that of Dir has. Without it, nobody notices that two
// processes use one state, and evidence has no id of the state:
//
//	Hold(ctx context.Context) (id, by string, err error)
//
// Hold takes the state for this process, until the process ends. If another process has the state,
// Hold waits for it until ctx is done. The second result, by, describes the process that still has
// the state when Hold returns. If no other process has it, by is empty. The first result, id, has
// at most 16 characters. It is the same in all runs and processes that keep their state there.
// Evidence writes id into its records of type "policy".
type Store interface {
	// Update replaces the debt of key by the result of change. It is atomic over goroutines and
	// over every process that uses the same store. A change that returns its argument makes Update
	// a read, which is cheap.
	//
	// change depends on its argument alone. It is called once, and again if another Update of the
	// key came in between. Update keeps and returns the result of the last call.
	//
	// If Update returns an error, the returned debt is valid too. Either the old debt couldn't be
	// read, and change was called with the zero Debt. Or the new debt couldn't be saved, and the Store
	// keeps the old debt. The ctx bounds the wait for other processes.
	Update(ctx context.Context, key string, change func(Debt) Debt) (Debt, error)
}

// A Debt is the part of a key's state that its next request must respect, such as a block, a delay
// or a next start. The zero Debt restricts nothing. A Store returns times in UTC and without a
// reading of the monotonic clock, so that debts compare by ==.
type Debt struct {
	BlockedUntil time.Time     `json:"blockedUntil,omitzero"` // end of the block, zero if the key isn't blocked
	NextStart    time.Time     `json:"nextStart,omitzero"`    // when the next request may start, zero if not known
	Refusals     int           `json:"refusals,omitzero"`     // refusals in a row, as by 429
	Unsure       int           `json:"unsure,omitzero"`       // unsure responses in a row, such as 500
	Bans         int           `json:"bans,omitzero"`         // bans in a row
	Cause        string        `json:"cause,omitzero"`        // cause of the block, such as "status 429"
	Delay        time.Duration `json:"delay,omitzero"`        // learned delay, 0 if there is none
	Slow         bool          `json:"slow,omitzero"`         // a ban has lengthened Delay, so it shrinks slowly
	BlockedAt    time.Time     `json:"blockedAt,omitzero"`    // when the block was set, zero if not known

	// Adaptive is the delay by response times, if it is longer than Delay.Max, and 0 otherwise. It
	// may be rounded up.
	Adaptive time.Duration `json:"adaptive,omitzero"`

	// ClearedAt is the time of the last lifting of a block. If a success lifted the block, it is
	// the time at which the request with that success started. If an operator did, it is the time
	// of Clear. It is zero if not known.
	ClearedAt time.Time `json:"clearedAt,omitzero"`
	// FreedAt is when an operator lifted a block last. A block by an operator is lifted only if
	// FreedAt is later than BlockedAt. It is zero if not known.
	FreedAt time.Time `json:"freedAt,omitzero"`
}

// Merge joins the debts of a key that two processes know of. If a block was set before the last
// clearing, the block is lifted, with its counters and cause. A block by hand is lifted only if an
// operator has cleared the key since. Of two blocks, the later end and the larger counters apply.
// The cause is that of the block with the later end. If an operator set a block, its cause applies.
// The longer delay and the later next start apply.
//
// It is for implementers of Limiter. A debt may be merged in any order, and more than once. There
// is one exception. Suppose that a key was cleared after a first block and before a second one. If
// the two blocks are merged first, and then the clearing, the clearing lifts nothing. So the end,
// the counters and the cause may be those of the first block. In another order the clearing lifts
// the first block.
func (d Debt) Merge(o Debt) Debt {
	cleared := later(d.ClearedAt, o.ClearedAt)
	freed := later(d.FreedAt, o.FreedAt)
	d = d.clearedAt(cleared, freed).portable()
	o = o.clearedAt(cleared, freed).portable()
	longer := max(d.Delay, o.Delay)
	slow := (d.Slow && d.Delay == longer) || (o.Slow && o.Delay == longer)
	return Debt{ // the clearings are the same in both now
		BlockedUntil: later(d.BlockedUntil, o.BlockedUntil),
		NextStart:    later(d.NextStart, o.NextStart),
		Refusals:     max(d.Refusals, o.Refusals),
		Unsure:       max(d.Unsure, o.Unsure),
		Bans:         max(d.Bans, o.Bans),
		Cause:        d.causeWith(o),
		Delay:        longer,
		Slow:         slow,
		Adaptive:     max(d.Adaptive, o.Adaptive),
		BlockedAt:    later(d.BlockedAt, o.BlockedAt),
		ClearedAt:    d.ClearedAt,
		FreedAt:      d.FreedAt,
	}
}

// clearedAt returns d after clearings. The last one was at t, and the last one by an operator at
// freed.
func (d Debt) clearedAt(t, freed time.Time) Debt {
	lifts := t
	if d.byHand() {
		lifts = freed
	}
	if d.BlockedAt.Before(lifts) { // a block that was set at the very clearing stands
		d = d.unblocked()
	}
	d.ClearedAt = t
	d.FreedAt = freed
	return d
}

// unblocked returns d without the block.
func (d Debt) unblocked() Debt {
	d.BlockedUntil = time.Time{}
	d.BlockedAt = time.Time{}
	d.Cause = ""
	d.Refusals = 0
	d.Unsure = 0
	d.Bans = 0
	return d
}

// byHand reports whether an operator has set the block of d.
func (d Debt) byHand() bool { return strings.HasPrefix(d.Cause, "by hand: ") }

// causeWith returns the cause of d's block merged with o's.
func (d Debt) causeWith(o Debt) string {
	dByHand := d.byHand()
	oByHand := o.byHand()
	switch {
	case dByHand && !oByHand: // an operator's cause keeps responses from lifting the block
		return d.Cause
	case oByHand && !dByHand:
		return o.Cause
	case dByHand: // two operators: one of the causes, which doesn't depend on the order
	case d.BlockedUntil.After(o.BlockedUntil):
		return d.Cause
	case o.BlockedUntil.After(d.BlockedUntil):
		return o.Cause
	}
	return max(d.Cause, o.Cause)
}

// later returns the later one of two times.
func later(t, o time.Time) time.Time {
	if o.After(t) {
		return o
	}
	return t
}

// portable returns d as a Store can keep it and give it back.
func (d Debt) portable() Debt {
	for _, t := range [...]*time.Time{&d.BlockedUntil, &d.NextStart, &d.BlockedAt, &d.ClearedAt, &d.FreedAt} {
		*t = t.Round(0).UTC() // as JSON reads it back
	}
	d.Cause = statedir.Text(d.Cause)
	return d
}
