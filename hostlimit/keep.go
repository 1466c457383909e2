package hostlimit

import (
	"context"
	"math"
	"time"
)

// What a key owes goes to Config.Store and comes back from it in one step, sync: one Update,
// outside of every lock, that reads what the Store has, adds what this Memory has changed, and
// takes over what others have. One sync of a key runs at a time; whoever finds something to
// save meanwhile waits for it, and mostly finds that it has been saved.
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
// Debts are merged in three parts: the block with its counter and cause, the delay, and the next
// start. In each, what only one process has changed since this one looked last holds: a success
// that clears a block clears it for all, and nobody who knew of that block sets it again. Where
// both have changed it the stricter holds: the later end, the larger counter, the longer delay.
const (
	// fresh is for how long what was read of a Store is taken for true.
	fresh = 10 * time.Second
	// far is how far away a next start must be for it to be kept.
	far = time.Minute
	// margin is what is added to a next start that is kept before the request is sent, so that
	// a stamp which moves a little, as by a dial, needn't be kept anew.
	margin = time.Second
	// easing is how often a delay that has only become shorter is kept.
	easing = time.Minute
)

// An owing is the part of a key's state that a Store keeps.
type owing struct {
	block   blockOwed
	learned time.Duration
	next    time.Duration // end of the gap to the last start
}

// A blockOwed is the part of a trouble that changes as one.
type blockOwed struct {
	until    time.Duration
	refusals uint8
	cause    cause
	why      string // with byPerson
}

// String is what the Store keeps of the cause.
func (b blockOwed) String() string {
	if b.cause == byPerson {
		return ByHand{Why: b.why}.Cause()
	}
	return b.cause.String()
}

// A kept is what is known of a key's debt in the Store. All but turn is guarded by the mutex
// of the shard.
type kept struct {
	key  string
	hash uint64
	turn chan struct{} // holds a token while a sync of the key runs

	read    time.Duration // when the last sync was tried; void: none was
	debt    Debt          // what the Store had after the last one that succeeded
	mine    owing         // what the key owed then
	tried   owing         // what the key owed at the last one that was tried
	next    time.Duration // next start that the Store knows
	changed time.Duration // when the debt was written last
	failure error         // why the last sync failed; nil: it didn't

	restored *Restored // block that was taken over, and not told of yet
	err      error     // why the last sync failed, if that wasn't told yet
}

// keptOf returns what is known of key's debt.
func (sh *shard) keptOf(key string, hash uint64) *kept {
	k := sh.kept[key]
	if k == nil {
		if sh.kept == nil {
			sh.kept = map[string]*kept{}
		}
		k = &kept{key: key, hash: hash, turn: make(chan struct{}, 1), read: void}
		sh.kept[key] = k
	}
	return k
}

// owing returns what h owes.
func (sh *shard) owing(h *host) owing {
	t := sh.trouble(h)
	o := owing{learned: t.learned, next: t.next}
	if t.until != 0 || t.refusals != 0 {
		o.block = blockOwed{t.until, t.refusals, t.cause, sh.why(h)}
	}
	if h.busy > 0 {
		if b := sh.busy[h.busy-1]; b.last != nil && !b.last.started {
			return o // a booking isn't owed for yet, and the gaps to the starts before it are over
		}
	}
	o.next = max(o.next, h.earliest(0))
	return o
}

// due reports whether the Store has to be asked before the key is used: it wasn't for a while, or
// there is something to save.
func (k *kept) due(now time.Duration, o owing) bool {
	return k.read == void || now-k.read >= fresh || k.unsaved(now, o)
}

// unsaved reports whether o has to be saved at once.
func (k *kept) unsaved(now time.Duration, o owing) bool {
	return k.read == void || o.block != k.tried.block || o.learned > k.tried.learned ||
		o.next > max(now+far, k.next) && o.next != k.tried.next
}

