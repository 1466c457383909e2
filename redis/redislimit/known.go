package redislimit

import (
	"encoding/json"
	"time"

	"github.com/go-politeness/politeness/hostlimit/rules"
)

// known is the part of a host that must survive a loss of the server's data: this process sends it
// to the server that has lost it. Times are on this process's clock.
type known struct {
	next    time.Duration // the next start isn't earlier
	started bool          // there was a start here
	last    time.Duration // the last start, or the end from which the gap counts, wasn't later
	lastBy  *lease        // started last here: its own next start owes it nothing
	gap     time.Duration // after the last start here, also if the server has lost the key
	source  string        // decided gap

	refusals    rules.Refusals
	serverUntil int64         // refusals.Until on the server's clock: one block has one end; 0: it isn't the server's
	earliest    time.Duration // lower bound of refusals.Until: the server's clock is known only within bounds
	version     int64         // of refusals, on the server; -1: this process has changed them
	asOf        int64         // when the server reported the host last
	blockSeen   time.Duration // when a block became known here: grants of before are void

	delay       time.Duration // in force
	served      int           // successes since servedSince
	servedSince time.Duration
}

// owes reports whether the next start, a block, or refusals that aren't forgiven are left.
func (k *known) owes(now, forgive time.Duration) bool {
	if max(k.next, k.refusals.Until) > now {
		return true
	}
	forgiven := max(k.refusals.Until, k.last) + forgive
	return isLeft(k.refusals) && now < forgiven
}

// begin stores a start by t, which the next one follows after gap.
func (k *known) begin(t *lease, now, gap time.Duration) {
	k.started = true
	k.lastBy = t
	k.last = max(k.last, now)
	k.gap = gap
	k.next = max(k.next, now+gap)
}

// finish makes the gap count from now, the end of a request. delay is that of its start.
func (k *known) finish(now, delay time.Duration) {
	running := k.next - k.last // may have become longer since the start
	k.next = max(k.next, now+max(delay, running))
	k.last = max(k.last, now)
}

// raise makes the gap to the last start at least d, and reports whether there was one.
func (k *known) raise(d time.Duration) bool {
	if k.started {
		k.next = max(k.next, k.last+d)
	}
	return k.started
}

// learn stores a report of the server, which came with at, and reports whether it has lifted a
// block. The report holds also if it has less than k, because an operator may have lifted a block.
// But while the server waits for a restore, k holds unless the report is of a later version.
func (k *known) learn(info hostInfo, at reply, clock *serverClock, restoring bool) (lifted bool) {
	now := at.received
	was := k.refusals.Until // as it is known before
	k.asOf = at.server
	if !restoring || info.version > k.version {
		k.delay = info.delay
		k.served = info.served
		k.servedSince = clock.surely(info.servedSince, now)
		k.learnRefusals(info, clock, now)
	}
	// The end of the block is decided by itself: the server keeps the longer one when it restores.
	k.refusals.Until = was
	until := clock.surely(info.until, now)
	over := info.until <= at.server
	changed := over || info.until != k.serverUntil
	longer := restoring && was > until
	if changed && !longer {
		k.serverUntil = info.until
		k.refusals.Until = until
		k.earliest = clock.earliest(info.until, now)
	}
	return over && was > now && !restoring
}

// learnRefusals stores the refusals of a report, but for the end of the block.
func (k *known) learnRefusals(info hostInfo, clock *serverClock, now time.Duration) {
	s := &k.refusals
	if info.version != k.version {
		*s = rules.Refusals{}
		_ = json.Unmarshal([]byte(info.rest), s) // of another version of hostlimit: the fields of both are read
		k.version = info.version
	}
	if s.Alone && !info.alone {
		s.Clear(now) // the server has forgiven
	}
	s.SetAt = uint64(info.setAt)
	s.Cause = info.cause
	s.Alone = info.alone
	s.EasedAt = clock.surely(info.easedAt, now)
	if s.InARow() == 0 {
		s.Row = info.row // sent to the server from a Store, which keeps no rest
	}
	if micros(s.Learned) != micros(info.learned) { // the server's microseconds are the same delay
		s.Learned = info.learned
	}
}

// recall adds the debt of a Store, and reports whether a block of it begins to hold here.
func (k *known) recall(debt rules.Refusals, now time.Duration) (blocked bool) {
	s := &k.refusals
	blocked = debt.Until > max(s.Until, now)
	if blocked {
		s.Until = debt.Until
		s.Cause = debt.Cause
		k.serverUntil = 0
		k.earliest = debt.Until
		k.blockSeen = now
	}
	s.Row = max(s.Row, debt.Row)
	s.Alone = s.Alone || debt.Row > 0 // the first request is a probe
	s.Learned = max(s.Learned, debt.Learned)
	k.version = -1 // any report of the server replaces them
	return blocked
}

// replace makes refusals, which a Memory without the server has saved, those of k. Their version is
// later than all that the server can have, whose clock shows at most the time latest.
func (k *known) replace(refusals rules.Refusals, latest int64) {
	k.refusals = refusals
	k.serverUntil = 0
	k.earliest = refusals.Until
	k.version = max(k.version+1, latest)
}

// A hostInfo is the server's report of a host, with each start and each answer.
type hostInfo struct {
	next        int64 // earliest next start
	adaptive    time.Duration
	delay       time.Duration // in force
	served      int           // successes since servedSince
	servedSince int64         // now, if none was counted
	until       int64         // end of the block
	setAt       int64         // when it was set
	cause       string
	alone       bool
	row         int // refusals in a row
	learned     time.Duration
	easedAt     int64
	version     int64  // of all from until on
	rest        string // of rules.Refusals, see rest; empty: nothing
}

const infoFields = 14

func newHostInfo(a []any) hostInfo {
	return hostInfo{
		next:        number(a[0]),
		adaptive:    duration(a[1]),
		delay:       duration(a[2]),
		served:      int(number(a[3])),
		servedSince: number(a[4]),
		until:       number(a[5]),
		setAt:       number(a[6]),
		cause:       text(a[7]),
		alone:       truth(a[8]),
		row:         int(number(a[9])),
		learned:     duration(a[10]),
		easedAt:     number(a[11]),
		version:     number(a[12]),
		rest:        text(a[13]),
	}
}

// rest returns the JSON of those fields of s that step.lua doesn't know; empty: nothing is left.
func rest(s rules.Refusals) string {
	s.Until = 0
	s.SetAt = 0
	s.Cause = ""
	s.EasedAt = 0
	if !isLeft(s) {
		return ""
	}
	text, _ := json.Marshal(s) // numbers and booleans
	return string(text)
}

// isLeft reports whether anything is left of s except the end of a block.
func isLeft(s rules.Refusals) bool {
	s.Until = 0
	s.SetAt = 0
	s.Cause = ""
	s.EasedAt = 0
	s.Served = 0
	s.Lessons = 0
	return s != (rules.Refusals{})
}
