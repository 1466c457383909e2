// Package known has what a process knows of a host, and what it does with a report of the server.
// It has neither a lock nor a clock of its own.
package known

import (
	"cmp"
	"time"

	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/redis/redislimit/internal/clock"
	"github.com/go-politeness/politeness/redis/redislimit/internal/wire"
)

// A Host is the part of a host that must survive a loss of the server's data: this process sends it
// to the server that has lost it. Times are on this process's clock.
type Host struct {
	Next    time.Duration // the next start isn't earlier
	Started bool          // there was a start here
	Last    time.Duration // the last start, or the end from which the gap counts, wasn't later
	LastBy  any           // the lease that started last here: its own next start owes it nothing
	Gap     time.Duration // after the last start here, also if the server has lost the key
	Source  string        // decided Gap

	Refusals    rules.Refusals
	ServerUntil wire.Micros   // Refusals.Until on the server's clock: one block has one end; 0: it isn't the server's
	Earliest    time.Duration // lower bound of Refusals.Until: the server's clock is known only within bounds
	Version     int64         // of Refusals, on the server; -1: this process has changed them
	AsOf        wire.Micros   // when the server reported the host last
	BlockSeen   time.Duration // when a block became known here: grants of before are void

	Delay       time.Duration // in force
	Served      int           // successes since ServedSince
	ServedSince time.Duration
}

// Owes reports whether the next start, a block, or refusals that aren't forgiven are left.
func (k *Host) Owes(now, forgive time.Duration) bool {
	if max(k.Next, k.Refusals.Until) > now {
		return true
	}
	forgiven := max(k.Refusals.Until, k.Last) + forgive
	return IsLeft(k.Refusals) && now < forgiven
}

// Begin stores a start by lease, which the next one follows after gap.
func (k *Host) Begin(lease any, now, gap time.Duration) {
	k.Started = true
	k.LastBy = lease
	k.Last = max(k.Last, now)
	k.Gap = gap
	k.Next = max(k.Next, now+gap)
}

// Finish makes the gap count from now, the end of a request. delay is that of its start.
func (k *Host) Finish(now, delay time.Duration) {
	running := k.Next - k.Last // may have become longer since the start
	k.Next = max(k.Next, now+max(delay, running))
	k.Last = max(k.Last, now)
}

// Raise makes the gap to the last start at least d, and reports whether there was one.
func (k *Host) Raise(d time.Duration) bool {
	if k.Started {
		k.Next = max(k.Next, k.Last+d)
	}
	return k.Started
}

// Learn stores a report that the server made at the time at of its clock, and reports whether it
// has lifted a block. The report holds also if it has less than k, because an operator may have
// lifted a block. But while the server waits for a restore, k holds unless the report is of a later
// version.
func (k *Host) Learn(
	report wire.Report, at wire.Micros, now time.Duration, server *clock.Server, restoring bool,
) (lifted bool) {
	was := k.Refusals.Until // as it is known before
	k.AsOf = at
	if !restoring || report.Version > k.Version {
		k.Delay = report.Delay.Duration()
		k.Served = report.Served
		since := cmp.Or(report.Since, at) // nothing was counted yet
		k.ServedSince = server.Surely(since, now)
		k.learnRefusals(report, server, now)
	}
	// The end of the block is decided separately, because at a restore the server keeps the later
	// end.
	k.Refusals.Until = was
	until := server.Surely(report.Until, now)
	over := report.Until <= at
	changed := over || report.Until != k.ServerUntil
	longer := restoring && was > until
	if changed && !longer {
		k.ServerUntil = report.Until
		k.Refusals.Until = until
		k.Earliest = server.Earliest(report.Until, now)
	}
	return over && was > now && !restoring
}

// learnRefusals stores the refusals of a report, but for the end of the block.
func (k *Host) learnRefusals(report wire.Report, server *clock.Server, now time.Duration) {
	s := &k.Refusals
	if report.Version != k.Version {
		*s = readRest(report)
		k.Version = report.Version
	}
	if s.Alone && !report.Alone {
		s.Clear(now) // the server has forgiven
	}
	s.SetAt = uint64(report.SetAt)
	s.Cause = report.Cause
	s.Alone = report.Alone
	s.EasedAt = server.Surely(report.EasedAt, now)
	if s.InARow() == 0 {
		s.Row = report.Row // the server has it from a Store, which keeps no Rest
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

// Recall adds the debt of a Store, and reports whether a block of it begins to hold here.
func (k *Host) Recall(debt rules.Refusals, now time.Duration) (blocked bool) {
	s := &k.Refusals
	blocked = debt.Until > max(s.Until, now)
	if blocked {
		s.Until = debt.Until
		s.Cause = debt.Cause
		k.ServerUntil = 0
		k.Earliest = debt.Until
		k.BlockSeen = now
	}
	s.Row = max(s.Row, debt.Row)
	s.Alone = s.Alone || debt.Row > 0 // the first request is a probe
	s.Learned = max(s.Learned, debt.Learned)
	k.Version = -1 // any report of the server replaces them
	return blocked
}

// Replace makes refusals, which a Memory without the server has saved, those of k. Their version is
// later than all that the server can have, whose clock shows at most the time latest.
func (k *Host) Replace(refusals rules.Refusals, latest wire.Micros) {
	k.Refusals = refusals
	k.ServerUntil = 0
	k.Earliest = refusals.Until
	k.Version = max(k.Version+1, int64(latest))
}

// Rest returns those fields of s that step.lua doesn't know, packed; empty: nothing is left.
func Rest(s rules.Refusals) string {
	if !IsLeft(s) {
		return ""
	}
	return wire.PackRefusals(&s)
}

// IsLeft reports whether anything is left of s except the end of a block.
func IsLeft(s rules.Refusals) bool {
	s.Until = 0
	s.SetAt = 0
	s.Cause = ""
	s.EasedAt = 0
	s.Served = 0
	s.Lessons = 0
	return s != (rules.Refusals{})
}