// met returns what is known of key's debt, once what others know of the key is known here, and the
// other way round. With force the Store is asked also where it was a moment ago.
func (sh *shard) met(ctx context.Context, key string, hash uint64, lim *Limits, force bool) (*kept, error) {
	sh.mu.Lock()
	now := sh.m.now()
	h := sh.host(sh.get(hash, key, now))
	k := sh.keptOf(key, hash)
	due := force || k.due(now, sh.owing(h))
	sh.mu.Unlock()
	if !due {
		return k, nil
	}
	return k, sh.sync(ctx, k, lim, force)
}

// meet does for the key of l, of which k is known, what met does. It doesn't rely on what was read a
// moment ago where the gap of l is long: a process that has read the same may have started since.
func (l *lease) meet(ctx context.Context, k *kept) {
	sh := l.sh
	sh.mu.Lock()
	force := l.stamp.gap > far
	due := l.b != nil && (force || k.due(sh.m.now(), sh.owing(sh.host(l.b.host))))
	sh.mu.Unlock()
	if due {
		_ = sh.sync(ctx, k, l.lim, force) // ctx's error is Start's to tell
	}
}

// sync brings the key of k and the Store up to date with each other, unless somebody has done so
// by the time it is our turn. The error is ctx's; those of the Store are told with the next
// Grant, Effect or Error.
func (sh *shard) sync(ctx context.Context, k *kept, lim *Limits, force bool) error {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-k.turn }()
	m := sh.m

	sh.mu.Lock()
	wall := time.Now()
	now := wall.Sub(m.base)
	i, ok := sh.find(k.hash)
	if !ok { // forgotten, so nothing is owed
		sh.mu.Unlock()
		return nil
	}
	o := sh.owing(sh.host(i))
	if !force && !k.due(now, o) {
		sh.mu.Unlock()
		return nil
	}
	x := merge{rules: m.rules, now: now, wall: wall, debt: k.debt, was: k.mine, is: o, ease: now-k.changed >= easing}
	sh.mu.Unlock()

	debt, err := m.config.Store.Update(ctx, k.key, x.change)

	sh.mu.Lock()
	if err != nil && ctx.Err() != nil {
		sh.mu.Unlock()
		return ctx.Err()
	}
	k.read, k.tried = m.now(), o
	if err != nil {
		if k.failure == nil {
			k.err = err
		}
		k.failure = err
	} else {
		k.failure, k.err = nil, nil
		if i, ok := sh.find(k.hash); ok {
			sh.adopt(k, sh.host(i), lim, &x, debt)
		}
	}
	sh.mu.Unlock()
	m.handOut()
	return nil
}

// A merge is what one sync gives to the Store and takes from it.
type merge struct {
	rules   *Rules
	now     time.Duration // one moment, as the Memory counts it
	wall    time.Time     // and by the clock on the wall
	debt    Debt          // what the Store had
	was, is owing         // what the key owed then, and owes now
	ease    bool          // a delay that has only become shorter is to be kept

	// What others have changed, as the last call of change found.
	block, delay, next bool
	written            bool
}

// change implements the argument of Store.Update.
func (x *merge) change(theirs Debt) Debt {
	d := theirs
	x.block = blockOf(theirs) != blockOf(x.debt)
	x.delay = theirs.Delay != x.debt.Delay
	x.next = !theirs.NextStart.Equal(x.debt.NextStart)
	if x.is.block != x.was.block {
		ours := Debt{Refusals: int(x.is.block.refusals)}
		if x.is.block != (blockOwed{}) {
			ours.BlockedUntil, ours.BlockedAt, ours.Cause = x.at(x.is.block.until), x.wall, x.is.block.String()
		}
		if x.block {
			ours = stricter(ours, blockOf(theirs))
		}
		d.BlockedUntil, d.BlockedAt, d.Cause, d.Refusals = ours.BlockedUntil, ours.BlockedAt, ours.Cause, ours.Refusals
		x.block = x.block && ours == blockOf(theirs) // else it is ours that holds
	}
	switch was, is := x.was.learned, x.is.learned; {
	case is == was:
	case x.delay:
		d.Delay = max(is, theirs.Delay)
	case is > was || x.ease:
		d.Delay = is
	}
	if x.is.next > x.now+far {
		if next := x.at(add(x.is.next, margin)); x.at(x.is.next).After(theirs.NextStart) {
			d.NextStart = next
		}
	}
	d = x.current(d).portable()
	x.written = d != theirs
	return d
}

