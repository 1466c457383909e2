package hostlimit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"
)

// What a key owes goes to Config.Store and comes back from it in one step, sync: one Update,
// outside of every lock, that merges what this Memory has changed into the debt in the Store
// (Debt.Merge), and then takes over what other processes have changed. One sync of a key runs at a
// time; a call that finds something to save meanwhile waits for it, and mostly finds that it has
// been saved.
//
//	call      state of the key                         what it does
//	Acquire   not read yet, or not for 10 s            sync, then the turn
//	Next      the same                                 sync, then the answer
//	Start     the same; or the next start will be far  sync, then the gate
//	          away
//	Start     stamped, and the next start is far       sync, and the stamp moves behind it
//	Observe   block, counter or learned delay changed  sync, then the Effect
//	Release   the gap counts from now, and is far      sync
//
// The Store is right about all that was saved in it: a block that is gone was lifted by another
// process.
const (
	// fresh is for how long a debt that was read is taken for the present one.
	fresh = 10 * time.Second
	// far is how far away a next start must be to be saved.
	far = time.Minute
	// margin is added to a next start that is saved before the request is sent, so that a stamp which
	// moves a little, as by a dial, needn't be saved anew.
	margin = time.Second
	// easedEvery is how often a delay that has only become shorter is saved.
	easedEvery = time.Minute
)

// stored is the debt of a key in Config.Store. It is guarded by the mutex of the shard.
type stored struct {
	syncing chan struct{} // closed when the present sync of the key is over; nil: none runs

	debt    Debt          // in the Store, after the last Update that succeeded
	unsaved Debt          // what the key owes since, see note
	tried   bool          // the last Update has failed, and unsaved hasn't changed since
	noted   refusals      // what the key owed at the last note; Learned as it was saved
	read    time.Duration // when the last Update was tried; unset: none was
	eased   time.Duration // when the delay was saved or taken over last
	failure error         // why the last Update failed; nil: it didn't

	restored *Restored // block that was taken over, until a Grant or an Error reports it
	err      error     // why the last Update failed, until that is reported
}

// owing returns what h owes. A booking isn't owed for yet, and the gaps to the starts before it are
// over.
func (h *host) owing() refusals {
	o := *h.refusals()
	// the rest isn't kept
	o.Lessons = 0
	o.lesson = lesson{Slow: o.Slow}
	o.suspicion = suspicion{}
	o.takenBack = nil
	if a := h.active; a == nil || a.last == nil || a.last.started {
		o.next = max(o.next, h.earliest(0))
	}
	return o
}

// note adds to s.unsaved how o differs from what the key owed at the last note. A block is set
// after the last clearing, and a clearing comes after the block that it lifts, also where the clock
// has been set back in between.
func (s *stored) note(o refusals, now time.Duration, wall time.Time) {
	was := s.noted
	s.noted = o
	s.noted.Learned = max(o.Learned, was.Learned)
	if s.noted == was {
		return
	}
	at := func(t time.Duration) time.Time { return wall.Add(t - now) }
	known := s.debt.Merge(s.unsaved)
	var d Debt
	if o.clearings != was.clearings {
		d.ClearedAt = later(at(o.cleared), known.BlockedAt.Add(1))
		if o.freed != was.freed {
			d.FreedAt = d.ClearedAt
		}
		known = known.Merge(d)
	}
	counts := o.Row != was.Row || o.Unsure != was.Unsure || o.Bans != was.Bans
	if (o.Until != 0 || o.InARow() != 0) && (o.Until != was.Until || counts || o.Cause != was.Cause) {
		d.BlockedUntil, d.BlockedAt = at(o.Until), later(wall, known.ClearedAt.Add(1))
		d.Refusals = o.Row
		d.Unsure = o.Unsure
		d.Bans = o.Bans
		d.Cause = o.Cause
	}
	if o.Learned > was.Learned || o.Slow && !was.Slow {
		d.Delay, d.Slow = o.Learned, o.Slow
	}
	if o.next != was.next && o.next > now+far && at(o.next).After(known.NextStart) {
		d.NextStart = at(add(o.next, margin))
	}
	if d = s.unsaved.Merge(d); d != s.unsaved {
		s.unsaved, s.tried = d, false
	}
}

// note brings h.stored up to date with what h owes, makes it if there is none, and returns it with
// the moment of that, by the Memory's clock and by the one on the wall.
func (sh *shard) note(h *host) (s *stored, now time.Duration, wall time.Time) {
	sh.m.now() // begins the count
	wall = time.Now()
	now = wall.Sub(sh.m.base)
	if h.stored == nil {
		h.stored = &stored{read: unset}
	}
	h.stored.note(h.owing(), now, wall)
	return h.stored, now, wall
}

// An occasion is what a sync is for.
type occasion int

