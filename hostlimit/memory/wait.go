package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// A caller has the values of a request's context. They are read without a lock, because a context
// may run any code.
type caller struct {
	err      error
	deadline time.Time // zero: none
	priority int
	watcher  hostlimit.Watcher // nil: there is none
	name     fmt.Stringer      // nil: there is none
}

// callerOf returns the values of ctx.
func callerOf(ctx context.Context) caller {
	deadline, _ := ctx.Deadline() // zero without one
	return caller{
		err:      ctx.Err(),
		deadline: deadline,
		priority: hostlimit.Priority(ctx),
		watcher:  rules.Watcher(ctx),
		name:     rules.Name(ctx),
	}
}

// newWaiter returns a waiter that arrives now. It can use a start until the deadline of c.
func (sh *shard) newWaiter(c *caller, lim *hostlimit.Limits, floor, now time.Duration) *waiter {
	giveUp := rules.Add(now, sh.m.maxWait)
	w := &waiter{
		priority: c.priority,
		watcher:  c.watcher,
		name:     c.name,
		wake:     make(chan struct{}, 1),
		sh:       sh,
		lim:      lim,
		floor:    floor,
		arrived:  now,
		latest:   giveUp,
		giveUp:   giveUp,
	}
	if !c.deadline.IsZero() {
		// A start exactly at the deadline is too late: net/http would cancel the request
		// immediately.
		if last := rules.Add(now, time.Until(c.deadline)-1); last < w.latest {
			w.latest = last
			w.byContext = true
			w.giveUp = last + 1
		}
	}
	return w
}

// wait waits until w has a lease, or its lease has started, or it is refused. Only the head of a
// queue has a timer, and waiters whose Watcher hasn't been called yet. The others are woken when
// they become the head. key is the key of a w without a lease.
//
// If Override, the context or the Watcher panics or ends the goroutine, w leaves the queue, and its
// lease ends. A panic of the Watcher continues here.
func (w *waiter) wait(ctx context.Context, key string) (*lease, error) {
	hadLease := w.lease != nil
	defer w.endWait(hadLease)
	for {
		var lim *hostlimit.Limits
		var err error
		if !hadLease { // a lease keeps the limits that it was granted by
			lim, err = w.sh.m.rules.Limits(key)
		}
		l := w.look(lim, cmp.Or(err, ctx.Err()))
		if l.over {
			w.over = true
			return w.lease, w.err
		}
		if l.stale != nil {
			w.sh.m.sweep(l.stale) // a leaked lease of another key may hold the place
			continue
		}
		if l.notice != nil {
			w.notifier.call(w.watcher, l.notice)
		}
		var alarm <-chan time.Time
		if l.again != unset {
			alarm = time.After(l.again)
		}
		select { // each case but the last one makes w look again
		case <-w.wake:
		case <-alarm:
		case <-ctx.Done():
		case p := <-w.notifier.ended:
			w.notifier.ended = nil
			if p != nil {
				panic(p)
			}
		}
	}
}

// endWait is called when wait returns, and when left by a panic or by runtime.Goexit.
func (w *waiter) endWait(hadLease bool) {
	if !w.over {
		w.look(nil, w.sh.m.rules.Ended()) // it leaves the queue
	}
	p := w.notifier.join()
	if p == nil {
		return
	}
	if !hadLease && w.lease != nil {
		w.lease.Release() // the caller doesn't get it
	}
	panic(p)
}

// call calls w.Waits.
func (n *notifier) call(w hostlimit.Watcher, about *notice) {
	ended := make(chan any, 1)
	n.ended = ended
	go func() {
		defer func() { ended <- recover() }()
		about.HeldBy = nameOf(about.holder)
		w.Waits(about.Wait)
	}()
}

// join waits for the end of the call, if one runs, and returns its panic.
func (n *notifier) join() any {
	if n.ended == nil {
		return nil
	}
	p := <-n.ended
	n.ended = nil
	return p
}

// A glance is the result of waiter.look.
type glance struct {
	over   bool          // the wait is over: with a lease or a start, or with waiter.err
	again  time.Duration // when to look again, from now on; unset: when w is woken
	notice *notice       // to call the Watcher with; nil: not now
	stale  *places       // w waits for one of them, and one of their leases may have expired; nil: none
}

// look looks whether the wait of w is over. lim are the limits of w now, unless err is set: then
// the limits are wrong, or the caller leaves.
func (w *waiter) look(lim *hostlimit.Limits, err error) glance {
	sh := w.sh
	m := sh.m
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a := w.a
	if a == nil {
		return glance{over: true} // refused meanwhile
	}
	defer sh.free(a) // w may be the last one of its key
	now := m.now()
	a.refresh(now)
	if a.giveUp(w, err, now) {
		return glance{over: true}
	}
	isHead := a.queue.First == w
	if isHead && w.lease == nil && lim != w.lim { // Override returns others than before
		a.limit(lim)
	}
	until := rules.Never
	if isHead { // its timer serves the whole queue
		until = a.decide(w, now)
		if w.a == nil {
			return glance{over: true}
		}
	}
	if w.byContext {
		until = min(until, w.giveUp)
	}
	if isHead && a.lacks != free && until <= now {
		return glance{stale: a.lackedPlaces()}
	}
	notice, again := a.waits(w, now) // after decide, which finds the reason of the wait
	until = min(until, again)
	if until == rules.Never {
		return glance{again: unset, notice: notice}
	}
	return glance{again: until - now, notice: notice}
}

