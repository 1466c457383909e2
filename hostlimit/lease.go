package hostlimit

import (
	"sync/atomic"
	"time"
	"unsafe"
)

const leaseSize = int(unsafe.Sizeof(lease{}))

// A lease is one turn. Leases are allocated many at a time and never used
// again, so a call that comes too late, or twice, has nobody else's turn to
// touch.
type lease struct {
	sh  *shard
	b   *busy // nil once the slot is free again; guarded, like all below, by sh.mu
	lim *limits
	key string // set when the lease has expired: what to look the host up by

	prev, next   *lease // in flight on the key
	older, newer *lease // in flight at all; guarded by places.mu

	// Set at the start.
	ord       uint64 // order of starts in the shard
	seq       uint64
	start     int64
	delay     int64
	waitSlot  int64
	waitDelay int64
	waitBlock int64
	swept     *swept
	slot      int32
	slots     int32
	probe     bool
	found     uint8 // expired leases that this turn found

	// Set by Observe and Release.
	observed, released bool
	expired            bool
	blocked, cleared   bool
	refusals           uint8
	until              int64 // 0: not blocked

	told atomic.Bool // there is an Effect: nearly always there is none, and nobody needs the lock to see it
}

func (sh *shard) newLease() *lease {
	if len(sh.chunk) == 0 {
		sh.chunk = make([]lease, leases)
	}
	l := &sh.chunk[0]
	sh.chunk = sh.chunk[1:]
	l.sh = sh
	return l
}

// Observe implements Lease.
func (l *lease) Observe(o Outcome) {
	sh := l.sh
	m := sh.m
	what := m.refusals.meaning(o)

	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l.observed || l.released {
		return
	}
	l.observed = true

	h, b := l.find(what == refused)
	if h == nil {
		return // forgotten since the lease expired, and nothing to remember
	}
	var now int64
	raised := false
	if what == refused || h.refusals > 0 || b != nil && b.head != nil {
		now = m.now()
	}
	if b != nil {
		b.account(h, now)
	}
	h.forgive(now, m.refusals.forgive)
	if l.lim.adaptive != (Adaptive{}) && o.Status > 0 {
		raised = h.adapt(l.lim, o)
	}
	switch what {
	case refused:
		l.blocked = h.refuse(&m.refusals, now, o, l.ord, sh.starts)
	case success:
		l.cleared = h.clear(l.ord)
	}
	if b != nil {
		if l.blocked || l.cleared || b.probe == l {
			b.probe = nil
		}
		if l.blocked || raised {
			b.refuseLate(h, now)
		}
		if b.head != nil {
			b.head.signal()
		}
		sh.settle(b)
	}
	l.refusals = h.refusals
	if h.refusals > 0 && h.until > now {
		l.until = h.until
	}
	if l.blocked || l.cleared || l.refusals > 0 {
		l.told.Store(true)
	}
}

// find returns the state of l's key. An expired lease has lost its place and must
// look the key up; if create, it is made when it is gone.
func (l *lease) find(create bool) (*host, *busy) {
	sh := l.sh
	if l.b != nil {
		return sh.host(l.b.host), l.b
	}
	hash := sh.m.hash(l.key)
	i, ok := sh.find(hash)
	if !ok {
		if !create {
			return nil, nil
		}
		i = sh.get(hash, l.key, sh.m.now())
	}
	h := sh.host(i)
	if h.busy > 0 {
		return h, sh.busy[h.busy-1]
	}
	return h, nil
}

// Release implements Lease.
func (l *lease) Release() {
	sh := l.sh
	sh.mu.Lock()
	if l.released {
		sh.mu.Unlock()
		return
	}
	l.released = true
	if b := l.b; b != nil {
		h := sh.host(b.host)
		var now int64
		if b.head != nil {
			now = sh.m.now()
			b.account(h, now)
		}
		b.free(h, l, now)
		sh.settle(b)
	}
	sh.mu.Unlock()
	sh.m.handOut()
}

// Grant tells how the turn came about.
func (l *lease) Grant() Grant {
	return Grant{
		Seq:       l.seq,
		Start:     l.sh.m.at(l.start),
		WaitSlot:  time.Duration(l.waitSlot),
		WaitDelay: time.Duration(l.waitDelay),
		WaitBlock: time.Duration(l.waitBlock),
		Delay:     time.Duration(l.delay),
		Slot:      int(l.slot),
		Slots:     int(l.slots),
		Probe:     l.probe,
		Expired:   int(l.found),
	}
}

// TakenBack returns the keys of leases that were found expired (LeaseTTL) by who waited
// for a place of MaxInFlight, while nobody waited for those keys, one for each lease.
// The next start tells of them, whatever its key, and no Grant counts them.
func (l *lease) TakenBack() (keys []string) {
	for s := l.swept; s != nil; s = s.next {
		keys = append(keys, s.key)
	}
	return keys
}

// Effect tells what Observe and Release did.
func (l *lease) Effect() Effect {
	if !l.told.Load() {
		return Effect{}
	}
	l.sh.mu.Lock()
	defer l.sh.mu.Unlock()
	e := Effect{
		Blocked:  l.blocked,
		Refusals: int(l.refusals),
		Cleared:  l.cleared,
		Expired:  l.expired,
	}
	if l.until > 0 {
		e.Until = l.sh.m.at(l.until)
	}
	return e
}