const (
	toSave   occasion = iota // the key owes something that isn't saved
	toUse                    // the same, or the debt wasn't read for a while
	toDecide                 // always: another process may have changed the debt a moment ago
)

// isDue reports whether there is something to do for a sync.
func (s *stored) isDue(why occasion, now time.Duration) bool {
	return why == toDecide || s.unsaved != Debt{} && !s.tried || why == toUse && (s.read == unset || now-s.read >= fresh)
}

// sync brings h and the Store up to date with each other if that is due, and reports whether it
// was. While another sync of h runs it waits, and then asks again. The error is ctx's; those of the
// Store are reported by the next Grant, Effect or Error.
func (sh *shard) sync(ctx context.Context, h *host, lim *Limits, why occasion) (due bool, err error) {
	m := sh.m
	var s *stored
	var now time.Duration
	var wall time.Time
	for {
		sh.mu.Lock()
		s, now, wall = sh.note(h)
		if sh.hosts[h.key] != h || !s.isDue(why, now) { // evicted, so nothing is owed; or done
			sh.mu.Unlock()
			return due, nil
		}
		due = true
		if s.syncing == nil {
			break
		}
		other := s.syncing
		sh.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return due, ctx.Err()
		}
	}
	s.syncing = make(chan struct{})
	defer func() {
		sh.mu.Lock()
		close(s.syncing)
		s.syncing = nil
		sh.mu.Unlock()
	}()
	x := update{rules: m.rules, now: now, wall: wall, debt: s.debt, unsaved: s.unsaved, learned: h.refusals().Learned}
	x.ease = x.learned < s.noted.Learned && x.unsaved.Delay == 0 && now-s.eased >= easedEvery
	sh.mu.Unlock()

	debt, err := x.save(ctx, m.config.Store, h.key)
	left := ctx.Err() // before the lock: a context is any code
	sh.mu.Lock()
	defer m.handOut()
	defer sh.mu.Unlock()
	if err != nil && left != nil {
		return due, left
	}
	s.read = m.now()
	if err != nil {
		if s.failure == nil {
			s.err = err
		}
		s.failure = err
		// The Store may have lost what it had, so the next Update saves that as well.
		s.tried = s.unsaved == x.unsaved
		s.unsaved, s.debt = s.unsaved.Merge(s.debt), Debt{}
		return due, nil
	}
	s.failure = nil
	s.err = nil
	s.tried = false
	sh.note(h) // what has come in during the Update is yet to be saved
	if s.unsaved == x.unsaved {
		s.unsaved = Debt{}
	}
	if sh.hosts[h.key] == h {
		sh.adopt(h, lim, &x, debt)
	}
	return due, nil
}

// An update is what one sync gives to the Store.
type update struct {
	rules   *Rules
	now     time.Duration // one moment, as the Memory counts it
	wall    time.Time     // and by the clock on the wall
	debt    Debt          // stored.debt
	unsaved Debt          // stored.unsaved
	learned time.Duration // the delay that the key has learned
	ease    bool          // learned has become shorter since it was saved, and is to be saved now
}

// save calls Store.Update, of which a panic is an error.
func (x *update) save(ctx context.Context, s Store, key string) (_ Debt, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("hostlimit: panic in Update of %T: %v", s, p)
		}
	}()
	return s.Update(ctx, key, x.change)
}

// change implements the argument of Store.Update.
func (x *update) change(theirs Debt) Debt {
	d := x.rules.current(theirs, x.wall).Merge(x.rules.current(x.unsaved, x.wall))
	if x.ease && theirs.Delay == x.debt.Delay { // else another process has learned since
		d.Delay, d.Slow = x.learned, theirs.Slow && x.learned > 0
	}
	if d.BlockedUntil.IsZero() && d.InARow() == 0 {
		d.ClearedAt, d.FreedAt = time.Time{}, time.Time{}
	}
	return d
}

// in returns the time of the Memory at which t has surely come: the two clocks aren't read at the
// same instant.
func (x *update) in(t time.Time) time.Duration { return add(add(x.now, t.Sub(x.wall.Round(0))), late) }