// at is the time of day of t.
func (x *merge) at(t time.Duration) time.Time { return x.wall.Add(t - x.now) }

// in is the time of the Memory at which t has surely come. The wait for it is no longer than it
// was to be when it was set, or MaxRetryAfter: the clock may have been set back since. set is
// zero where that isn't known.
func (x *merge) in(t, set time.Time) time.Duration {
	longest := x.rules.refusals.MaxRetryAfter
	if !set.IsZero() {
		longest = max(longest, t.Sub(set))
	}
	return add(x.now, min(t.Sub(x.wall.Round(0)), longest)+late) // the two clocks aren't read at the same instant
}

// current is d without what is over.
func (x *merge) current(d Debt) Debt {
	if end := d.BlockedUntil; !end.After(x.wall) && (d.Refusals == 0 || !end.Add(x.rules.refusals.Forgive).After(x.wall)) {
		d.BlockedUntil, d.BlockedAt, d.Cause, d.Refusals = time.Time{}, time.Time{}, "", 0
	}
	if !d.NextStart.After(x.wall) {
		d.NextStart = time.Time{}
	}
	return d
}

// blockOf is the part of d that is the block.
func blockOf(d Debt) Debt {
	d.NextStart, d.Delay = time.Time{}, 0
	return d
}

// stricter is the block of a or that of b, whichever ends later, with the larger counter. Where a
// person has set one of them it is that person's.
func stricter(a, b Debt) Debt {
	if b.BlockedUntil.After(a.BlockedUntil) {
		a, b = b, a
	}
	a.Refusals = max(a.Refusals, b.Refusals)
	if _, byHand := a.ByHand(); byHand {
		return a
	}
	if _, byHand := b.ByHand(); byHand {
		a.Cause = b.Cause
	}
	return a
}

// adopt takes over what others have changed in the Store, which has debt now.
func (sh *shard) adopt(k *kept, h *host, lim *Limits, x *merge, debt Debt) {
	now := x.now
	o := sh.owing(h)
	moved := false
	if x.block {
		theirs := blockOwed{refusals: uint8(min(max(0, debt.Refusals), math.MaxUint8)), cause: causeNamed(debt.Cause)}
		if why, byHand := debt.ByHand(); byHand {
			theirs.cause, theirs.why = byPerson, why
		}
		if !debt.BlockedUntil.IsZero() {
			theirs.until = x.in(debt.BlockedUntil, debt.BlockedAt)
		}
		if o.block != x.is.block { // something has come in during the Update
			theirs.until, theirs.refusals = max(theirs.until, o.block.until), max(theirs.refusals, o.block.refusals)
		}
		if theirs != o.block {
			sh.takeOver(h, theirs)
			moved = true
			if sh.trouble(h).blocks(now) {
				k.restored = &Restored{Debt: debt, Met: sh.m.at(now)}
				if end := sh.m.at(theirs.until); end.Before(debt.BlockedUntil) {
					k.restored.BlockedUntil = end
				}
			}
		}
	}
	if t := sh.trouble(h); t.refusals != 0 {
		t.refusals = uint8(min(max(int(t.refusals), debt.Refusals), math.MaxUint8)) // also where the block is ours
	}
	if x.delay && lim.Delay.Adaptive.Learns() && o.learned == x.is.learned && debt.Delay != o.learned {
		learned := min(max(0, debt.Delay), lim.Delay.Ceiling)
		sh.inTrouble(h).learned = learned
		moved = h.raise(learned, byLearned) || moved
	}
	if x.next && !debt.NextStart.IsZero() {
		if !debt.NextStart.Equal(x.at(add(x.is.next, margin))) {
			t := sh.inTrouble(h)
			t.next = max(t.next, x.in(debt.NextStart, time.Time{}))
			moved = true
		}
	}
	k.debt = debt
	k.next = 0
	if !debt.NextStart.IsZero() {
		k.next = now + debt.NextStart.Sub(x.wall.Round(0))
	}
	if x.written {
		k.changed = now
	}
	// What has come in during the Update is still to be saved.
	k.mine = x.is
	after := sh.owing(h)
	if o.block == x.is.block {
		k.mine.block = after.block
	}
	switch {
	case x.delay && o.learned == x.is.learned:
		k.mine.learned = after.learned
	case !x.delay && !x.ease:
		k.mine.learned = max(x.is.learned, x.was.learned)
	}
	k.tried = k.mine
	if !moved || h.busy == 0 {
		return
	}
	b := sh.busy[h.busy-1]
	if sh.stopped(h, now) {
		b.refuseAll(h, sh.m.now())
	} else {
		b.refuseLate(h, sh.m.now())
	}
	if b.head != nil {
		b.head.signal()
	}
	sh.settle(b)
}

