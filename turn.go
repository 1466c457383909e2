package politeness

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
)

// waitTurn reserves a page, and waits for a slot on the host and for the host's start
// time. A wait that is known to outlast the budget's time isn't begun.
func (trip *trip) waitTurn() error {
	for open := false; !open; {
		if err := trip.visit(); err != nil {
			return err
		}
		if err := trip.foresee(); err != nil {
			return err
		}
		if err := trip.reserve(); err != nil {
			return err
		}
		trip.grant, trip.lost = departure{}, nil
		lease, err := trip.t.hosts.Acquire(&trip.wait, trip.host, trip.floor)
		if err != nil {
			return trip.noTurn(err)
		}
		trip.lease = lease
		if now := time.Now(); trip.opens(now).After(now) {
			trip.release() // the site's time to be visited has ended during the wait
		} else {
			open = true
		}
	}
	trip.waited = time.Since(trip.asked) > time.Millisecond
	if trip.waited {
		if err := trip.permit(); err != nil { // the rules may be others by now
			trip.release()
			return err
		}
	}
	if trip.waited && trip.t.budget != nil && trip.kind == kindPage {
		if err := trip.checkBudget(time.Time{}); err != nil { // others have spent meanwhile
			trip.release()
			return err
		}
	}
	return nil
}

// start stamps the start. Nothing but send comes between the stamp and the request.
func (trip *trip) start() error {
	grant, err := trip.lease.Start(&trip.wait)
	if err != nil {
		trip.release()
		return trip.noTurn(err)
	}
	trip.grant = departure{Grant: grant}
	trip.t.tally.starts.Add(1)
	return nil
}

// noTurn reports that a turn was refused, and returns the error for that.
func (trip *trip) noTurn(err error) error {
	var refused *hostlimit.Error
	if !errors.As(err, &refused) {
		// The caller left, or the limiter failed.
		trip.recordFailure(err)
		return trip.fail(StageTurn, time.Time{}, err)
	}
	trip.recordState(refused.Restored, refused.StateErr, refused.ByHand)
	if err := trip.outlasts(refused.RetryAt, err); err != nil {
		return err
	}
	if !trip.silent() {
		d := trip.decision(evidence.SlotTimeout, time.Now())
		d.Reason, d.RetryAt, d.Instead = refused.Err.Error(), refused.RetryAt, trip.grant.instead
		trip.record(&d)
	}
	return trip.fail(StageTurn, refused.RetryAt, refused.Err)
}

// giveLease hands over the turn that is held.
func (trip *trip) giveLease() hostlimit.Lease {
	lease := trip.lease
	trip.lease = nil
	return lease
}

// release gives the turn back, and reports whether its slot had been taken back already.
func (trip *trip) release() (expired bool) {
	return trip.giveLease().Release()
}

// leave gives a turn back that led to no exchange, and records why.
func (trip *trip) leave(why string) {
	lease := trip.lease
	defer lease.Release() // whatever a sink does
	started := !trip.grant.Start.IsZero()
	if started {
		trip.recordStart()
	}
	now := time.Now() // before the slot is somebody else's
	trip.release()
	if trip.silent() {
		return
	}
	d := trip.decision(evidence.Failed, now)
	d.Reason = why
	if started {
		d.Seq, d.Start, d.Duration = trip.grant.Seq, trip.grant.Start, now.Sub(trip.grant.Start)
	}
	trip.record(&d)
}

// recordStart reports the turn that is held. It is called once the request is out: a slow sink
// between the stamp and the sending would bring two sends closer together than their stamps are.
func (trip *trip) recordStart() {
	if trip.silent() {
		return
	}
	typ := evidence.Started
	for i := range trip.lost {
		trip.recordDeparture(typ, &trip.lost[i])
		typ = evidence.Resent
	}
	trip.recordDeparture(typ, &trip.grant)
}

func (trip *trip) recordDeparture(typ evidence.Type, g *departure) {
	trip.recordLeaks(g)
	trip.recordState(g.Restored, g.StateErr, g.ByHand)
	trip.t.evidence.limits(trip.req.Context(), trip.host, &g.Grant)
	var d evidence.Decision
	trip.describe(&d, typ, g.Start)
	d.Start, d.Allowed = g.Start, true
	d.Seq, d.Instead, d.Slot, d.Slots, d.Probe = g.Seq, g.instead, g.Slot, g.Slots, g.Probe
	d.WaitSlot, d.WaitDelay, d.WaitBlock, d.WaitConnect = g.WaitSlot, g.WaitDelay, g.WaitBlock+trip.closed, g.connect
	d.Delay, d.DelaySource, d.CrawlDelay, d.Signed = g.Delay, g.DelaySource, trip.floor, g.signed
	trip.record(&d)
}

// recordLeaks reports the slots that were taken back before the start g.
func (trip *trip) recordLeaks(g *departure) {
	if trip.silent() {
		return
	}
	for _, lease := range g.TakenBack {
		// It names the start that lost its slot, and no request: that is another one's.
		d := evidence.Decision{Type: evidence.LeaseExpired, Time: g.Start, Host: lease.Key, Seq: lease.Seq}
		d.Reason = "a response body on this host was not closed in time (LeaseTTL); its slot was taken back: close the body on every path"
		trip.record(&d)
	}
}

