package redislimit

import (
	"cmp"
	"time"

	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

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
func (k *known) learn(report wire.Report, at reply, server *clock.Server, restoring bool) (lifted bool) {
	now := at.received
	was := k.refusals.Until // as it is known before
	k.asOf = at.server
	if !restoring || report.Version > k.version {
		k.delay = report.Delay.Duration()
		k.served = report.Served
		since := cmp.Or(report.Since, at.server) // nothing was counted yet
		k.servedSince = server.Surely(since, now)
		k.learnRefusals(report, server, now)
	}
	// The end of the block is decided by itself: the server keeps the longer one when it restores.
	k.refusals.Until = was
	until := server.Surely(report.Until, now)
	over := report.Until <= at.server
	changed := over || report.Until != k.serverUntil
	longer := restoring && was > until
	if changed && !longer {
		k.serverUntil = report.Until
		k.refusals.Until = until
		k.earliest = server.Earliest(report.Until, now)
	}
	return over && was > now && !restoring
}

// learnRefusals stores the refusals of a report, but for the end of the block.
func (k *known) learnRefusals(report wire.Report, server *clock.Server, now time.Duration) {
	s := &k.refusals
	if report.Version != k.version {
		*s = readRest(report)
		k.version = report.Version
	}
	if s.Alone && !report.Alone {
		s.Clear(now) // the server has forgiven
	}
	s.SetAt = uint64(report.SetAt)
	s.Cause = report.Cause
	s.Alone = report.Alone
	s.EasedAt = server.Surely(report.EasedAt, now)
	if s.InARow() == 0 {
		s.Row = report.Row // sent to the server from a Store, which keeps no rest
	}
	if wire.MicrosOf(s.Learned) != report.Learned { // the server's microseconds are the same delay
		s.Learned = report.Learned.Duration()
	}
}

// readRest returns the refusals that a client has packed, without the fields that the report has by
// name. If something else has written them, the host refuses as the report says, and no more is
// known.
func readRest(report wire.Report) rules.Refusals {
	s, err := wire.ReadRefusals(report.Rest)
	if err != nil {
		return rules.Refusals{Row: report.Row, Alone: report.Alone}
	}
	return s
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
func (k *known) replace(refusals rules.Refusals, latest wire.Micros) {
	k.refusals = refusals
	k.serverUntil = 0
	k.earliest = refusals.Until
	k.version = max(k.version+1, int64(latest))
}

// rest returns those fields of s that step.lua doesn't know, packed; empty: nothing is left.
func rest(s rules.Refusals) string {
	if !isLeft(s) {
		return ""
	}
	return wire.PackRefusals(&s)
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