// giveUp ends the wait of w if it has no use any more, and reports whether it does: its lease has
// ended, the deadline has passed, or err is set.
func (a *active) giveUp(w *waiter, err error, now time.Duration) bool {
	if w.lease != nil && w.lease.a == nil {
		a.refuse(w, now, a.sh.m.rules.Ended()) // released while it waited in Start
		return true
	}
	// The timer may come before the context, which may not keep its deadline to the instant.
	tooLate := err == nil && w.byContext && now >= w.giveUp
	if tooLate || errors.Is(err, context.DeadlineExceeded) {
		a.refuse(w, a.again(w, now), a.sh.m.rules.TooLate(true, a.refusing(now)))
		return true
	}
	if err != nil {
		w.err = err
		a.leave(w)
	}
	return err != nil
}

// decide ends the wait of w, the head of the queue: it gets its lease or its start, or is refused.
// Otherwise w waits, until the returned time at the latest.
func (a *active) decide(w *waiter, now time.Duration) time.Duration {
	m := a.sh.m
	if m.open(now) != now { // the windows may have closed at this moment
		a.refuseLate(now)
		if w.a == nil {
			return 0
		}
	}
	why, until := a.waitCause(w.lim, w.floor, now, w.lease)
	if why == free {
		a.serve(w, now)
		return 0
	}
	if why != line && why != perSite {
		a.leavePlaces() // a key that is paced or blocked holds no place
	}
	slotTimeout := a.slotTimeout(w, now)
	first := a.first(now, w.floor)
	switch {
	case now >= slotTimeout:
		_, held := a.longest(now)
		a.refuse(w, a.again(w, now), m.rules.SlotTimeout(w.lim.Concurrency, held))
		return 0
	case first > w.latest:
		a.refuse(w, first, m.rules.TooLate(w.byContext, a.blocked(w.latest)))
		return 0
	case now >= w.giveUp:
		a.refuse(w, a.again(w, now), m.rules.TooLate(false, a.refusing(now)))
		return 0
	}
	// A lease that expires while a block holds the queue frees its slot, which stops the slot
	// clock.
	return min(until, slotTimeout, a.due, w.giveUp, m.closes(now))
}

// serve gives w, the head of the queue, its lease or its start.
func (a *active) serve(w *waiter, now time.Duration) {
	a.leave(w)
	if w.lease == nil {
		w.lease = a.grant(w.lim, w.floor, now, w.name)
	} else {
		a.start(w.lease, now)
	}
	l := w.lease
	bySlot := a.bySlot - w.bySlot
	byBlock := a.byBlock - w.byBlock
	l.waitSlot += bySlot
	l.waitBlock += byBlock
	l.waitDelay += now - w.arrived - bySlot - byBlock
	if a.h.gap > w.lim.Delay.Min { // those behind have counted on the least
		a.refuseLate(now)
	}
}

// slotTimeout keeps the clock of SlotTimeout. It returns when w, the head of the queue, has waited
// too long for a slot, or never while one is free.
func (a *active) slotTimeout(w *waiter, now time.Duration) time.Duration {
	if a.flights.Len < w.lim.Concurrency {
		a.full = rules.Never
		return rules.Never
	}
	if a.full == rules.Never {
		a.full = now // the head looks as soon as the last slot is granted
	}
	if w.lease != nil { // it has its slot, and the clock runs for those behind it
		return rules.Never
	}
	return rules.Add(max(w.arrived, a.full), a.sh.m.slotTimeout)
}

// A sweeper takes back leases that were never released, of keys that no request waits for.
type sweeper struct {
	mu    sync.Mutex                            // held by a sweep; locked before those of shards
	swept atomic.Pointer[[]hostlimit.TakenBack] // the next Grant reports them; nil: none
}

// report returns the leases that were taken back, once.
func (s *sweeper) report() []hostlimit.TakenBack {
	if s.swept.Load() == nil { // nearly always
		return nil
	}
	if swept := s.swept.Swap(nil); swept != nil {
		return *swept
	}
	return nil
}

// add queues leases for report. The caller holds mu.
func (s *sweeper) add(leases []hostlimit.TakenBack) {
	if len(leases) > 0 {
		leases = append(s.report(), leases...)
		s.swept.Store(&leases)
	}
}

// sweep takes back expired leases of all keys, if one of those that hold places of p may have
// expired. A leaked lease holds a place even if no request waits for its key and would take it
// back.
func (m *Limiter) sweep(p *places) {
	m.sweeper.mu.Lock()
	defer m.sweeper.mu.Unlock()
	p.mu.Lock()
	if p.due > m.now() {
		p.mu.Unlock()
		return // another waiter has swept
	}
	// Leases that are granted during the sweep set due anew. The lock isn't held during the sweep,
	// because the locks of shards come before it.
	p.due = rules.Never
	p.mu.Unlock()
	due := rules.Never
	for a, now := range m.actives {
		inFlight := a.flights.Len
		a.refresh(now)
		if a.flights.Len < inFlight {
			// Immediately, under the lock of the shard: so a start of the key reports them once,
			// here or there.
			m.sweeper.add(a.h.leaked())
		}
		if p == m.places || (a.site != nil && p == &a.site.places) {
			due = min(due, a.due)
		}
	}
	p.mu.Lock()
	p.due = min(p.due, due) // leases may have been granted meanwhile
	p.mu.Unlock()
}

// actives yields the state of each key that has leases or waiters, under the lock of its shard, and
// the time.
func (m *Limiter) actives(yield func(a *active, now time.Duration) bool) {
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		now := m.now()
		for _, a := range sh.actives {
			if a.h == nil { // spare
				continue
			}
			if !yield(a, now) {
				sh.mu.Unlock()
				return
			}
			sh.free(a) // the last lease may have expired, the last waiter been refused
		}
		sh.mu.Unlock()
	}
}