// A departure is one start of a try.
type departure struct {
	hostlimit.Grant
	instead uint64        // number of the start that this one replaced; 0: none
	connect time.Duration // from the call of Base, or the start before, to the connection; 0: at once
	signed  string        // id of the key that the request was signed with; empty: it wasn't
}

// A waitContext bounds a trip's waits. It is the request's context, and is done as well when
// Request.Cancel, or the channel of waits.Until, is closed, and when the trip has ended; its deadline
// is the end of the budget's time where that comes first.
type waitContext struct {
	context.Context
	watcher  *trip      // told of long waits, as hostlimit.Watcher; nil: nobody is
	deadline time.Time  // what Deadline tells, though Done doesn't keep it; zero: the request's
	cancel   *canceller // Request.Cancel and waits.Until; nil: neither
}

// A canceller joins a context with a Request.Cancel and the channel of waits.Until.
type canceller struct {
	cancel <-chan struct{} // nil: none
	leave  <-chan struct{} // nil: none
	once   sync.Once
	done   <-chan struct{} // of either; set by once
	stop   func()          // ends the goroutine that waits for either; set by once
	ended  atomic.Bool     // the trip has ended; set before done is closed, as contexts made from it rely on
}

// Deadline implements context.Context.
func (w *waitContext) Deadline() (time.Time, bool) {
	deadline, ok := w.Context.Deadline()
	if !w.deadline.IsZero() && (!ok || w.deadline.Before(deadline)) {
		return w.deadline, true
	}
	return deadline, ok
}

// Value implements context.Context.
func (w *waitContext) Value(key any) any {
	if key == (hostlimit.WatcherKey{}) && w.watcher != nil {
		w.watcher.urlText() // others ask for it later
		return w.watcher
	}
	return w.Context.Value(key)
}

// Done implements context.Context. Only a wait that really begins asks for it, so that
// http.Client's Timeout, which sets Request.Cancel, costs other requests no goroutine.
func (w *waitContext) Done() <-chan struct{} {
	c := w.cancel
	if c == nil {
		return w.Context.Done()
	}
	c.once.Do(func() {
		either, stop := context.WithCancel(w.Context)
		c.done, c.stop = either.Done(), stop
		go func() {
			select {
			case <-c.cancel:
				stop()
			case <-c.leave:
				stop()
			case <-c.done:
			}
		}()
	})
	return c.done
}

// Err implements context.Context.
func (w *waitContext) Err() error {
	if err := w.Context.Err(); err != nil || w.cancel == nil {
		return err
	}
	select {
	case <-w.cancel.cancel:
		return context.Canceled
	case <-w.cancel.leave:
		return context.Canceled
	default:
	}
	if w.cancel.ended.Load() {
		return context.Canceled
	}
	return nil
}

// end ends the goroutine of Done, if there is one.
func (w *waitContext) end() {
	if c := w.cancel; c != nil {
		c.once.Do(func() { c.done, c.stop = w.Context.Done(), func() {} })
		c.ended.Store(true)
		c.stop()
	}
}

// A hold is what a trip waits for.
type hold struct {
	what   string    // as evidence.Decision.Hold
	until  time.Time // zero: not known
	delay  time.Duration
	source string // of delay
	why    string
}

// Waits implements hostlimit.Watcher.
func (trip *trip) Waits(w hostlimit.Wait) {
	h := hold{what: string(w.Hold), until: w.Until, why: w.String()}
	if w.Hold == "delay" {
		h.delay, h.source = w.Delay, w.Cause
	}
	trip.recordWait(h)
}

// GivesUp implements hostlimit.Watcher. The trip may be over by then: what it reads doesn't change
// any more.
func (trip *trip) GivesUp(seq uint64) {
	trip.t.evidence.pass(trip.wait.Context, &evidence.Decision{
		Type: evidence.Waiting, Time: time.Now(), Trip: trip.id, Method: trip.req.Method, URL: trip.url, Host: trip.host,
		RobotsTxt: trip.kind == kindRobots, Allowed: true, Instead: seq,
		Reason: "a turn was missed or given back, and the number of its start may be used up",
	})
}

// String implements hostlimit.Watcher: it names the request for those who wait for its slot.
func (trip *trip) String() string { return trip.url }

// longWait is the length from which on a wait is on record, as a Limiter tells of its own.
const longWait = time.Second

// recordWait reports a long wait that has begun.
func (trip *trip) recordWait(h hold) {
	if trip.silent() {
		return
	}
	d := trip.decision(evidence.Waiting, time.Now())
	d.Allowed, d.Hold, d.Until, d.Delay, d.DelaySource, d.CrawlDelay, d.Reason = true, h.what, h.until, h.delay, h.source, trip.floor, h.why
	trip.record(&d)
}
