package hostlimit

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"
)

// Memory is the Limiter of one process. It starts no goroutine: time passes in the callers' own, so
// there is nothing to close, and everything works in a testing/synctest bubble. It is safe for
// concurrent use and must not be copied.
//
// Stamps are taken from the monotonic clock, counted from the time of day at
// which the Memory was first used. So the gaps in a log of them are exact, also where
// the machine's clock was set in between.
type Memory struct {
	rules         *Rules
	config        Config
	began         sync.Once
	base          time.Time // of the first use
	seed          maphash.Seed
	shards        []shard
	hostsPerShard int
	slotTimeout   time.Duration // never: MaxWait bounds the wait for a slot
	places        *places       // nil without MaxInFlight
	drain         drain
}

var _ Limiter = (*Memory)(nil)

// New returns a Memory with the rules of c. The error names every field that is wrong.
func New(c Config) (*Memory, error) {
	r, err := c.Rules()
	if err != nil {
		return nil, err
	}
	m := &Memory{rules: r, config: c, slotTimeout: cmp.Or(c.SlotTimeout, never), seed: maphash.MakeSeed()}
	n := 64
	for n > 1 && r.config.MaxHosts/n < 64 {
		n /= 2
	}
	m.shards = make([]shard, n)
	for i := range m.shards {
		m.shards[i].m = m
		m.shards[i].troubles = make([]trouble, 1)
	}
	m.hostsPerShard = r.config.MaxHosts / n
	if r.config.MaxInFlight > 0 {
		m.places = &places{max: r.config.MaxInFlight, ttl: r.config.LeaseTTL, flying: flights{all: true}}
	}
	return m, nil
}

// Config implements Limiter: it returns what m was made of, to make another one like it.
func (m *Memory) Config() Config { return m.config }

// now counts from the first use: a Memory that was made outside of a synctest
// bubble, as part of a preset perhaps, works inside of one.
func (m *Memory) now() time.Duration {
	m.began.Do(func() { m.base = time.Now() })
	return time.Since(m.base)
}

// open is the earliest time from t on that is in Config.Windows. Those are times of the
// clock on the wall, which may have been set since the Memory was first used.
func (m *Memory) open(t time.Duration) time.Duration {
	if len(m.rules.hours) == 0 {
		return t
	}
	return m.opens(t)
}

func (m *Memory) opens(t time.Duration) time.Duration {
	if t == never {
		return t
	}
	return add(t, m.rules.hours.wait(m.wall(t)))
}

// closes is when Config.Windows stop requests next, at the earliest; never if they don't.
func (m *Memory) closes(now time.Duration) time.Duration {
	if left := m.rules.hours.left(m.wall(now)); left > 0 {
		return add(now, left)
	}
	return never
}

func (m *Memory) wall(t time.Duration) time.Time { return time.Now().Add(t - m.now()) }

func (m *Memory) hash(key string) uint64 { return maphash.String(m.seed, key) }

// shard of a hash: by its lower half, because the upper one is the tag.
func (m *Memory) shard(hash uint64) *shard { return &m.shards[hash&uint64(len(m.shards)-1)] }

// Acquire implements Limiter. If ctx is cancelled before the request may start,
// the error is ctx.Err() itself; if it is known beforehand that the deadline of ctx comes
// first, the turn is refused at once and takes no place. So it is in the queue, when
// a block, a slow answer or a long random delay makes the deadline impossible, and
// when the deadline passes there. An Override whose limits make no sense is an error too.
func (m *Memory) Acquire(ctx context.Context, key string, floor time.Duration) (Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	lim, err := m.rules.Limits(key)
	if err != nil {
		return nil, err
	}
	hash := m.hash(key)
	sh := m.shard(hash)
	least := max(0, floor)
	var k *kept
	if m.config.Store != nil {
		if k, err = sh.met(ctx, key, hash, lim, false); err != nil {
			return nil, err
		}
	}
	l, err := m.acquire(ctx, sh, hash, key, lim, least)
	if err == nil {
		return l, nil
	}
	if k != nil {
		sh.tell(k, err)
	}
	return nil, err
}

