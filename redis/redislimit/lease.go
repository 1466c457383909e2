package redislimit

import (
	"cmp"
	"context"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// Start implements [hostlimit.Lease]. The first one costs nothing if it comes within
// the window that the server granted; a later one, and one outside of it, asks the
// server again, which takes the lease's earlier start back. While the server can't be
// reached, such a Start is refused, with FailLocal as well.
func (t *lease) Start(ctx context.Context) (hostlimit.Grant, error) {
	if t.local != nil {
		return t.startLocal(ctx)
	}
	l := t.l
	// Before the lock, as a context is any code.
	caller := l.caller(ctx)
	ctxErr := ctx.Err()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(t.ended(), ctxErr, l.closes(t.h.key)); err != nil {
		t.start.stamp = 0 // the release reports no start
		return hostlimit.Grant{}, err
	}
	now := l.now()
	if t.mayStart(now) {
		t.stamp(now)
		return t.grant(), nil
	}
	t.joinAgain(caller)
	err := t.awaitUnlocked(ctx)
	t.use.renewed = l.now() // LeaseTTL is no bound for the wait
	if err != nil {
		return hostlimit.Grant{}, err
	}
	return t.grant(), nil
}

// ended returns the error of a Start after the lease was released or taken back; nil: it wasn't.
func (t *lease) ended() error {
	if t.phase == held && t.h.leases[t.id] == t {
		return nil
	}
	return &hostlimit.Error{Key: t.h.key, Err: t.l.rules.Ended()}
}

// mayStart reports whether the first start is still within the window of its grant.
func (t *lease) mayStart(now time.Duration) bool {
	at, valid := t.window(now)
	return valid && t.start.take == 0 && now >= at && !t.missed(now)
}

// joinAgain makes t wait for its own next start.
func (t *lease) joinAgain(caller caller) {
	t.start.stamp = 0 // the next question takes the start back
	t.phase = waiting
	t.wait.caller = caller
	t.wait.rank = mostRank
	t.wait.noticed = false
	t.wait.next = askNow
	t.join()
}

// awaitUnlocked is await for a caller that holds mu. Functions of the user may panic in it.
func (t *lease) awaitUnlocked(ctx context.Context) error {
	t.l.mu.Unlock()
	defer t.l.mu.Lock()
	return t.l.refused(t.await(ctx))
}

// startLocal is Start of a turn that this process gave itself.
func (t *lease) startLocal(ctx context.Context) (hostlimit.Grant, error) {
	l, h := t.l, t.h
	grant, err := t.local.Start(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err = cmp.Or(err, l.closes(h.key)); err != nil {
		return grant, err
	}
	now := l.now()
	// The Memory waits for the share of one process; the fleet owes a part of that to the host.
	owed := grant.Delay / time.Duration(l.conf.Processes)
	h.seq++
	// For the server, which gets the lease by a restore: as if its first question had allowed it.
	t.asks = 1
	t.start.take = 1
	t.start.seq = h.seq
	t.start.began = now
	t.use.renewed = now
	t.granted.delay = owed
	h.known.Begin(t, now, owed)
	reported := h.news.take()
	// The Memory's own count, and what it read from its Store, are no news of the host.
	grant.Seq = h.seq
	grant.Prev = time.Time{}
	grant.BlockedUntil = time.Time{}
	grant.TakenBack = nil
	grant.Restored = reported.restored
	grant.StateErr = reported.stateErr
	grant.WaitDelay += t.use.waited[delay] // at the gate, in front of the Memory
	return grant, nil
}

// grant describes the start.
func (t *lease) grant() hostlimit.Grant {
	g := &t.granted
	reported := t.h.news.take()
	return hostlimit.Grant{
		Seq:          t.start.seq,
		Start:        t.l.base.Add(t.start.began),
		At:           onServer(t.start.stamp),
		Prev:         onServer(g.prev),
		BlockedUntil: onServer(g.report.Until),
		Delay:        g.delay,
		DelaySource:  g.source,
		Slot:         g.slots,
		Slots:        t.limits.Concurrency,
		Probe:        g.probe,
		WaitSlot:     t.use.waited[slot],
		WaitDelay:    t.use.waited[delay],
		WaitBlock:    t.use.waited[block],
		Own:          t.l.rules.Own(t.limits),
		TakenBack:    t.h.news.takeTakenBack(),
		Restored:     reported.restored,
		StateErr:     reported.stateErr,
		ByHand:       reported.byHand,
	}
}

// onServer returns a time of the server's clock, which counts from 1970, for a record; zero for 0.
func onServer(us wire.Micros) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(us)).In(time.UTC)
}

// Release implements [hostlimit.Lease]. It doesn't wait for the server, unless the Limiter is
// closed.
func (t *lease) Release() (expired bool) {
	if t.local == nil {
		return t.release()
	}
	t.release()
	// The Memory has the last Renew as well, and its own LeaseTTL.
	return t.local.Release()
}

// release is Release of a lease of the server's.
func (t *lease) release() (expired bool) {
	l, h := t.l, t.h
	l.mu.Lock()
	afterClose := l.closed && !t.use.released
	if !t.use.released {
		t.refuse(&hostlimit.Error{Key: h.key, Err: l.rules.Ended()}) // a Start that waits
		t.use.released = true
		t.phase = over
		t.end(l.now())
		// The server has no record of a turn that began and ended while it was away.
		if !t.use.unshared {
			undone := t.start.take == 0
			h.p.dropStarted(t.id) // the release reports it as well
			h.p.add(t.releaseOp(undone, t.start.stamp))
		}
	}
	expired = t.use.expired
	l.mu.Unlock()
	if afterClose {
		h.p.last() // no goroutine of the Limiter is left to send it
	}
	return expired
}

// releaseOp gives the slot of t back on the server. undone is true if no start has followed the
// last GO; stamp is 0 if the start is void.
func (t *lease) releaseOp(undone bool, stamp wire.Micros) op {
	return op{
		h: t.h,
		request: &wire.Release{
			ID:      t.id,
			Slots:   t.limits.Concurrency,
			Undone:  undone,
			Started: t.start.take,
			Stamp:   stamp,
			By:      t.start.by,
		},
		owed: true,
	}
}

// end takes the lease off the books of this process.
func (t *lease) end(now time.Duration) {
	h := t.h
	if _, ok := h.leases[t.id]; !ok {
		return // it has ended before, by LeaseTTL
	}
	t.use.expired = t.use.isExpired(now, t.l.limits.LeaseTTL)
	fromEnd := t.limits.Delay.FromEnd || t.use.unanswered
	// Otherwise the start has set the gap already.
	if t.start.take != 0 && fromEnd {
		h.known.Finish(now, t.granted.delay)
	}
	delete(h.leases, t.id)
	if t.hasPlace {
		t.hasPlace = false
		t.l.places.free(h.site)
	}
}

// isExpired reports whether the lease wasn't renewed for ttl.
func (u *use) isExpired(now, ttl time.Duration) bool {
	return now-u.renewed >= ttl
}

// Renew implements [hostlimit.Lease].
func (t *lease) Renew() {
	if t.local != nil {
		t.local.Renew()
	}
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	// A quarter leaves time for the server to be away.
	early := now-t.use.renewed < l.limits.LeaseTTL/4
	current := t.h.leases[t.id] == t
	if l.closed || early || t.use.unshared || !current {
		return
	}
	t.use.renewed = now
	t.h.p.add(op{h: t.h, request: &wire.Renew{ID: t.id}, owed: true})
}
