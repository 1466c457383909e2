package memory

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
)

// One step, sync, saves the debt of a key in Config.Store and reads it. One Update, outside of
// every lock, merges the changes of this Limiter into the debt in the Store (Debt.Merge). Then the
// Limiter takes over the changes of other processes. One sync of a key runs at a time. A call that
// has something to save meanwhile waits for that sync, and mostly finds that it has been saved.
//
//	call      state of the key                         action
//	Acquire   not read yet, or not for 10 s            sync, then the turn
//	Acquire   refused, while the gap is paid from New  sync, then the error
//	Next      not read yet, or not for 10 s            sync, then the result
//	Start     not read yet, or not for 10 s            sync, then the gate
//	Start     the next start will be far away          sync, then the gate
//	Start     stamped, and the next start is far       sync, and the stamp moves behind it
//	Observe   block, counter or learned delay changed  sync, then the Effect
//	Release   the gap counts from now, and is far      sync
//
// Gaps of a minute and less aren't saved: see runs.go.
//
// The Store is right about everything that was saved in it. If a block is gone, another process has
// lifted it.
const (
	// fresh is the time for which a debt that was read counts as the present one.
	fresh = 10 * time.Second
	// far is the least gap to the next start that is saved.
	far = time.Minute
	// margin is added to a next start that is saved before the request is sent, so that a stamp
	// which moves a little, as by a dial, needn't be saved anew.
	margin = time.Second
	// easedEvery is how often a delay that has only become shorter is saved.
	easedEvery = time.Minute
)

// A moment is one instant by both clocks.
type moment struct {
	now  time.Duration // as the Limiter counts
	wall time.Time     // by the clock on the wall, as it is set then
}

// at returns the time on the wall at t.
func (m moment) at(t time.Duration) time.Time { return m.wall.Add(t - m.now) }

// in returns a time of the Limiter at which t has certainly come. The two clocks aren't read at one
// instant.
func (m moment) in(t time.Time) time.Duration {
	return rules.Add(rules.Add(m.now, t.Sub(m.wall.Round(0))), late)
}

// note adds to s.unsaved the differences between o and the state of the key at the last note.
func (s *stored) note(o refusals, m moment) {
	was := s.noted
	s.noted = o
	s.noted.Learned = max(o.Learned, was.Learned) // one that became shorter is saved by update.ease
	if s.noted == was {
		return
	}
	news := s.owedSince(&o, &was, m)
	if unsaved := s.unsaved.Merge(news); unsaved != s.unsaved {
		s.unsaved = unsaved
		s.tried = false
	}
}

// owedSince returns the difference between o and was, the former state of the key, as a Debt to
// merge.
func (s *stored) owedSince(o, was *refusals, m moment) (news hostlimit.Debt) {
	known := s.debt.Merge(s.unsaved)
	if o.clearings != was.clearings {
		// A clearing comes after the block that it lifts, even if the clock has been set back in
		// between: Merge goes by the order of the two.
		news.ClearedAt = laterOf(m.at(o.cleared), known.BlockedAt.Add(1))
		if o.freed != was.freed {
			news.FreedAt = news.ClearedAt
		}
		known = known.Merge(news)
	}
	blocks := o.Until != 0 || o.InARow() != 0
	if blocks && !o.sameBlock(was) {
		news.BlockedUntil = m.at(o.Until)
		news.BlockedAt = laterOf(m.wall, known.ClearedAt.Add(1)) // after the last clearing, for the same reason
		news.Refusals = o.Row
		news.Unsure = o.Unsure
		news.Bans = o.Bans
		news.Cause = o.Cause
	}
	slower := o.Slow && !was.Slow
	if o.Learned > was.Learned || slower {
		news.Delay = o.Learned
		news.Slow = o.Slow
	}
	isFar := o.next != was.next && o.next > m.now+far
	if isFar && m.at(o.next).After(known.NextStart) {
		news.NextStart = m.at(rules.Add(o.next, margin))
	}
	return news
}

// sameBlock reports whether the block of o, and its counters, are those of was.
func (o *refusals) sameBlock(was *refusals) bool {
	return o.Until == was.Until && o.Cause == was.Cause && o.sameCounts(was)
}

func (o *refusals) sameCounts(was *refusals) bool {
	return o.Row == was.Row && o.Unsure == was.Unsure && o.Bans == was.Bans
}

// noteAdaptive adds a delay by response times to s.unsaved if it is longer than in the Store,
// unless Delay.Max is longer. It is rounded up, so that few changes of it are saved.
func (s *stored) noteAdaptive(adaptive time.Duration, d *hostlimit.Delay) {
	saved := max(s.debt.Adaptive, s.unsaved.Adaptive)
	if adaptive <= d.Max || adaptive <= saved {
		return
	}
	s.unsaved.Adaptive = roundedUp(adaptive)
	s.tried = false
}

