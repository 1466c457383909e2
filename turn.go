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
	if err := trip.foresee(); err != nil {
		return err
	}
	if err := trip.reserve(); err != nil {
		return err
	}
	ctx, sent := trip.req.Context(), func() {}
	if trip.exempt {
		ctx, sent = robotscache.Queue(ctx) // our own wait isn't the origin's slowness
	}
	lease, err := trip.t.hosts.Acquire(ctx, trip.host, trip.floor)
	sent()
	if err != nil {
		return trip.noTurn(err)
	}
	trip.lease, trip.start = lease, time.Now()
	if trip.metered() && trip.waited(trip.start) {
		// What could be foreseen of the wait was its least length.
		return trip.checkBudget(trip.start)
	}
	return nil
}

// foresee refuses a wait that would outlast the budget's time. It isn't begun, and
// costs no page.
func (trip *trip) foresee() error {
	if !trip.metered() || !trip.t.timed {
		return nil
	}
	next, err := trip.t.hosts.Next(trip.req.Context(), trip.host, trip.floor)
	if err != nil {
		return trip.noTurn(err)
	}
	if !trip.waited(next) {
		return nil // reserve asks
	}
	return trip.checkBudget(next)
}

// depart makes the turn that is held a start: the request is sent right after it.
func (trip *trip) depart() error {
	ctx, sent := trip.req.Context(), func() {}
	if trip.exempt {
		ctx, sent = robotscache.Queue(ctx)
	}
	grant, err := trip.lease.Start(ctx)
	sent()
	if err != nil {
		trip.lease.Release()
		trip.lease = nil
		return trip.noTurn(err)
	}
	trip.grant, trip.start = grant, grant.Start
	return nil
}

// waited reports whether a start comes noticeably later than the verdict: what was
// true then may not be true any more.
func (trip *trip) waited(start time.Time) bool { return start.Sub(trip.asked) > time.Millisecond }

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

// recordStart reports the start. It is called once the request is out:
// a slow sink between the stamp and the sending would bring two sends closer
// together than their stamps are.
func (trip *trip) recordStart() {
	if trip.silent {
		return
	}
	g := &trip.grant
	for _, host := range g.TakenBack {
		trip.recordLeak(host)
	}
	var d evidence.Decision
	trip.describe(&d, evidence.Started, trip.start)
	d.Start, d.Allowed = trip.start, true
	d.Seq, d.Slot, d.Slots, d.Probe = g.Seq, g.Slot, g.Slots, g.Probe
	d.WaitSlot, d.WaitDelay, d.WaitBlock, d.Delay = g.WaitSlot, g.WaitDelay, g.WaitBlock, g.Delay
	d.CrawlDelay = trip.floor
	trip.record(&d)
}

// recordLeak reports a slot of host that was taken back before this start.
func (trip *trip) recordLeak(host string) {
	d := trip.decision(evidence.LeaseExpired, trip.start)
	if host != trip.host {
		d.Host, d.Method, d.URL, d.RobotsTxt = host, "", "", false // what was leaked isn't known
	}
	d.Reason = "a response body on this host was not closed in time; its slot was taken back"
	trip.record(&d)
}

// leave gives back a turn that led to no start: the host is owed nothing for it.
func (trip *trip) leave(why string) {
	trip.lease.Release()
	trip.lease = nil
	if !trip.silent {
		d := trip.decision(evidence.Failed, time.Now())
		d.Reason = why
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