// takeOver makes block that of h.
func (sh *shard) takeOver(h *host, block blockOwed) {
	if h.busy > 0 {
		b := sh.busy[h.busy-1]
		b.account(h, sh.m.now())
		b.probe = nil
	}
	t := sh.inTrouble(h)
	if block.until != 0 {
		t.blockOrd = sh.starts // what is in flight started before the block
	}
	t.until, t.refusals = block.until, block.refusals
	sh.blame(h, block.cause, block.why)
}

// news takes what is to be told of k.
func (sh *shard) news(k *kept) (restored *Restored, err error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	restored, err = k.restored, k.err
	k.restored, k.err = nil, nil
	return restored, err
}

// failure takes why the Store has failed for k.
func (sh *shard) failure(k *kept) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	err := k.err
	k.err = nil
	return err
}

// tell adds the news of k to the error of a refused turn.
func (sh *shard) tell(k *kept, err error) {
	if refused, ok := err.(*Error); ok { //nolint:errorlint // made by this package just now
		refused.Restored, refused.StateErr = sh.news(k)
	}
}

// kept returns what is known of the debt of l's key; nil without a Store, after Release, and where
// the key has been forgotten since l expired.
func (l *lease) kept() *kept {
	sh := l.sh
	if sh.m.config.Store == nil {
		return nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l.b == nil {
		hash := sh.m.hash(l.key)
		if _, ok := sh.find(hash); !ok {
			return nil
		}
		return sh.keptOf(l.key, hash)
	}
	return sh.kept[string(sh.name(sh.host(l.b.host)))]
}

// keepStart saves what the start of l owes, if that is far away, and moves the stamp behind the
// time that it took: nothing has been sent yet.
func (l *lease) keepStart(ctx context.Context, k *kept, g *Grant) {
	sh := l.sh
	for range 3 { // more than once where saving takes longer than margin
		if !l.keep(ctx, k) {
			return
		}
		sh.mu.Lock()
		if b := l.b; b != nil {
			now, h := sh.m.now(), sh.host(b.host)
			if b.last == l && !sh.trouble(h).blocks(now) {
				b.account(h, now)
				h.last, l.stamp.at = now, now
				g.Start = sh.m.at(now)
			}
		}
		sh.mu.Unlock()
	}
}

// keep saves what a Start, an Outcome or a Release has changed, and reports whether there was
// anything to save. ctx is never done.
func (l *lease) keep(ctx context.Context, k *kept) bool {
	sh := l.sh
	sh.mu.Lock()
	i, ok := sh.find(k.hash)
	due := ok && k.unsaved(sh.m.now(), sh.owing(sh.host(i)))
	sh.mu.Unlock()
	if due {
		_ = sh.sync(ctx, k, l.lim, false)
	}
	return due
}