// roundedUp returns the delay to save for one by response times.
func roundedUp(adaptive time.Duration) time.Duration { return adaptive + adaptive/2 }

// note brings h.stored up to date with h, makes it if there is none, and returns it with the moment
// of the note. lim are the limits of h.
func (sh *shard) note(h *host, lim *hostlimit.Limits) (*stored, moment) {
	sh.m.now() // begins the count
	wall := time.Now()
	m := moment{now: wall.Sub(sh.m.base), wall: wall}
	if h.stored == nil {
		h.stored = &stored{read: unset}
	}
	h.stored.note(h.owing(), m)
	h.stored.noteAdaptive(h.adaptive, &lim.Delay)
	return h.stored, m
}

// An occasion is the reason for a sync.
type occasion int

const (
	toSave   occasion = iota // part of the debt isn't saved
	toUse                    // as toSave, or the debt wasn't read for a while
	toDecide                 // always: another process may have changed the debt a moment ago
)

// hasOldNext reports whether the Store has a next start that is over. That of a start by this
// process is saved later than it is, by margin.
func (s *stored) hasOldNext(m moment) bool {
	return !s.debt.NextStart.IsZero() && !s.debt.NextStart.After(m.wall.Add(margin))
}

// isDue reports whether a sync is needed. isNear says that this process made the last start of the
// key, with a gap that isn't saved. The gap of an earlier start must leave the Store then, because
// its end would count as the end of the last gap.
func (s *stored) isDue(why occasion, m moment, isNear bool) bool {
	now := m.now
	if s.unsaved != (hostlimit.Debt{}) && !s.tried {
		return true
	}
	if isNear && s.hasOldNext(m) {
		return true
	}
	switch why {
	case toDecide:
		return true
	case toUse:
		return s.read == unset || now-s.read >= fresh
	}
	return false // after a failed Update the next toUse tries again
}

// sync brings h and the Store up to date with each other if that is due, and reports whether it
// was. If another sync of h runs, it waits and then checks again. The error is ctx's. The next
// Grant, Effect or Error reports errors of the Store.
func (sh *shard) sync(ctx context.Context, h *host, lim *hostlimit.Limits, why occasion) (due bool, err error) {
	x, other := sh.plan(h, lim, why)
	for other != nil {
		select {
		case <-other:
		case <-ctx.Done():
			return true, ctx.Err()
		}
		due = true
		x, other = sh.plan(h, lim, why) // mostly the other sync has saved this change too
	}
	if x == nil {
		return due, nil
	}
	defer sh.synced(h) // also if Update ends the goroutine
	debt, err := x.save(ctx, sh.m.config.Store, h.key)
	if err != nil && ctx.Err() != nil {
		return true, ctx.Err() // the Store hasn't failed: the caller gave up
	}
	sh.commit(h, lim, x, debt, err)
	sh.tellElsewhere(h)
	return true, nil
}

// tell reports act, an operator's act on h or nil. A receiver gets it. Without a receiver, the next
// Grant or Error of h reports it.
func (sh *shard) tell(h *host, act *hostlimit.Debt) {
	if act == nil || sh.m.acts.Tell(hostlimit.Act{Key: h.key, ByHand: act}) {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r := h.changeRefusals(); r.act == nil {
		r.act = act
	}
}

// tellElsewhere reports an operator's act in another process that commit has found, as tell does.
func (sh *shard) tellElsewhere(h *host) {
	sh.mu.Lock()
	act := h.act()
	restored := h.stored.restored
	isByHand := false
	if restored != nil {
		_, isByHand = rules.ByHand(restored.Cause)
	}
	if isByHand {
		h.stored.restored = nil
	}
	sh.mu.Unlock()
	sh.tell(h, act)
	if !isByHand || sh.m.acts.Tell(hostlimit.Act{Key: h.key, Restored: restored}) {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if h.stored.restored == nil {
		h.stored.restored = restored
	}
}

// plan returns the update that is due for h, and marks h as syncing until synced is called. If
// another sync of h runs, plan returns the channel that is closed at its end instead. Both are nil
// if nothing is due.
func (sh *shard) plan(
	h *host, lim *hostlimit.Limits, why occasion,
) (x *update, other <-chan struct{}) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s, m := sh.note(h, lim)
	evicted := sh.hosts[h.key] != h // so it has no debt
	isNear := h.seq > 0 && h.gap <= far
	if evicted || !s.isDue(why, m, isNear) {
		return nil, nil
	}
	if s.syncing != nil {
		return nil, s.syncing
	}
	s.syncing = make(chan struct{})
	x = &update{
		moment:  m,
		rules:   sh.m.rules,
		debt:    s.debt,
		unsaved: s.unsaved,
		learned: h.refusals().Learned,
		old:     isNear && s.hasOldNext(m),
	}
	isShorter := x.learned < s.noted.Learned && x.unsaved.Delay == 0
	isOld := m.now-s.eased >= easedEvery
	x.ease = isShorter && isOld
	isFaster := h.seq > 0 && h.adaptive < s.debt.Adaptive/2 && x.unsaved.Adaptive == 0
	if isFaster && isOld {
		x.faster = true
		if h.adaptive > lim.Delay.Max {
			x.adaptive = roundedUp(h.adaptive)
		}
	}
	return x, nil
}

// synced ends the sync of h, and wakes the calls that wait for it.
func (sh *shard) synced(h *host) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	close(h.stored.syncing)
	h.stored.syncing = nil
}

