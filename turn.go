package politeness

import (
	"errors"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// waitTurn reserves a page and waits for a slot on the host and for the host's
// start time.
func (trip *trip) waitTurn() error {
	if err := trip.reserve(); err != nil {
		return err
	}
	lease, err := trip.acquire()
	if err != nil {
		return err
	}
	trip.lease = lease
	g := trip.grant()
	trip.seq, trip.start = g.Seq, g.Start
	if g.Start.IsZero() { // a limiter that doesn't tell
		trip.start = time.Now()
	}
	if trip.limited() && trip.waited() {
		// What could be foreseen of the wait was its least length.
		return trip.checkBudget(trip.start)
	}
	return nil
}

// waited reports whether the start came noticeably later than the verdict: what was
// true then may not be true any more.
func (trip *trip) waited() bool { return trip.start.Sub(trip.asked) > time.Millisecond }

// acquire takes a turn on the host. A wait that would outlast the budget's time
// isn't begun.
func (trip *trip) acquire() (hostlimit.Lease, error) {
	t, ctx := trip.t, trip.req.Context()
	sent := func() {}
	switch {
	case trip.exempt:
		ctx, sent = robotscache.Queue(ctx) // our own wait isn't the origin's slowness
	case trip.limited():
		if t.memory != nil && ctx.Err() == nil {
			if lease, ok := t.memory.TryAcquire(trip.host, trip.floor); ok {
				return lease, nil
			}
		}
		next, err := t.hosts.Next(ctx, trip.host, trip.floor)
		if err != nil {
			return nil, trip.noTurn(err)
		}
		if err := trip.checkBudget(next); err != nil {
			return nil, err
		}
	}
	lease, err := t.hosts.Acquire(ctx, trip.host, trip.floor)
	sent()
	if err != nil {
		return nil, trip.noTurn(err)
	}
	return lease, nil
}

// noTurn reports a refused turn.
func (trip *trip) noTurn(err error) error {
	var refused *hostlimit.Error
	if !errors.As(err, &refused) {
		// The caller left, or the limiter failed.
		trip.recordFailure(err)
		return trip.fail(StageTurn, time.Time{}, err)
	}
	if !trip.silent {
		d := trip.decision(evidence.SlotTimeout, time.Now())
		d.Reason, d.RetryAt = refused.Err.Error(), refused.RetryAt
		trip.record(&d)
	}
	return trip.fail(StageTurn, refused.RetryAt, refused.Err)
}

// grant tells how the turn that is held came about, as far as the limiter does.
func (trip *trip) grant() hostlimit.Grant {
	if g, ok := trip.lease.(interface{ Grant() hostlimit.Grant }); ok {
		return g.Grant()
	}
	return hostlimit.Grant{}
}

// recordStart reports the turn that is held. It is called once the request is out:
// a slow sink between the stamp and the sending would bring two sends closer
// together than their stamps are.
func (trip *trip) recordStart() {
	if trip.silent {
		return
	}
	g := trip.grant()
	for range g.Expired {
		d := trip.decision(evidence.LeaseExpired, trip.start)
		d.Reason = "a response body on this host was not closed in time; its slot was taken back"
		trip.record(&d)
	}
	var d evidence.Decision
	trip.describe(&d, evidence.Started, trip.start)
	d.Start, d.Allowed = trip.start, true
	d.Seq, d.Slot, d.Slots, d.Probe = g.Seq, g.Slot, g.Slots, g.Probe
	d.WaitSlot, d.WaitDelay, d.WaitBlock, d.Delay = g.WaitSlot, g.WaitDelay, g.WaitBlock, g.Delay
	d.CrawlDelay = trip.floor
	trip.record(&d)
}

// leave gives a turn back that led to no exchange worth learning from.
func (trip *trip) leave(why string) {
	trip.recordStart()
	lease := trip.lease
	trip.lease = nil
	now := time.Now() // before the slot is somebody else's
	lease.Release()
	if !trip.silent {
		d := trip.decision(evidence.Failed, now)
		d.Seq, d.Start, d.Duration, d.Reason = trip.seq, trip.start, now.Sub(trip.start), why
		trip.record(&d)
	}
}

// recordFailure reports an attempt that ended before its start.
func (trip *trip) recordFailure(err error) {
	if trip.silent {
		return
	}
	d := trip.decision(evidence.Failed, time.Now())
	d.Reason, d.Err = "ended before its start", err.Error()
	trip.record(&d)
}