// acquire is Acquire for a key whose debt is known.
func (m *Memory) acquire(ctx context.Context, sh *shard, hash uint64, key string, lim *Limits, least time.Duration) (*lease, error) {
	sh.mu.Lock()
	now := m.now()
	i := sh.get(hash, key, now)
	h := sh.host(i)
	b := sh.busyOf(i, h)
	b.refresh(h, now)
	if err := sh.stop(h, now); err != nil {
		sh.settle(b)
		sh.mu.Unlock()
		m.handOut()
		return nil, err
	}
	if b.head == nil {
		if why, _ := b.hold(h, lim, least, now, nil); why == free {
			l := b.lend(h, lim, least, now, m.rules.Watcher(ctx))
			sh.mu.Unlock()
			return l, nil
		}
	}
	w := m.newWaiter(ctx, lim, least, now)
	w.priority = m.rules.Priority(ctx)
	prev := b.behind(w)
	if w.planned = b.bound(h, now, lim, least, prev); w.planned > w.latest {
		err := m.refusal(key, w.planned, m.rules.TooLate(w.byContext, b.blocked(h, w.latest)))
		err.ByHand = sh.act(h)
		if b.head == nil {
			b.leaveLine()
		}
		sh.settle(b)
		sh.mu.Unlock()
		m.handOut()
		return nil, err
	}
	b.join(w, prev, now)
	if b.tail != w {
		b.refuseLate(h, now) // those behind w
	}
	sh.mu.Unlock()
	return m.wait(ctx, sh, w, key)
}

// wait waits until the wait of w is over or refused, and returns its lease. Of a queue only the
// head has a timer, and who is yet to be told why it waits; the others are woken when they become
// the head. key is that of a w without a lease.
func (m *Memory) wait(ctx context.Context, sh *shard, w *waiter, key string) (*lease, error) {
	var timer *time.Timer
	var told sync.WaitGroup
	defer told.Wait()
	for {
		var lim *Limits
		var wrong error
		if w.lease == nil {
			lim, wrong = m.rules.Limits(key) // outside of the lock
		}
		over, d, notice, err := m.look(ctx, sh, w, lim, wrong)
		if over || err != nil {
			if timer != nil {
				timer.Stop()
			}
			return w.lease, err
		}
		if notice != nil {
			// Those behind w go by the timer of w, and don't wait for its Watcher.
			told.Go(func() {
				notice.name()
				w.watcher.Waits(notice.Wait)
			})
		}
		var alarm <-chan time.Time
		if d != void {
			if timer == nil {
				timer = time.NewTimer(d)
			} else {
				timer.Reset(d)
			}
			alarm = timer.C
		}
		select {
		case <-w.wake:
		case <-alarm:
		case <-ctx.Done():
		}
	}
}

// look is one look of w at its queue, where lim are its limits now, unless something is wrong with
// them. If its wait isn't over, w should look again when it is woken, and after d unless that is
// void.
func (m *Memory) look(ctx context.Context, sh *shard, w *waiter, lim *Limits, wrong error) (over bool, d time.Duration, told *notice, err error) {
	if m.places != nil {
		m.sweep()
		defer m.handOut()
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b := w.b
	if b == nil {
		return false, 0, nil, w.err // refused meanwhile
	}
	h := sh.host(b.host)
	now := m.now()
	b.refresh(h, now)
	if wrong != nil {
		b.leave(w)
		sh.settle(b)
		return false, 0, nil, wrong
	}
	if w.lease == nil && lim != w.lim && b.head == w {
		b.limit(lim)
	}
	if err := ctx.Err(); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			b.refuse(h, w, b.again(h, w, now), m.rules.TooLate(true, b.inTrouble(h, now)))
			err = w.err
		} else {
			b.leave(w)
		}
		sh.settle(b)
		return false, 0, nil, err
	}
	over, until := b.look(h, w, now)
	if w.err != nil {
		sh.settle(b)
		return false, 0, nil, w.err
	}
	if over {
		return true, 0, nil, nil
	}
	told, again := b.waits(h, w, now)
	if until = min(until, again); until == never {
		return false, void, told, nil
	}
	return false, until - now, told, nil
}

// Next implements Limiter. It counts the queue ahead with the smallest delays
// that there can be; what has no known end, such as a slot that is held, it
// doesn't count. A request to a key that isn't known can start now.
func (m *Memory) Next(ctx context.Context, key string, floor time.Duration) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	lim, err := m.rules.Limits(key)
	if err != nil {
		return time.Time{}, err
	}
	hash := m.hash(key)
	sh := m.shard(hash)
	least := max(0, floor)
	if m.config.Store != nil {
		if _, err := sh.met(ctx, key, hash, lim, false); err != nil {
			return time.Time{}, err
		}
	}

	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := m.now()
	i, ok := sh.find(hash)
	if !ok {
		return m.at(m.open(now)), nil
	}
	h := sh.host(i)
	sh.forgive(h, now)
	if h.busy > 0 {
		b := sh.busy[h.busy-1]
		return m.at(b.bound(h, now, lim, least, b.behind(&waiter{priority: m.rules.Priority(ctx)}))), nil
	}
	return m.at(sh.first(h, now, least)), nil
}