// commit takes over the result of the Update that x has made.
func (sh *shard) commit(h *host, lim *hostlimit.Limits, x *update, debt hostlimit.Debt, err error) {
	m := sh.m
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s := h.stored
	s.read = m.now()
	if err != nil {
		s.fail(x, err)
		return
	}
	s.failure = nil
	s.err = nil
	s.tried = false
	sh.note(h, lim) // changes during the Update are yet to be saved
	if s.unsaved == x.unsaved {
		s.unsaved = hostlimit.Debt{}
	}
	if sh.hosts[h.key] == h { // else it was evicted, as it had no debt
		sh.adopt(h, lim, x, debt)
	}
}

// fail notes that the Update of x has failed.
func (s *stored) fail(x *update, err error) {
	if s.failure == nil { // a Store that continues failing is reported once
		s.err = err
	}
	s.failure = err
	s.tried = s.unsaved == x.unsaved
	// The Store may have lost the old debt, so the next Update saves it as well.
	s.unsaved = s.unsaved.Merge(s.debt)
	s.debt = hostlimit.Debt{}
}

// An update has the changes that one sync saves.
type update struct {
	moment
	rules   *rules.Rules
	debt    hostlimit.Debt // stored.debt
	unsaved hostlimit.Debt // stored.unsaved
	learned time.Duration  // the delay that the key has learned
	ease    bool           // learned has become shorter since it was saved, and is to be saved now
	old     bool           // debt.NextStart is over

	faster   bool          // the delay by response times is to be saved as adaptive, which is shorter
	adaptive time.Duration // 0: Delay.Max is longer

	theirs hostlimit.Debt // in the Store before the Update
}

// save calls Store.Update, of which a panic is an error.
func (x *update) save(ctx context.Context, s hostlimit.Store, key string) (_ hostlimit.Debt, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("hostlimit: panic in Update of %T: %v", s, p)
		}
	}()
	return s.Update(ctx, key, func(theirs hostlimit.Debt) hostlimit.Debt {
		x.theirs = theirs
		return x.change(theirs)
	})
}

// change implements the argument of Store.Update.
func (x *update) change(theirs hostlimit.Debt) hostlimit.Debt {
	d := x.rules.Current(theirs, x.wall).Merge(x.rules.Current(x.unsaved, x.wall))
	if x.ease && theirs.Delay == x.debt.Delay { // else another process has learned since
		d.Delay = x.learned
		d.Slow = theirs.Slow && x.learned > 0
	}
	if x.old && theirs.NextStart == x.debt.NextStart {
		d.NextStart = time.Time{}
	}
	if x.faster && theirs.Adaptive == x.debt.Adaptive {
		d.Adaptive = x.adaptive
	}
	if d.BlockedUntil.IsZero() && rules.InARow(&d) == 0 {
		// Nothing is left that a clearing lifts.
		d.ClearedAt = time.Time{}
		d.FreedAt = time.Time{}
	}
	return d
}