// adopt takes over what other processes have changed in the Store, which has debt now: how it
// differs from what change makes of the debt that was there before. What was noted during the
// Update counts on both sides.
func (sh *shard) adopt(h *host, lim *Limits, x *update, debt Debt) {
	s, t := h.stored, h.refusals()
	ours := x.change(x.debt)
	sameDelay := debt.Delay == ours.Delay
	s.debt = debt
	debt, ours = debt.Merge(s.unsaved), ours.Merge(s.unsaved)
	owed := x.rules.Owed(debt, x.wall)
	moved := false
	counts := debt.Refusals != ours.Refusals || debt.Unsure != ours.Unsure || debt.Bans != ours.Bans
	if ends := debt.BlockedUntil != ours.BlockedUntil; ends || counts || debt.Cause != ours.Cause {
		sh.adoptBlock(h, x, owed, ends)
		moved = true
	}
	if debt.NextStart != ours.NextStart && !debt.NextStart.IsZero() {
		t = h.changeRefusals()
		t.next = max(t.next, x.in(owed.NextStart))
		moved = true
	}
	saved := s.noted.Learned
	switch {
	case !sameDelay && lim.Delay.Adaptive.Learns() && t.Learned == x.learned:
		t = h.changeRefusals()
		t.Learned, t.Slow = min(max(0, debt.Delay), lim.Delay.Ceiling), debt.Slow
		moved = h.raise(t.Learned, byLearned) || moved
		saved, s.eased = t.Learned, x.now
	case x.ease || x.unsaved.Delay > 0:
		saved, s.eased = max(x.learned, t.Learned), x.now
	}
	s.noted = h.owing()
	s.noted.Learned = saved
	if a := h.active; moved && a != nil {
		a.changed(sh.m.now(), true)
	}
}

// adoptBlock makes the block of owed that of h. moved is set if it ends at another time.
func (sh *shard) adoptBlock(h *host, x *update, owed Debt, moved bool) {
	t := h.changeRefusals()
	if moved {
		if a := h.active; a != nil {
			a.account(sh.m.now())
			a.probe = nil
		}
		t.Until = 0
		if !owed.BlockedUntil.IsZero() {
			t.Until, t.SetAt = x.in(owed.BlockedUntil), sh.starts // what is in flight started before the block
		}
		if t.Blocks(x.now) {
			h.stored.restored = &Restored{Debt: owed, Met: sh.m.at(x.now)}
		}
	}
	count := func(n int) int { return min(max(0, n), math.MaxUint8) }
	t.Row, t.Unsure, t.Bans = count(owed.Refusals), count(owed.Unsure), count(owed.Bans)
	t.Cause, t.Alone = cmp.Or(owed.Cause, "refused"), t.InARow() > 0
}

// news returns what the next Grant or Error of h reports of the Store, once: a block, unless
// restored is nil, and why the Store has failed.
func (sh *shard) news(h *host, restored **Restored) (err error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s := h.stored
	if s == nil {
		return nil
	}
	if restored != nil {
		*restored, s.restored = s.restored, nil
	}
	err, s.err = s.err, nil
	return err
}

// addNews adds the news of h, if there is a Store, to the error of a refused turn.
func (sh *shard) addNews(h *host, err error) {
	if refused, ok := err.(*Error); ok && h != nil { //nolint:errorlint // made by this package just now
		refused.StateErr = sh.news(h, &refused.Restored)
	}
}

// load syncs key with the Store, if there is one, and returns its host then.
func (m *Memory) load(ctx context.Context, key string, lim *Limits, why occasion) (*host, error) {
	if m.config.Store == nil {
		return nil, nil
	}
	sh := m.shard(key)
	sh.mu.Lock()
	h := sh.get(key, m.now())
	sh.mu.Unlock()
	_, err := sh.sync(ctx, h, lim, why)
	return h, err
}

// saved returns the host of l's key, whose debt the Store keeps; nil without a Store, after
// Release, and where the key has been evicted since l expired.
func (l *lease) saved() *host {
	sh := l.sh
	if sh.m.config.Store == nil {
		return nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l.released {
		return nil
	}
	return l.host(false)
}

// startSaved is Start with a Store. It doesn't rely on a debt that was read a moment ago where the
// gap of l is long: a process that has read the same may have started since. What the start owes is
// saved if that is far away, and then the stamp moves behind the time that it took: nothing has
// been sent yet.
func (l *lease) startSaved(ctx context.Context, h *host) (g Grant, err error) {
	sh, why := l.sh, toUse
	sh.mu.Lock()
	if l.stamp.gap > far {
		why = toDecide
	}
	sh.mu.Unlock()
	_, _ = sh.sync(ctx, h, l.lim, why) // begin returns ctx's error
	if g, err = l.begin(ctx); err != nil {
		sh.addNews(h, err)
		return Grant{}, err
	}
	ctx = context.WithoutCancel(ctx)
	for range 3 { // more than once where saving takes longer than margin
		if saved, _ := sh.sync(ctx, h, l.lim, toSave); !saved {
			break
		}
		sh.mu.Lock()
		if a := l.a; a != nil {
			now := sh.m.now()
			if a.last == l && !h.refusals().Blocks(now) {
				a.account(now)
				h.last, l.stamp.at = now, now
				g.Start = sh.m.at(now)
			}
		}
		sh.mu.Unlock()
	}
	g.StateErr = sh.news(h, &g.Restored)
	return g, nil
}