// adopt takes over the changes of other processes. debt is in the Store now. The changes are its
// differences from ours, which is the result of change for the former debt. Changes noted during
// the Update count on both sides.
func (sh *shard) adopt(h *host, lim *hostlimit.Limits, x *update, debt hostlimit.Debt) {
	s := h.stored
	ours := x.change(x.debt)
	learnedElsewhere := debt.Delay != ours.Delay
	s.debt = debt
	s.paced = s.paced || !x.theirs.NextStart.IsZero()
	if x.faster || x.unsaved.Adaptive > 0 {
		s.eased = x.now
	}
	if h.seq == 0 && lim.Delay.Adaptive.ByLatency() {
		h.adaptive = max(h.adaptive, min(debt.Adaptive, lim.Delay.Ceiling))
	}
	debt = debt.Merge(s.unsaved)
	ours = ours.Merge(s.unsaved)
	owed := x.rules.Owed(debt, x.wall)

	blocked := sh.adoptBlock(h, x, owed, &debt, &ours)
	paced := h.adoptStart(x, owed, &debt, &ours)
	learned := h.refusals().Learned
	saved := s.noted.Learned
	slower := false
	switch {
	case learnedElsewhere && lim.Delay.Adaptive.Learns() && learned == x.learned:
		// This key has learned nothing during the Update, so the Store is right.
		slower = h.adoptDelay(min(max(0, debt.Delay), lim.Delay.Ceiling), debt.Slow)
		saved = h.refusals().Learned
		s.eased = x.now
	case x.ease || x.unsaved.Delay > 0:
		saved = max(x.learned, learned)
		s.eased = x.now
	}
	s.noted = h.owing()
	s.noted.Learned = saved
	if a := h.active; a != nil && (blocked || paced || slower) {
		a.changed(sh.m.now(), true)
	}
}

// adoptBlock gives h the block of owed if other processes have changed it, so that theirs differs
// from ours. It reports whether they have.
func (sh *shard) adoptBlock(h *host, x *update, owed hostlimit.Debt, theirs, ours *hostlimit.Debt) bool {
	moved := theirs.BlockedUntil != ours.BlockedUntil
	counted := theirs.Refusals != ours.Refusals || theirs.Unsure != ours.Unsure || theirs.Bans != ours.Bans
	if !moved && !counted && theirs.Cause == ours.Cause {
		return false
	}
	r := h.changeRefusals()
	wasStopped := r.Stopped(x.now)
	if moved {
		if a := h.active; a != nil {
			a.account(sh.m.now())
			a.probe = nil // its answer ends no block of another process
		}
		r.Until = 0
		if !owed.BlockedUntil.IsZero() {
			r.Until = x.in(owed.BlockedUntil)
			r.SetAt = sh.starts // all requests in flight started before the block
		}
		if r.Blocks(x.now) {
			h.stored.restored = &hostlimit.Restored{Debt: owed, Met: sh.m.at(x.now)}
		}
	}
	r.Row = inRange(owed.Refusals)
	r.Unsure = inRange(owed.Unsure)
	r.Bans = inRange(owed.Bans)
	r.Cause = cmp.Or(owed.Cause, "refused")
	r.Alone = r.InARow() > 0
	if wasStopped && !r.Blocks(x.now) { // only an operator lifts an operator's block
		r.act = &hostlimit.Debt{ClearedAt: sh.m.at(x.now)}
	}
	return true
}

// inRange returns a counter of a Store within the range that Refusals count in.
func inRange(n int) int { return min(max(0, n), math.MaxUint8) }

// adoptStart gives h the next start of owed if other processes have changed it. It reports whether
// they have.
func (h *host) adoptStart(x *update, owed hostlimit.Debt, theirs, ours *hostlimit.Debt) bool {
	if theirs.NextStart == ours.NextStart || owed.NextStart.IsZero() { // zero: it is over
		return false
	}
	r := h.changeRefusals()
	r.next = max(r.next, x.in(owed.NextStart))
	return true
}

// adoptDelay makes learned, of another process, the delay that h has learned, and reports whether
// that makes the gap longer.
func (h *host) adoptDelay(learned time.Duration, slow bool) bool {
	r := h.changeRefusals()
	r.Learned = learned
	r.Slow = slow
	return h.raise(learned, byLearned)
}

// news returns the news of the Store for the next Grant or Error of h, once: a block, unless
// restored is nil, and why the Store has failed.
func (sh *shard) news(h *host, restored **hostlimit.Restored) (err error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s := h.stored
	if s == nil {
		return nil
	}
	if restored != nil {
		*restored = s.restored
		s.restored = nil
	}
	err = s.err
	s.err = nil
	return err
}

// addNews adds the news of h, if there is a Store, to the error of a refused turn.
func (sh *shard) addNews(h *host, err error) {
	if refused, ok := err.(*hostlimit.Error); ok && h != nil { //nolint:errorlint // made by this package just now
		refused.StateErr = sh.news(h, &refused.Restored)
	}
}

// load syncs key with the Store, if there is one, and returns its host then.
func (m *Limiter) load(ctx context.Context, key string, lim *hostlimit.Limits, why occasion) (*host, error) {
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
